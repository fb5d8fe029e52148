"""The sweep: only what no row names goes, and no row is ever left without its bytes."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.ledger import epochs, idempotency, jobs, recordings, sweep, uploads
from pipeline.ledger.bucket import Bucket
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import BlobMissing, FrameMissing, JobUnknown
from pipeline.ledger.frames import BucketFrames, FolderFrames
from pipeline.ledger.recordings import Recording
from pipeline.ledger.storage import Storage, open_storage
from pipeline.ledger.sweep import Swept
from pipeline.records import EndReason
from pipeline.settings import Settings
from tests.bucket import client, made_bucket
from tests.pipeline.ledger.factories import (
    cited,
    make_finding,
    make_frame,
    make_origin,
    record_unit,
    rows,
    start,
)
from tests.pipeline.ledger.racing import WAITING

CONTENT = b"a recording"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()
LONG_AGO_S = time.time() - 40 * 3600


@dataclass
class Place:
    """One installation, and what a test sees of it from outside."""

    settings: Settings
    storage: Storage
    database: Database

    def sweep(self, **settings: Any) -> Swept:
        is_dry_run = settings.pop("is_dry_run", False)
        return sweep.sweep(
            self.database,
            self.storage,
            replace(self.settings, **settings),
            is_dry_run=is_dry_run,
        )

    def named(self) -> str:
        """An upload whose bytes are about to be stored."""
        upload_id = recordings.begin_upload(self.database, owner="ana", filename="call.mp4")
        self.storage.blobs.begin(upload_id).write_bytes(CONTENT)
        recordings.name_upload(self.database, upload_id, sha256=SHA256, size_bytes=len(CONTENT))
        return upload_id

    def finished(self, upload_id: str, then: Callable[..., None] | None = None) -> Recording:
        self.storage.blobs.commit(upload_id, SHA256)
        return recordings.finish_upload(
            self.database,
            upload_id,
            sha256=SHA256,
            size_bytes=len(CONTENT),
            probe=None,
            then=then,
        )

    def uploaded(self) -> Recording:
        return self.finished(self.named())

    def bytes_are_there(self) -> bool:
        try:
            with self.storage.blobs.local(SHA256) as path:
                return path.read_bytes() == CONTENT
        except BlobMissing:
            return False

    def files(self) -> set[str]:
        root = self.settings.data_dir
        found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
        if self.settings.blobs is not None:
            name, _, prefix = self.settings.blobs.removeprefix("s3://").partition("/")
            listed = client(str(self.settings.s3_endpoint)).list_objects_v2(Bucket=name)
            keys = [found["Key"] for found in listed.get("Contents", [])]
            found |= {key.removeprefix(f"{prefix}/") for key in keys}
        return found


def unname(database: Database) -> None:
    """As a deleted recording leaves its blob."""
    rows(database, "DELETE FROM uploads RETURNING 1")
    rows(database, "DELETE FROM recordings RETURNING 1")


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, database: Database) -> Place:
    settings = Settings(data_dir=tmp_path / "data", free_bytes_min=0)
    if request.param == "bucket":
        url = request.getfixturevalue("s3_url")
        settings = replace(settings, blobs=f"s3://{made_bucket(url)}/kept", s3_endpoint=url)
    return _aged(settings, database)


@pytest.fixture
def folder(tmp_path: Path, database: Database) -> Place:
    return _aged(Settings(data_dir=tmp_path / "data", free_bytes_min=0), database)


def _aged(settings: Settings, database: Database) -> Place:
    """Whose database is older than any file of a test."""
    rows(
        database,
        "INSERT INTO audit (owner, action, subject, detail, at)"
        " VALUES ('ana', 'a', 'b', '{}', now() - interval '90 days') RETURNING 1",
    )
    return Place(settings=settings, storage=open_storage(settings), database=database)


@pytest.fixture
def ageless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is there is old enough to go: a service's clock cannot be turned back."""
    monkeypatch.setattr(sweep, "AGE", timedelta(seconds=-60))


