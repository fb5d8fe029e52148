"""A job's brief is stored once for what its rows say, and told against the one before it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pipeline.brief.document import ChangeKind
from pipeline.ledger import briefs, notes
from pipeline.ledger.database import Database, connect
from pipeline.ledger.epochs import EpochKey
from pipeline.publish import assembled, past_brief, publish
from pipeline.records import NoteAction
from tests.pipeline.ledger.factories import make_finding, make_origin, record_unit, start


@pytest.fixture(scope="module")
def database(module_database_url: str) -> Iterator[Database]:
    database = connect(module_database_url)
    yield database
    database.dispose()


def say(database: Database, key: EpochKey, sequence: int, evidence: str) -> None:
    finding = make_finding(
        turn=sequence, evidence=evidence, origin=make_origin(last_sequence=sequence)
    )
    record_unit(database, key, sequence, texts=(finding,))


def test_the_same_rows_give_the_same_revision_and_others_are_told_against_it(
    database: Database,
) -> None:
    key = start(database, slot="3")
    say(database, key, 0, "Revenue guidance was raised to $5.1bn.")
    first = publish(database, key.job_id, release="1")
    again = publish(database, key.job_id, release="1")
    assert (first.revision, first.brief.changes) == (1, ())
    assert (again.revision, again.sha256) == (1, first.sha256)

    say(database, key, 1, "A new plant opens in spring.")
    second = publish(database, key.job_id, release="1")
    (since,) = second.brief.changes
    assert second.revision == 2
    assert (since.revision, since.sha256, since.unchanged) == (1, first.sha256, 1)
    assert [change.kind for group in since.groups for change in group.changes] == [ChangeKind.NEW]
    assert publish(database, key.job_id, release="1").revision == 2
    assert assembled(database, key.job_id, release="1") == second.brief


def test_a_note_is_a_new_revision_and_no_change(database: Database) -> None:
    key = start(database, slot="4")
    say(database, key, 0, "A chart falls.")
    publish(database, key.job_id, release="1")
    notes.add(
        database,
        key.job_id,
        (1, 0, 0),
        action=NoteAction.ACCEPT,
        text="Seen.",
        author="Ada",
        actor=None,
    )
    noted = publish(database, key.job_id, release="1")
    assert noted.revision == 2
    assert noted.brief.findings[0].state.value == "accepted"
    assert (noted.brief.changes[0].unchanged, noted.brief.changes[0].groups) == (1, ())


def test_another_jobs_brief_is_compared_where_it_has_one(database: Database) -> None:
    other, key = start(database, slot="1"), start(database, slot="2")
    assert past_brief(database, other.job_id) is None
    say(database, other, 0, "A chart falls.")
    publish(database, other.job_id, release="1")
    past = past_brief(database, other.job_id)
    assert past is not None
    (against,) = assembled(database, key.job_id, release="1", against=past).changes
    assert (against.basis.value, against.job_id) == ("job", other.job_id)
    assert [change.kind for group in against.groups for change in group.changes] == [
        ChangeKind.GONE
    ]


def test_a_stored_document_that_cannot_be_read_is_passed_over(database: Database) -> None:
    key = start(database, slot="5")
    briefs.store(
        database,
        key.job_id,
        status="partial",
        document=json.dumps({"schema": "omnai.brief/9"}).encode(),
        canonical_sha256="0" * 64,
        release="9",
    )
    assert publish(database, key.job_id, release="1").brief.changes == ()
