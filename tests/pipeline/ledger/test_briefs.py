"""Briefs: revisions, byte for byte."""

from __future__ import annotations

import threading
import uuid

import pytest

from pipeline.ledger import briefs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import JobUnknown
from tests.pipeline.ledger.factories import digest, rows

DOCUMENT = b'{"b": 1,\r\n "a": 1.10, "a": "\xc3\xa9\\u0000"}\x00\xff'


def store(database: Database, key: EpochKey, document: bytes, release: str = "0.1.0") -> int:
    return briefs.store(
        database,
        key.job_id,
        status="partial",
        document=document,
        canonical_sha256=digest(document),
        release=release,
    )


def test_the_same_bytes_come_back(database: Database, key: EpochKey) -> None:
    assert briefs.latest(database, key.job_id) is None
    assert store(database, key, DOCUMENT) == 1
    brief = briefs.latest(database, key.job_id)
    assert brief is not None
    assert brief.document == DOCUMENT
    assert (brief.revision, brief.status, brief.release) == (1, "partial", "0.1.0")
    assert brief.canonical_sha256 == digest(DOCUMENT)
    assert brief.created_at.utcoffset() is not None


def test_another_document_is_another_revision_and_the_same_is_not(
    database: Database, key: EpochKey
) -> None:
    assert [store(database, key, document) for document in (b"1", b"1", b"2", b"1")] == [1, 1, 2, 3]
    assert store(database, key, b"1", release="0.2.0") == 4
    latest = briefs.latest(database, key.job_id)
    assert latest is not None
    assert (latest.revision, latest.document) == (4, b"1")


def test_the_newest_that_says_something_else_is_found(database: Database, key: EpochKey) -> None:
    def revise(content: bytes) -> int:
        return briefs.store(
            database,
            key.job_id,
            status="partial",
            document=content,
            canonical_sha256=digest(content),
            release="1",
            content_sha256=digest(content[:1]),
        )

    def other(content: bytes) -> int | None:
        found = briefs.newest_other(database, key.job_id, content_sha256=digest(content))
        return None if found is None else found.revision

    assert other(b"a") is None
    assert store(database, key, b"of an older release") == 1
    assert other(b"a") == 1
    assert [revise(content) for content in (b"a1", b"b1", b"b2")] == [2, 3, 4]
    assert (other(b"a"), other(b"b"), other(b"c")) == (4, 2, 4)


def test_two_publishers_at_once_get_two_revisions(database: Database, key: EpochKey) -> None:
    threads = [
        threading.Thread(target=store, args=(database, key, bytes([number]))) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(database, "SELECT revision FROM briefs ORDER BY 1") == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("job_id", [str(uuid.UUID(int=1)), "no id"])
def test_an_unknown_job_has_no_brief(database: Database, job_id: str) -> None:
    with pytest.raises(JobUnknown):
        store(database, EpochKey(job_id=job_id, number=1), b"1")