@pytest.mark.usefixtures("ageless")
def test_what_is_named_stays_and_goes_once_it_is_not(place: Place) -> None:
    key = start(place.database)
    frame = make_frame(0)
    place.storage.frames.keep(frame)
    origin = make_origin(frames=(cited(frame),))
    record_unit(place.database, key, texts=[make_finding(origin=origin)], frames=[frame])
    place.uploaded()
    assert place.sweep() == Swept()
    assert place.bytes_are_there()
    assert place.storage.frames.read(frame.sha256) == frame.jpeg

    end(place.database, key)
    unname_job(place.database, key)
    rows(place.database, "DELETE FROM uploads RETURNING 1")
    rows(place.database, "DELETE FROM recordings RETURNING 1")
    may_go = Swept(blobs=2, frames=1, freed_bytes=len(CONTENT) + len(frame.jpeg))
    before = place.files()
    assert place.sweep(is_dry_run=True) == may_go
    assert place.files() == before
    if place.settings.blobs is None:
        assert place.sweep() == may_go
    else:
        assert place.sweep() == Swept(blobs=2, freed_bytes=len(CONTENT))
        assert place.storage.frames.read(frame.sha256) == frame.jpeg  # laid aside
        assert place.sweep() == Swept(frames=1, freed_bytes=len(frame.jpeg))
    assert not place.bytes_are_there()
    with pytest.raises(FrameMissing):
        place.storage.frames.read(frame.sha256)
    assert rows(place.database, "SELECT 1 FROM blobs") == []
    assert place.files() == set()
    assert place.sweep() == Swept()


def end(database: Database, key: EpochKey) -> None:
    jobs.give_up(database, key, end_reason=EndReason.WORKER_LOST)
    epochs.release(database, key)


def unname_job(database: Database, key: EpochKey) -> None:
    from pipeline.ledger import deletion

    deletion.delete_job(database, key.job_id, owner=None)


