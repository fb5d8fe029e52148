"""A worker whose recordings lie in a bucket: brought here for the run, and gone after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.ledger import bucket as bucket_module
from pipeline.ledger import jobs, starts
from pipeline.ledger.database import Database
from pipeline.ledger.storage import open_storage
from pipeline.records import EndReason, JobState, Phase
from tests.bucket import Faults, breaking, client, made_bucket
from tests.doubles import ScriptedEngine, block
from tests.hosts import until
from tests.worker.conftest import SAMPLE_SHA256, Host
from worker import station
from worker.slot import slot_name
from worker.station import Station

SILENT_S = 0.5

KEY = f"kept/{SAMPLE_SHA256[:2]}/{SAMPLE_SHA256}"


@pytest.fixture
def between(s3_url: str) -> Iterator[tuple[str, Faults]]:
    with breaking(s3_url) as found:
        yield found


@pytest.fixture
def bucket(s3_url: str) -> str:
    return made_bucket(s3_url)


@pytest.fixture
def host(make_host: Callable[..., Host], bucket: str, between: tuple[str, Faults]) -> Host:
    return make_host(blobs=f"s3://{bucket}/kept", s3_endpoint=between[0], engine="rehearsal")


def submit(host: Host, *, engine: str = "rehearsal", start_s: int = 66) -> str:
    return host.submit(engine=engine, start_s=start_s)


def run(host: Host) -> Station:
    made = Station(host.settings, engine=RehearsalEngine(), database=host.database)
    assert made.work()
    return made


def end_of(host: Host, job_id: str) -> tuple[JobState, str | None, str]:
    dossier = host.ended(job_id)
    (epoch,) = dossier.epochs
    return dossier.state, epoch.end_reason, epoch.end_detail or ""


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_recording_is_brought_for_the_run_and_its_frames_are_kept_for_every_host(
    host: Host, bucket: str, s3_url: str
) -> None:
    job_id = submit(host, start_s=20)
    run(host)
    assert end_of(host, job_id) == (JobState.SUCCEEDED, EndReason.COMPLETED.value, "")
    assert files(host.settings.data_dir / "blobs") == []
    dossier = host.ended(job_id)
    assert [unit.second for unit in dossier.units if unit.second is not None] == [*range(20, 72)]
    (frame, *_) = [frame for found in dossier.findings for frame in found.origin.frames]
    assert open_storage(host.settings).frames.read(frame.sha256)[:2] == b"\xff\xd8"
    assert not (host.settings.data_dir / "frames").exists()


@pytest.mark.parametrize("state", ["gone", "damaged", "short"])
def test_a_recording_that_is_not_there_as_it_was_fails_its_job_and_says_why(
    host: Host, bucket: str, s3_url: str, state: str
) -> None:
    job_id = submit(host)
    outside = client(s3_url)
    content = outside.get_object(Bucket=bucket, Key=KEY)["Body"].read()
    if state == "gone":
        outside.delete_object(Bucket=bucket, Key=KEY)
    else:
        other = content[:-1] if state == "short" else content[:-1] + bytes([content[-1] ^ 1])
        outside.put_object(Bucket=bucket, Key=KEY, Body=other)
    run(host)
    *ended, detail = end_of(host, job_id)
    assert ended == [JobState.FAILED, EndReason.DECODE_ERROR.value]
    assert ("not in this worker's storage" if state == "gone" else "not those") in detail
    assert host.ended(job_id).units == ()
    assert files(host.settings.data_dir / "blobs") == []
    assert host.held() == 0


def test_a_storage_that_is_away_fails_the_job_under_its_own_name(
    host: Host, bucket: str, s3_url: str, between: tuple[str, Faults]
) -> None:
    job_id = submit(host)
    between[1].cuts = [1000] + [0] * 20  # it breaks off while the recording is brought
    run(host)
    *ended, detail = end_of(host, job_id)
    assert ended == [JobState.FAILED, EndReason.STORAGE_UNAVAILABLE.value]
    assert "storage" in detail
    assert "127.0.0.1" not in detail
    assert host.ended(job_id).units == ()
    assert detail in host.brief(job_id)["provenance"]["epochs"][0]["end_detail"]
    assert files(host.settings.data_dir / "blobs") == []
    assert host.held() == 0


def test_a_storage_that_goes_away_in_between_keeps_what_was_completed(
    host: Host, bucket: str, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_module, "ATTEMPTS", 1)
    job_id = submit(host, engine="scripted")
    outside = client(s3_url)

    def away() -> None:
        outside.delete_object(Bucket=bucket, Key=KEY)
        outside.delete_bucket(Bucket=bucket)

    engine = ScriptedEngine({3: block() + ScriptedEngine.END}, before={2: away})
    assert Station(host.settings, engine=engine, database=host.database).work()
    state, reason, _ = end_of(host, job_id)
    assert (state, reason) == (JobState.FAILED, EndReason.STORAGE_UNAVAILABLE.value)
    # The frame of the fourth second's finding could not be kept, so that its row was not written.
    assert [unit.second for unit in host.ended(job_id).units] == [66, 67, 68]


def test_a_worker_that_is_told_to_go_does_not_bring_the_rest(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit(host)
    made = Station(host.settings, engine=RehearsalEngine(), database=host.database)
    monkeypatch.setattr(station, "STAMP_S", 0.0)
    monkeypatch.setattr(bucket_module, "PIECE_BYTES", 1 << 16)
    entered: list[object] = []
    enter = station.epochs.enter

    def leaving(*given: object) -> None:
        enter(*given)
        entered.append(given[-1])
        if len(entered) == 3:  # the first is the loop's own
            made.leave()

    monkeypatch.setattr(station.epochs, "enter", leaving)
    assert made.work()
    assert len(entered) == 3
    state, reason, _ = end_of(host, job_id)
    assert (state, reason) == (JobState.FAILED, EndReason.WORKER_SHUTDOWN.value)
    assert host.ended(job_id).units == ()


def test_a_job_that_is_canceled_while_its_recording_is_brought_ends_before_the_rest_is(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit(host)
    monkeypatch.setattr(station, "STAMP_S", 0.0)
    monkeypatch.setattr(bucket_module, "PIECE_BYTES", 1 << 16)
    entered: list[object] = []
    enter = station.epochs.enter

    def canceling(*given: object) -> None:
        enter(*given)
        entered.append(given[-1])
        if len(entered) == 3:  # the first is the loop's own
            jobs.request_cancel(host.database, job_id)

    monkeypatch.setattr(station.epochs, "enter", canceling)
    run(host)
    assert entered[3:] == [Phase.PUBLISH]
    assert end_of(host, job_id)[:2] == (JobState.CANCELED, EndReason.CANCELED.value)
    assert host.ended(job_id).units == ()
    assert files(host.settings.data_dir / "blobs") == []


def test_a_silent_storage_is_no_progress_and_does_not_hold_up_a_cancel(
    host: Host, between: tuple[str, Faults], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit(host)
    between[1].silence = threading.Event()
    monkeypatch.setattr(station, "STAMP_S", 0.0)
    entered: list[object] = []
    enter, state_of = station.epochs.enter, station.jobs.state_of
    looks: list[str] = []

    def entering(*given: object) -> None:
        entered.append(given[-1])
        enter(*given)

    def looking(database: Database, wanted: str) -> JobState:
        looks.append(wanted)
        if len(looks) == 2:
            jobs.request_cancel(host.database, job_id)
        return state_of(database, wanted)

    monkeypatch.setattr(station.epochs, "enter", entering)
    monkeypatch.setattr(station.jobs, "state_of", looking)
    run(host)
    assert end_of(host, job_id)[:2] == (JobState.CANCELED, EndReason.CANCELED.value)
    assert entered == [Phase.PREPARE, Phase.PUBLISH]
    assert len(looks) == 2


def test_the_time_until_a_recording_comes_is_measured_as_its_workers_start(
    host: Host, between: tuple[str, Faults]
) -> None:
    submit(host, start_s=70)
    faults = between[1]
    faults.silence = silence = threading.Event()
    faults.asked.clear()

    def speak() -> None:
        until(lambda: any(asked.startswith("GET") for asked in faults.asked))
        time.sleep(SILENT_S)
        silence.set()

    threading.Thread(target=speak).start()
    began = time.monotonic()
    run(host)
    passed_s = time.monotonic() - began
    with host.database.transaction() as session:
        found = starts.measured(session, "rehearsal")
    assert found is not None
    assert SILENT_S <= found.of(slot_name(host.settings)) < passed_s


def test_the_bringing_is_progress(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = submit(host)
    monkeypatch.setattr(station, "STAMP_S", 0.0)
    entered: list[str] = []
    enter = station.epochs.enter
    monkeypatch.setattr(
        station.epochs, "enter", lambda *given: (entered.append(given[-1].value), enter(*given))
    )
    run(host)
    assert end_of(host, job_id)[0] is JobState.SUCCEEDED
    assert entered.count("prepare") > 1  # once is the loop's
