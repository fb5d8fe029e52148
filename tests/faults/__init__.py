"""Faults in real processes, real PostgreSQL and real Valkey, and what must hold after each.

`invariants` holds the six promises; a fault's test ends with them. By number, what is injected and
where it is tested (without a folder: in this package):

 1 kill inside a unit              test_kills::a_killed_process…[in_unit, before_unit_commit]
                                   worker/test_worker::a_killed_process…
 2 kill after a unit's commit      test_kills::a_killed_process…[after_unit_commit]
 3 kill after the claim            test_kills::a_killed_process…[after_claim]
 4 kill around the finish          test_kills::a_killed_process…[before_finish],
                                   ::a_process_killed_after_its_end_was_stored…
 5 told to go, twice, SIGQUIT      worker/test_ends::who_is_told_to_go…
 6 a grace that is too short       test_kills::a_grace_that_is_too_short…
 7 queue restarted with its file   test_broker::a_queue_that_goes…[restarted]
 8 queue emptied, lost             test_broker::a_queue_that_goes…[emptied, lost with its data]
 9 queue away or silent at a POST  test_api::a_job_is_taken_while_the_queue_is_away…
                                   test_broker::a_queue_that_stops_answering…, worker/test_ends
10 queue full; one that evicts     test_broker::a_full_queue…, worker/test_startup::…that_evicts…
11 API killed before its bell      test_api::a_job_whose_bell_died_with_the_api…, api/test_jobs
   and in an upload, in a submit   test_server, api/test_tus_server
12 ten bells at any moment         test_broker::ten_bells…, worker/test_worker::a_queued_job…
13 another worker; bells kept      test_broker::another_applications_worker…
14 fifty claims of one slot        test_slots (also of fifty slots), pipeline/ledger/test_claims
15 stopped past its lease          test_kills::a_stopped_process…, ::a_zombie_of_another_host…
16 reaper against finish           pipeline/ledger/test_races
17 database restarted, mid-commit  test_database::restarts…, ::a_commit_whose_outcome…,
                                   ::an_outage_past_the_budget…
18 database full, disk full        test_database::a_database_on_a_disk_that_fills_up…,
                                   ::a_database_without_room_for_its_log…,
                                   ::a_file_system_that_is_full… (disks that are full, where the
                                   kernel lets everybody mount one); ::a_database_without_room…,
                                   ::a_disk_that… (told so, anywhere); worker/test_room (the mark)
19 cancel, at every state          test_api::a_cancel_ends_what_it_finds…,
                                   ::a_cancel_while_no_worker_is_there…
20 clocks wrong and stepping       test_clocks (of all that a process calls, and the database's,
                                   where libfaketime is; Python's anywhere)
21 hang in native code             test_kills::a_hang_in_native_code…,
                                   ::a_process_that_cannot_be_killed…, worker/test_reaper
22 a unit that ends too late       test_kills::a_unit_that_ends_too_late…
23 hostile recordings              pipeline/media/, pipeline/test_media_killed
24 out of device memory, of memory test_kills::what_has_no_memory_left… (a limit of the process's
                                   own), ::whom_the_kernel_kills… (a SIGKILL for the process that
                                   the kernel thinks worst of, as it takes memory)
25 a start that is not there; two  test_api::a_start_that_is_not_in_the_recording…,
   admins run it again             ::two_admins…, pipeline/ledger/test_reruns
26 a storm of all these            test_chaos; for hours: `make chaos`
27 no engine, no driver            worker/test_native::…not_load…, worker/test_ends::…not_load…
28 any order of all events         pipeline/ledger/test_state_machine
"""
