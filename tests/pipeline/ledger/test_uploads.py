"""Uploads under way: how far one has come, and when it is given up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pipeline.ledger import recordings, uploads
from pipeline.ledger.database import Database
from pipeline.ledger.errors import LedgerRefused, UploadGone, UploadUnknown
from pipeline.ledger.uploads import Upload
from tests.pipeline.ledger.factories import digest, make_probe, rows
from tests.pipeline.ledger.racing import held_at

NOBODY = "c56a4180-65aa-42ec-a945-5fd21dec0538"
PAST = timedelta(seconds=-1)


def begin(database: Database, length_bytes: int = 10) -> Upload:
    return uploads.begin(
        database, owner="ana", filename="a.mp4", metadata=None, length_bytes=length_bytes
    )


def plain(database: Database) -> str:
    return recordings.begin_upload(database, owner="ana", filename="a.mp4")


def test_an_upload_moves_on_and_is_waited_for_a_day_from_then(database: Database) -> None:
    upload = begin(database)
    uploads.renew(database, upload.id, lifetime=timedelta(minutes=1))
    moved = uploads.advance(database, upload.id, offset_bytes=7)
    assert (moved.offset_bytes, moved.length_bytes, moved.is_open) == (7, 10, True)
    assert moved.expires_at - upload.expires_at < timedelta(minutes=1)
    assert moved.expires_at >= upload.expires_at
    assert moved.expires_at - moved.created_at >= timedelta(hours=24)
    for wrong in (-1, 11):
        with pytest.raises(LedgerRefused):
            uploads.advance(database, upload.id, offset_bytes=wrong)
    assert uploads.get(database, upload.id, owner="ana") == moved


def test_an_upload_is_its_owners_and_one_that_comes_at_once_is_none(database: Database) -> None:
    upload = begin(database)
    assert uploads.get(database, upload.id, owner=None) == upload
    for upload_id, owner in ((upload.id, "bob"), (plain(database), "ana"), (NOBODY, None)):
        with pytest.raises(UploadUnknown):
            uploads.get(database, upload_id, owner=owner)
    with pytest.raises(UploadUnknown):
        uploads.get(database, "x", owner=None)


def test_what_has_ended_moves_no_more(database: Database) -> None:
    ended, refused, done = begin(database), begin(database), begin(database)
    recordings.abandon_upload(database, ended.id)
    uploads.refuse(database, refused.id, code="no_streams", message="nothing is in it")
    recordings.finish_upload(
        database, done.id, sha256=digest("a"), size_bytes=10, probe=make_probe()
    )
    for upload in (ended, refused, done):
        with pytest.raises(UploadGone):
            uploads.advance(database, upload.id, offset_bytes=1)
        with pytest.raises(UploadGone):
            uploads.renew(database, upload.id)
    uploads.refuse(database, done.id, code="late", message="too late")
    kept = uploads.get(database, done.id, owner="ana")
    assert (kept.refusal, kept.is_open, kept.recording_id is not None) == (None, False, True)
    reason = uploads.get(database, refused.id, owner="ana").refusal
    assert reason is not None
    assert (reason.code, reason.message) == ("no_streams", "nothing is in it")


def test_only_what_is_open_and_past_its_time_is_given_up(database: Database) -> None:
    going, old, killed, done = begin(database), begin(database), plain(database), begin(database)
    for upload_id in (old.id, killed, done.id):
        uploads.renew(database, upload_id, lifetime=PAST)
    recordings.finish_upload(database, done.id, sha256=digest("a"), size_bytes=10, probe=None)
    assert not uploads.get(database, old.id, owner="ana").is_open
    discarded: list[str] = []
    assert uploads.expire(database, discarded.append) == 2
    assert set(discarded) == {old.id, killed}
    assert uploads.expire(database, discarded.append) == 0
    assert rows(database, "SELECT id::text FROM uploads WHERE closed_at IS NULL") == [(going.id,)]
    with pytest.raises(UploadUnknown):
        recordings.finish_upload(database, killed, sha256=digest("b"), size_bytes=1, probe=None)
    asked = [going.id, old.id, killed, done.id, NOBODY, "README"]
    assert set(uploads.closed(database, asked)) == {old.id, killed, done.id}


def test_bytes_that_cannot_be_removed_are_tried_again(database: Database) -> None:
    upload = begin(database)
    uploads.renew(database, upload.id, lifetime=PAST)

    def fail(upload_id: str) -> None:
        raise OSError(upload_id)

    with pytest.raises(OSError, match=upload.id):
        uploads.expire(database, fail)
    discarded: list[str] = []
    assert uploads.expire(database, discarded.append) == 1
    assert discarded == [upload.id]


def test_two_who_sweep_at_once_remove_each_upload_once(database: Database) -> None:
    for _ in range(3):
        uploads.renew(database, begin(database).id, lifetime=PAST)
    discarded: list[str] = []
    call = lambda: uploads.expire(database, discarded.append)  # noqa: E731
    counts = held_at(database, "LOCK TABLE uploads IN ACCESS EXCLUSIVE MODE", call, call)
    assert sum(counts) == len(discarded) == len(set(discarded)) == 3
