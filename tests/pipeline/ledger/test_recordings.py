"""Recordings: an intent first, one for the same owner and bytes, none that another may see."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.ledger import keeping, recordings
from pipeline.ledger.database import Database
from pipeline.ledger.errors import CursorRefused, RecordingUnknown, UploadUnknown
from pipeline.ledger.recordings import Recording
from pipeline.records import Probe
from tests.pipeline.ledger.factories import digest, make_probe, rows, start
from tests.pipeline.ledger.racing import held_at

SHA256 = digest("bytes")
NOBODY = "c56a4180-65aa-42ec-a945-5fd21dec0538"


def begin(database: Database, owner: str = "ana", filename: str = "call.mp4") -> str:
    return recordings.begin_upload(database, owner=owner, filename=filename)


def finish(
    database: Database, upload_id: str, *, sha256: str = SHA256, probe: Probe | None = None
) -> Recording:
    return recordings.finish_upload(database, upload_id, sha256=sha256, size_bytes=11, probe=probe)


def test_an_upload_becomes_its_owners_recording(database: Database) -> None:
    recording = finish(database, begin(database), probe=make_probe())
    assert recording == recordings.get(database, recording.id, owner="ana")
    assert (recording.owner, recording.filename) == ("ana", "call.mp4")
    assert (recording.sha256, recording.size_bytes) == (SHA256, 11)
    assert recording.probe == make_probe()
    assert recording.is_stored


def test_the_intent_is_there_before_and_closed_after(database: Database) -> None:
    upload_id = begin(database)
    columns = "SELECT owner, closed_at IS NULL, recording_id::text FROM uploads"
    assert rows(database, columns) == [("ana", True, None)]
    recording = finish(database, upload_id)
    assert rows(database, columns) == [("ana", False, recording.id)]


def test_the_same_bytes_of_one_owner_are_one_recording(database: Database) -> None:
    first = finish(database, begin(database), probe=None)
    again = finish(database, begin(database, filename="copy.mp4"), probe=make_probe())
    assert (again.id, again.filename) == (first.id, "call.mp4")
    assert again.probe == make_probe()
    assert finish(database, begin(database)).probe == make_probe()


def test_the_same_bytes_of_two_owners_are_two_recordings_on_one_blob(database: Database) -> None:
    ours = finish(database, begin(database, "ana"))
    theirs = finish(database, begin(database, "bob"))
    assert ours.id != theirs.id
    assert rows(database, "SELECT count(*) FROM blobs") == [(1,)]


def test_the_same_bytes_by_two_owners_at_once(database: Database) -> None:
    owners = ("ana", "bob", "ana")
    uploads = [begin(database, owner) for owner in owners]
    ana, bob, again = held_at(
        database,
        "LOCK TABLE blobs IN EXCLUSIVE MODE",
        *(lambda upload_id=upload_id: finish(database, upload_id) for upload_id in uploads),
    )
    assert (ana.owner, bob.owner, again.id) == ("ana", "bob", ana.id)
    assert ana.id != bob.id
    assert rows(database, "SELECT count(*), min(size_bytes) FROM blobs") == [(1, 11)]


def test_an_upload_finished_twice_at_once_is_one_recording(database: Database) -> None:
    upload_id = begin(database)
    call = lambda: finish(database, upload_id)  # noqa: E731
    first, second = held_at(database, "SELECT 1 FROM uploads FOR UPDATE", call, call)
    assert first == second


def test_a_finish_may_be_repeated(database: Database) -> None:
    upload_id = begin(database)
    assert finish(database, upload_id) == finish(database, upload_id)


def test_a_local_recordings_blob_becomes_a_stored_one(database: Database) -> None:
    start(database)
    [(recording_id, sha256)] = rows(database, "SELECT id::text, blob_sha256 FROM recordings")
    local = recordings.get(database, recording_id, owner="local")
    assert not local.is_stored
    finish(database, begin(database), sha256=sha256)
    assert recordings.get(database, recording_id, owner="local").is_stored


def test_a_named_upload_holds_its_blob_until_it_is_closed(database: Database) -> None:
    finished, abandoned = begin(database), begin(database)
    for upload_id in (finished, abandoned, finished):
        recordings.name_upload(database, upload_id, sha256=SHA256, size_bytes=11)
    named = "SELECT count(*) FROM uploads WHERE blob_sha256 IS NOT NULL"
    assert rows(database, named) == [(2,)]
    assert rows(database, "SELECT stored_at FROM blobs") == [(None,)]
    finish(database, finished)
    recordings.abandon_upload(database, abandoned)
    recordings.name_upload(database, finished, sha256=SHA256, size_bytes=11)
    assert rows(database, named) == [(0,)]
    assert rows(database, "SELECT stored_at IS NULL FROM blobs") == [(False,)]


def test_an_abandoned_upload_cannot_be_finished(database: Database) -> None:
    upload_id = begin(database)
    recordings.abandon_upload(database, upload_id)
    recordings.abandon_upload(database, upload_id)
    with pytest.raises(UploadUnknown):
        finish(database, upload_id)
    with pytest.raises(UploadUnknown):
        recordings.name_upload(database, upload_id, sha256=SHA256, size_bytes=11)
    assert rows(database, "SELECT count(*) FROM recordings") == [(0,)]


def test_a_finished_upload_cannot_be_abandoned(database: Database) -> None:
    upload_id = begin(database)
    recording = finish(database, upload_id)
    recordings.abandon_upload(database, upload_id)
    assert finish(database, upload_id) == recording


@pytest.mark.parametrize("upload_id", [NOBODY, "", "../x"])
def test_what_is_no_upload_is_unknown(database: Database, upload_id: str) -> None:
    recordings.abandon_upload(database, upload_id)
    with pytest.raises(UploadUnknown):
        finish(database, upload_id)


def test_anothers_recording_looks_like_none(database: Database) -> None:
    recording = finish(database, begin(database))
    for recording_id, owner in ((recording.id, "bob"), (NOBODY, "bob"), ("x", "bob"), ("x", None)):
        with pytest.raises(RecordingUnknown) as refusal:
            recordings.get(database, recording_id, owner=owner)
        assert refusal.value.message == "There is no such recording."
    assert recordings.get(database, recording.id, owner=None) == recording


def test_pages_are_newest_first_of_whose_and_which_were_asked_for(database: Database) -> None:
    made = [
        finish(database, begin(database, owner), sha256=digest(f"{place}")).id
        for place, owner in enumerate(("ana", "bob", "ana", "ana", "bob"))
    ]
    # Two of one moment are told apart by their ids.
    rows(database, "UPDATE recordings SET created_at = '2026-01-01T00:00Z' RETURNING 1")
    for place, recording_id in enumerate(made[2:], start=1):
        moment = f"UPDATE recordings SET created_at = '2026-01-02T0{place}:00Z' WHERE id = :id"
        rows(database, f"{moment} RETURNING 1", id=recording_id)
    newest = [*reversed(made[2:]), *sorted(made[:2], reverse=True)]
    for place in (0, 3):
        keeping.hold_recording(database, made[place], is_held=True, then=lambda _: None)

    def listed(limit: int = 1, **asked: Any) -> list[str]:
        found, after = recordings.page(database, limit=limit, **({"owner": None} | asked))
        ids = [recording.id for recording in found]
        return ids if after is None else [*ids, *listed(limit, **(asked | {"after": after}))]

    assert [listed(limit) for limit in (1, 2, 5, 6)] == [newest] * 4
    assert listed(owner="ana") == [made[3], made[2], made[0]]
    assert listed(is_held=True) == [made[3], made[0]]
    assert listed(is_held=False, owner="bob") == [made[4], made[1]]
    assert listed(is_held=True, owner="bob") == []
    with pytest.raises(CursorRefused):
        listed(after="x")