@pytest.mark.usefixtures("ageless")
@pytest.mark.parametrize("has_row", [True, False], ids=["a row", "no row"])
def test_an_upload_of_the_same_bytes_waits_for_their_removal_and_ends_with_bytes(
    place: Place, has_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.uploaded()
    unname(place.database)
    if not has_row:
        rows(place.database, "DELETE FROM blobs RETURNING 1")
    remove = place.storage.blobs.remove
    is_removing, may_remove = threading.Event(), threading.Event()

    def paused(sha256: str) -> None:
        is_removing.set()
        assert may_remove.wait(20)
        remove(sha256)

    monkeypatch.setattr(place.storage.blobs, "remove", paused)
    with ThreadPoolExecutor(2) as threads:
        sweeping = threads.submit(place.sweep)
        assert is_removing.wait(20)
        uploading = threads.submit(place.uploaded)
        deadline = time.monotonic() + 15
        while not uploading.done() and rows(place.database, WAITING) != [(1,)]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        may_remove.set()
        recording = uploading.result(20)
        assert sweeping.result(20).blobs == 1
    assert recordings.get(place.database, recording.id, owner="ana").is_stored
    assert place.bytes_are_there()


@pytest.mark.usefixtures("ageless")
def test_bytes_that_somebody_is_about_to_store_are_spared_until_they_have_a_name(
    place: Place,
) -> None:
    place.uploaded()
    unname(place.database)
    upload_id = place.named()  # before the sweep looks
    assert place.sweep().blobs == 0
    found: list[int] = []
    # Within the transaction that names them for good: its lock is passed by, not waited for.
    recording = place.finished(upload_id, lambda *_: found.append(place.sweep().blobs))
    assert found == [0]
    assert place.sweep().blobs == 0
    assert recordings.get(place.database, recording.id, owner="ana").is_stored
    assert place.bytes_are_there()


@pytest.mark.usefixtures("ageless")
@pytest.mark.parametrize("locked", [1, 2], ids=["before it", "half-way"])
def test_bytes_that_get_a_name_after_the_look_stay(
    folder: Place, locked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.uploaded()
    unname(folder.database)
    lock, calls = sweep._lock_unnamed, []

    def named_meanwhile(*given: Any) -> bool:
        calls.append(given)
        if len(calls) == locked:
            folder.uploaded()
        return lock(*given)

    monkeypatch.setattr(sweep, "_lock_unnamed", named_meanwhile)
    assert folder.sweep().blobs == 0
    assert len(calls) == locked
    assert folder.bytes_are_there()
    assert rows(folder.database, "SELECT 1 FROM blobs WHERE stored_at IS NOT NULL") == [(1,)]


@pytest.mark.usefixtures("ageless")
@pytest.mark.parametrize("is_gone", [True, False], ids=["file gone", "file there"])
def test_a_sweep_that_is_killed_leaves_no_row_that_promises_bytes(
    folder: Place, is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.uploaded()
    unname(folder.database)
    remove = folder.storage.blobs.remove

    def killed(sha256: str) -> None:
        if is_gone:
            remove(sha256)
        raise OSError("killed")

    monkeypatch.setattr(folder.storage.blobs, "remove", killed)
    with pytest.raises(OSError, match="killed"):
        folder.sweep()
    monkeypatch.undo()
    assert rows(folder.database, "SELECT stored_at FROM blobs") == [(None,)]
    monkeypatch.setattr(sweep, "AGE", timedelta(seconds=-60))
    assert folder.sweep().blobs == 1
    assert folder.files() == set()
    assert rows(folder.database, "SELECT 1 FROM blobs") == []
    folder.uploaded()
    assert folder.bytes_are_there()


@pytest.mark.usefixtures("ageless")
def test_several_sweeps_at_once_end_well_and_leave_nothing(place: Place) -> None:
    place.uploaded()
    unname(place.database)
    for number in range(8):
        place.storage.frames.keep(make_frame(number))
    with ThreadPoolExecutor(3) as threads:
        swept = [one.result(60) for one in [threads.submit(place.sweep) for _ in range(3)]]
    if place.settings.blobs is not None:
        swept.append(place.sweep())  # what was laid aside
    # Storage tells nobody whether there was anything to remove, so that two may count it.
    assert sum(one.blobs for one in swept) >= 1
    assert sum(one.frames for one in swept) >= 8
    assert place.files() == set()
    assert rows(place.database, "SELECT 1 FROM blobs") == []


def make_old(path: Path) -> None:
    os.utime(path, (LONG_AGO_S, LONG_AGO_S), follow_symlinks=False)


def test_bytes_are_spared_for_a_day_by_the_row_and_by_the_file(folder: Place) -> None:
    folder.uploaded()
    unname(folder.database)
    stray = folder.settings.data_dir / "blobs" / OTHER[:2] / OTHER
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"other")
    frame = make_frame(0)
    folder.storage.frames.keep(frame)
    assert folder.sweep() == Swept()
    rows(folder.database, "UPDATE blobs SET created_at = now() - interval '40 h' RETURNING 1")
    assert folder.sweep() == Swept()
    rows(folder.database, "UPDATE blobs SET stored_at = now() - interval '40 h' RETURNING 1")
    make_old(stray)
    assert isinstance(folder.storage.frames, FolderFrames)
    make_old(folder.storage.frames.path(frame.sha256))
    folder.storage.frames.keep(frame)  # wanted again, before its row
    assert folder.sweep() == Swept(blobs=2, freed_bytes=len(CONTENT) + 5)
    make_old(folder.storage.frames.path(frame.sha256))
    assert folder.sweep() == Swept(frames=1, freed_bytes=len(frame.jpeg))


def test_a_frame_that_is_kept_while_it_is_removed_stays(
    folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, frame = folder.storage.frames, make_frame(0)
    assert isinstance(frames, FolderFrames)
    rename = Path.rename

    def keep_before(self: Path, target: Path) -> Path:
        frames.keep(frame)
        return rename(self, target)

    def keep_after(self: Path, target: Path) -> Path:
        renamed = rename(self, target)
        frames.keep(frame)
        return renamed

    for keep in (keep_before, keep_after):
        frames.keep(frame)
        make_old(frames.path(frame.sha256))
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", keep)
            folder.sweep()
        assert frames.read(frame.sha256) == frame.jpeg
        assert len(folder.files()) == 1


@pytest.mark.parametrize("place", ["bucket"], indirect=True)
def test_a_frame_that_is_kept_while_a_bucket_loses_it_is_never_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, frame = place.storage.frames, make_frame(0)
    assert isinstance(frames, BucketFrames)
    remove, copy = Bucket.remove, Bucket.copy
    kept: list[str] = []

    def keep(where: str) -> None:
        kept.append(where)
        frames.keep(frame)

    def keep_before_it_goes(self: Bucket, key: str) -> None:
        keep(key)
        remove(self, key)

    def keep_before_the_copy(self: Bucket, key: str, target: str) -> None:
        keep(key)
        copy(self, key, target)

    for name, patch in (("remove", keep_before_it_goes), ("copy", keep_before_the_copy)):
        frames.keep(frame)
        with monkeypatch.context() as patched:
            patched.setattr(Bucket, name, patch)
            assert not frames.remove(frame.sha256, since=time.time() + 60)
        assert frames.read(frame.sha256) == frame.jpeg
        # By now it has its row, or is young enough to be waited for.
        assert place.sweep().frames == 0
        assert frames.read(frame.sha256) == frame.jpeg
    assert len(kept) == 2


@pytest.mark.usefixtures("ageless")
@pytest.mark.parametrize("place", ["bucket"], indirect=True)
def test_a_frame_laid_aside_that_is_kept_again_outlives_what_was_laid_aside(place: Place) -> None:
    frames, frame = place.storage.frames, make_frame(0)
    frames.keep(frame)
    assert not frames.remove(frame.sha256, since=time.time() + 60)
    assert not frames.remove(frame.sha256, since=time.time() - 60)
    assert frames.read(frame.sha256) == frame.jpeg
    frames.keep(frame)
    assert not frames.remove(frame.sha256, since=time.time() - 60)
    assert frames.read(frame.sha256) == frame.jpeg
    assert len(place.files()) == 2


def test_answers_and_failed_uploads_are_forgotten_after_their_time(folder: Place) -> None:
    kept, failed = (
        folder.uploaded(),
        recordings.begin_upload(folder.database, owner="ana", filename="other.mp4"),
    )
    uploads.refuse(folder.database, failed, code="empty_file", message="empty")
    idempotency.begin(
        folder.database, owner="ana", key="a", route="/v1/jobs", payload_sha256=SHA256
    )
    asked = "SELECT (SELECT count(*) FROM uploads), (SELECT count(*) FROM idempotency_keys)"
    for hours, left in ((23, (2, 1)), (25, (2, 0)), (6 * 24, (2, 0)), (8 * 24, (1, 0))):
        for table, column in (("uploads", "closed_at"), ("idempotency_keys", "begun_at")):
            age = f"now() - interval '{hours} h'"
            rows(folder.database, f"UPDATE {table} SET {column} = {age} RETURNING 1")
        folder.sweep()
        assert rows(folder.database, asked) == [left]
    assert recordings.get(folder.database, kept.id, owner="ana").is_stored


def test_what_is_not_ours_is_left_alone(folder: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"somebody's")
    blobs, frames = folder.settings.data_dir / "blobs", folder.settings.data_dir / "frames"
    wrong = "00" if OTHER[:2] != "00" else "11"
    kept = [
        blobs / "README",
        blobs / OTHER[:2] / "notes.txt",
        blobs / wrong / OTHER,
        blobs / OTHER[:2] / OTHER.upper(),
        blobs / "abc" / OTHER,
        blobs / "incoming" / "notes.txt",
        frames / OTHER[:2] / f"{OTHER}.png",
        frames / OTHER[:2] / f".{OTHER}.jpg.part",
        frames / f"{OTHER}.jpg",
    ]
    links = [
        blobs / OTHER[:2] / OTHER,
        frames / OTHER[:2] / f"{OTHER}.jpg",
        blobs / "incoming" / str(uuid.uuid4()),
    ]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        make_old(path)
    for link in links:
        link.symlink_to(outside)
        make_old(link)
    folder_link = blobs / "ee"
    folder_link.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / f"ee{OTHER[2:]}").write_bytes(b"x")
    make_old(tmp_path / "elsewhere" / f"ee{OTHER[2:]}")
    assert folder.sweep() == Swept()
    assert all(path.exists() for path in [*kept, *links, outside])
    assert (tmp_path / "elsewhere" / f"ee{OTHER[2:]}").exists()


@pytest.mark.usefixtures("ageless")
@pytest.mark.parametrize("place", ["bucket"], indirect=True)
def test_objects_that_are_not_ours_are_left_alone(s3_url: str, place: Place) -> None:
    name = str(place.settings.blobs).removeprefix("s3://").partition("/")[0]
    keys = {
        f"{OTHER[:2]}/{OTHER}",  # outside the prefix
        "kept/README",
        f"kept/{OTHER[:2]}/{OTHER}.mp4",
        f"kept/zz/{OTHER}",
        f"kept/00/{OTHER}",
        f"kept/frames/00/{OTHER}.jpg",
        f"kept/swept/00/{OTHER}.jpg",
        f"kept/frames/{OTHER[:2]}/{OTHER}.png",
        f"kept/other/{OTHER[:2]}/{OTHER}",
        f"kept-too/{OTHER[:2]}/{OTHER}",
    }
    for key in keys:
        client(s3_url).put_object(Bucket=name, Key=key, Body=b"x")
    assert place.sweep() == Swept()
    listed = client(s3_url).list_objects_v2(Bucket=name)["Contents"]
    assert {found["Key"] for found in listed} == keys


def test_a_database_that_is_younger_than_the_files_removes_none_of_them(folder: Place) -> None:
    """It is a new one, or the address of another: those files are not its to judge."""
    folder.uploaded()
    frame = make_frame(0)
    folder.storage.frames.keep(frame)
    left = folder.settings.data_dir / "blobs" / "incoming" / str(uuid.uuid4())
    left.write_bytes(b"half")
    for path in folder.settings.data_dir.rglob("*"):
        make_old(path)
    before = folder.files()
    unname(folder.database)
    for table in ("blobs", "audit"):
        rows(folder.database, f"DELETE FROM {table} RETURNING 1")
    assert folder.sweep() == Swept()
    start(folder.database)
    assert folder.sweep() == Swept()
    assert folder.files() == before


def test_uploads_go_by_their_rows_and_what_has_none_by_its_age(folder: Place) -> None:
    database, blobs = folder.database, folder.storage.blobs
    going_on, given_up, ended = (
        recordings.begin_upload(database, owner="ana", filename="call.mp4") for _ in range(3)
    )
    unknown_old, unknown_young = str(uuid.uuid4()), str(uuid.uuid4())
    for upload_id in (going_on, given_up, ended, unknown_old, unknown_young):
        blobs.begin(upload_id).write_bytes(b"half of")
    for upload_id in (going_on, unknown_old):
        make_old(blobs.begin(upload_id))
    rows(
        database,
        "UPDATE uploads SET expires_at = now() - interval '1 s' WHERE id = :id RETURNING 1",
        id=given_up,
    )
    recordings.abandon_upload(database, ended)
    part = folder.settings.data_dir / "frames" / OTHER[:2] / f".{OTHER}.jpg.{'0' * 32}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"half of")
    assert folder.sweep(is_dry_run=True) == Swept(uploads=3)
    make_old(part)
    assert folder.sweep(is_dry_run=True) == Swept(uploads=3, parts=1)
    assert folder.sweep() == Swept(uploads=3, parts=1)
    assert folder.files() == {f"blobs/incoming/{name}" for name in (going_on, unknown_young)}
    uploads.renew(database, going_on)


def test_what_has_expired_goes_first_the_jobs_then_their_recordings(folder: Place) -> None:
    key = start(folder.database)
    days = {"keep_jobs_days": 3, "keep_recordings_days": 3}
    rows(folder.database, "UPDATE recordings SET created_at = now() - interval '9 d' RETURNING 1")
    assert folder.sweep(**days) == Swept()
    end(folder.database, key)
    assert folder.sweep(**days) == Swept()
    rows(folder.database, "UPDATE jobs SET failed_at = now() - interval '4 d' RETURNING 1")
    assert folder.sweep(**days, is_dry_run=True).jobs == 1
    assert folder.sweep() == Swept()
    assert folder.sweep(**days) == Swept(jobs=1, recordings=1)
    with pytest.raises(JobUnknown):
        jobs.state_of(folder.database, key.job_id)
    told = rows(folder.database, "SELECT owner, action FROM audit ORDER BY id DESC LIMIT 2")
    assert told == [("omnai", "recording_expired"), ("omnai", "job_expired")]


def test_what_is_put_under_hold_after_the_look_stays(
    folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = start(folder.database)
    end(folder.database, key)
    rows(folder.database, "UPDATE jobs SET keep_until = now() - interval '1 d' RETURNING 1")
    delete_expired = sweep.deletion.delete_expired

    def held_meanwhile(*given: Any) -> bool:
        rows(folder.database, "UPDATE jobs SET held_at = now() RETURNING 1")
        return delete_expired(*given)

    monkeypatch.setattr(sweep.deletion, "delete_expired", held_meanwhile)
    assert folder.sweep() == Swept()
    assert jobs.state_of(folder.database, key.job_id)
