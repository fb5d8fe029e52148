"""Below the mark nothing is taken in, and nothing half-done is left of what was refused."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from api import multipart, uploads
from pipeline import intake
from pipeline.ledger import keeping, space, tallies
from pipeline.ledger.database import Database
from pipeline.ledger.errors import DatabaseFull
from pipeline.settings import Settings
from tests.api.conftest import Person
from tests.api.test_recordings import files, form

MIN_BYTES = 1_000_000


class Disk:
    """How much is free, in the order in which it is looked at; the last one stays."""

    def __init__(self) -> None:
        self.free_bytes = [MIN_BYTES - 1]

    def usage(self, folder: object) -> Any:
        free_bytes = self.free_bytes[0]
        if len(self.free_bytes) > 1:
            self.free_bytes.pop(0)
        return SimpleNamespace(free=free_bytes, total=free_bytes)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(space.shutil, "disk_usage", made.usage)
    return made


@pytest.fixture
def settings(settings: Settings) -> Settings:
    from dataclasses import replace

    return replace(settings, free_bytes_min=MIN_BYTES)


def tus(**headers: str) -> dict[str, str]:
    return {"Tus-Resumable": "1.0.0", **headers}


PART = {"content_type": "application/offset+octet-stream"}


def asks(ada: Person, content: bytes, upload: str) -> Iterator[Any]:
    length = str(len(content))
    yield ada.upload(content)
    yield ada.post("/v1/recordings", **form(content))
    yield ada.post("/v1/uploads", headers=tus(**{"Upload-Length": length}))
    yield ada.post("/v1/uploads", headers=tus(**{"Upload-Length": length}), data=content, **PART)
    yield ada._ask(
        "PATCH", upload, {"headers": tus(**{"Upload-Offset": "0"}), "data": content, **PART}
    )


def test_no_upload_is_taken_below_the_mark_and_all_are_above_it(
    ada: Person,
    admin: Person,
    database: Database,
    settings: Settings,
    sample_bytes: bytes,
    disk: Disk,
) -> None:
    disk.free_bytes = [10 * MIN_BYTES]
    length = {"Upload-Length": str(len(sample_bytes))}
    upload = ada.post("/v1/uploads", headers=tus(**length)).headers["Location"]
    before = files(settings)
    # At the mark itself there is no room for what would be written.
    for free_bytes in (MIN_BYTES - 1, MIN_BYTES + len(sample_bytes) - 1):
        disk.free_bytes = [free_bytes]
        for answer in asks(ada, sample_bytes, upload):
            told = answer.get_json()
            assert (answer.status_code, told["code"]) == (507, "storage_low")
            assert str(MIN_BYTES) in told["detail"]
    as_patch = tus(**{"Upload-Offset": "0", "X-HTTP-Method-Override": "PATCH"})
    assert ada.post(upload, headers=as_patch, data=sample_bytes, **PART).status_code == 507
    assert files(settings) == before
    with database.transaction() as session:
        assert session.execute(text("SELECT count(*) FROM uploads")).scalar_one() == 1
    disk.free_bytes = [10 * MIN_BYTES]
    assert [answer.status_code for answer in asks(ada, sample_bytes, upload)] == [
        *(201, 201, 201, 201, 204)
    ]
    assert "\nomnai_upload_space_refusals_total 11.0\n" in admin.get("/metrics").text


def test_an_upload_that_comes_to_the_mark_ends_and_leaves_nothing_half_done(
    ada: Person,
    database: Database,
    settings: Settings,
    sample_bytes: bytes,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uploads, "LOOK_BYTES", 1 << 16)
    for reader in (uploads, multipart):
        monkeypatch.setattr(reader, "READ_BYTES", 1 << 16)
    disk.free_bytes = [10 * MIN_BYTES]
    length = {"Upload-Length": str(len(sample_bytes))}
    upload = ada.post("/v1/uploads", headers=tus(**length)).headers["Location"]
    before = files(settings)
    offset = {"headers": tus(**{"Upload-Offset": "0"}), "data": sample_bytes, **PART}
    for ask in (
        lambda: ada.upload(sample_bytes),
        lambda: ada.post("/v1/recordings", **form(sample_bytes)),
        lambda: ada._ask("PATCH", upload, dict(offset)),
    ):
        disk.free_bytes = [10 * MIN_BYTES] * 2 + [MIN_BYTES - 1]
        answer = ask()
        assert (answer.status_code, answer.get_json()["code"]) == (507, "storage_low")
        assert files(settings) == before
        assert all(path.stat().st_size == 0 for path in before)
    with database.transaction() as session:
        assert session.execute(text("SELECT count(*) FROM recordings")).scalar_one() == 0
    assert tallies.all(database) == {"uploads_refused_space": 3}


def test_a_disk_that_is_full_above_the_mark_is_counted_too(
    ada: Person, database: Database, sample_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(intake.os, "fsync", full)
        answer = ada.upload(sample_bytes)
    assert (answer.status_code, answer.get_json()["code"]) == (507, "storage_full")
    # What is refused for another reason, or is no upload, is not.
    assert ada.upload(b"no recording").status_code == 422
    monkeypatch.setattr(keeping, "keep_recording", lowered)
    path = f"/v1/recordings/{ada.upload(sample_bytes).get_json()['id']}"
    answer = ada._ask("PATCH", path, {"json": {"keep_until": None}})
    assert answer.status_code == 507
    assert tallies.all(database) == {"uploads_refused_space": 1}


def lowered(*args: object, **named: object) -> None:
    raise DatabaseFull


def test_zero_never_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: pytest.fail("it looked"))
    off = space.space_of(Settings(data_dir=tmp_path, free_bytes_min=0))
    off.check(coming_bytes=1 << 60)
    assert not off.is_low()


def test_a_data_folder_that_is_not_there_yet_is_measured_where_it_will_be(tmp_path: Path) -> None:
    there = space.space_of(Settings(data_dir=tmp_path / "not" / "yet"))
    assert there.free_bytes() > 0
    assert not (tmp_path / "not").exists()
