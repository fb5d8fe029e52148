"""Notes on findings: a log that nothing changes, whatever happens to the finding."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.ledger import briefs, dossiers, jobs, notes, views
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import FindingUnknown, JobUnknown, LedgerRefused, NotesFull
from pipeline.ledger.unpublished import unpublished
from pipeline.records import (
    EndReason,
    EngineClocks,
    FindingNote,
    JobState,
    NoteAction,
    NoteState,
    TextMark,
)
from tests.pipeline.ledger.factories import (
    digest,
    make_evidence,
    make_finding,
    make_origin,
    make_reply,
    record_unit,
    rows,
)
from tests.pipeline.ledger.racing import held_at

FINDING = (1, 0, 0)


@pytest.fixture
def noted(database: Database, key: EpochKey) -> EpochKey:
    """A job with a finding to write on."""
    record_unit(database, key, 0, texts=[make_finding()])
    return key


def add(database: Database, key: EpochKey, **given: Any) -> FindingNote:
    return notes.add(
        database,
        key.job_id,
        given.pop("finding", FINDING),
        **{"action": NoteAction.NOTE, "text": "Seen.", "author": "ana", "actor": None, **given},
    )


def test_notes_are_numbered_and_come_back_in_order(database: Database, noted: EpochKey) -> None:
    first = add(database, noted, text="Ask the CFO.\nBidi \u202e and <b>.")
    second = add(database, noted, action=NoteAction.ACCEPT, text="")
    assert [(first.number, first.text), (second.number, second.text)] == [
        (1, "Ask the CFO.\nBidi \u202e and <b>."),
        (2, ""),
    ]
    assert first.at.utcoffset() == timedelta(0)
    assert notes.listed(database, noted.job_id, FINDING) == (first, second)
    assert dossiers.load(database, noted.job_id).notes == (first, second)


def test_notes_stay_when_a_continuing_turn_replaces_their_finding(
    database: Database, noted: EpochKey
) -> None:
    note = add(database, noted)
    late = make_finding(evidence="A chart rises.", origin=make_origin(last_sequence=1))
    record_unit(database, noted, 1, texts=[late])
    dossier = dossiers.load(database, noted.job_id)
    assert (dossier.findings, dossier.notes) == ((late,), (note,))


def test_a_note_is_never_changed(database: Database, noted: EpochKey) -> None:
    add(database, noted)
    with pytest.raises(LedgerRefused), database.transaction() as session:
        session.execute(text("UPDATE finding_notes SET text = 'other'"))
    assert rows(database, "SELECT text FROM finding_notes") == [("Seen.",)]


def test_two_at_once_get_two_numbers(database: Database, noted: EpochKey) -> None:
    lock = "SELECT 1 FROM findings FOR UPDATE"
    written = held_at(database, lock, *[lambda: add(database, noted)] * 2)
    assert sorted(note.number for note in written) == [1, 2]


def test_what_is_not_there_takes_no_note(database: Database, noted: EpochKey) -> None:
    with pytest.raises(FindingUnknown):
        add(database, noted, finding=(1, 0, 1))
    with pytest.raises(FindingUnknown):
        add(database, EpochKey(job_id=str(uuid.uuid4()), number=1))
    with pytest.raises(JobUnknown):
        add(database, EpochKey(job_id="no id", number=1))
    with pytest.raises(FindingUnknown):
        notes.listed(database, noted.job_id, (2, 0, 0))
    with pytest.raises(LedgerRefused):
        add(database, noted, text="")


def test_a_finding_takes_only_so_many(
    database: Database, noted: EpochKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "NOTES_MAX", 1)
    add(database, noted)
    with pytest.raises(NotesFull):
        add(database, noted)


def test_what_is_to_be_written_with_a_note_stands_or_falls_with_it(
    database: Database, noted: EpochKey
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        add(database, noted, then=fail)
    assert notes.of_job(database, noted.job_id) == ()


def test_the_newest_deciding_note_says_where_a_finding_stands(
    database: Database, noted: EpochKey
) -> None:
    states = []
    for action in (NoteAction.NOTE, *NoteAction, NoteAction.NOTE):
        add(database, noted, action=action)
        states.append(NoteState.after(note.action for note in notes.of_job(database, noted.job_id)))
    assert states == [
        NoteState.OPEN,
        NoteState.OPEN,
        NoteState.ACCEPTED,
        NoteState.REJECTED,
        NoteState.DONE,
        NoteState.DONE,
    ]


def test_an_ended_job_is_behind_until_a_brief_knows_its_notes(
    database: Database, noted: EpochKey
) -> None:
    end = {"outcome": JobState.FAILED, "end_reason": EndReason.DECODE_ERROR}
    jobs.finish(database, noted, **end)  # type: ignore[arg-type]

    def behind() -> tuple[str, ...]:
        return unpublished(database, after_s=0, limit=5)

    def store(document: bytes, note_count: int) -> None:
        briefs.store(
            database,
            noted.job_id,
            status="partial",
            document=document,
            canonical_sha256=digest(document),
            release="1",
            note_count=note_count,
        )

    assert behind() == (noted.job_id,)
    store(b"1", 0)
    assert behind() == ()
    add(database, noted)
    assert behind() == (noted.job_id,)
    store(b"2", 0)  # assembled before the note, stored after it
    assert behind() == (noted.job_id,)
    store(b"2", 1)  # the note changed nothing that the brief shows
    assert behind() == ()


def test_marks_and_engine_clocks_are_kept(database: Database, key: EpochKey) -> None:
    marks = (TextMark(code="secret_masked", count=2), TextMark(code="link", count=1))
    finding, evidence = make_finding(marks=marks), make_evidence(turn=1, marks=marks[1:])
    clocks = EngineClocks(
        prepare_ms=1.5, prefill_ms=200.25, generate_ms=0.0, upstream_ms={"cost_llm": 0.125}
    )
    record_unit(database, key, 0, reply=make_reply(clocks=clocks), texts=[finding, evidence])
    record_unit(database, key, 1, reply=make_reply(1, inference_ms=7.25))
    dossier = dossiers.load(database, key.job_id)
    assert (dossier.findings, dossier.evidence) == ((finding,), (evidence,))
    assert [unit.inference_ms for unit in dossier.units] == [12.5, 7.25]
    told = views.units(database, key.job_id, epoch=1, limit=10)
    assert [view.clocks for view in told] == [clocks, None]
    kept = rows(database, "SELECT engine_clocks FROM units ORDER BY sequence")
    assert kept == [
        (
            {
                "prepare_ms": 1.5,
                "prefill_ms": 200.25,
                "generate_ms": 0.0,
                "upstream_ms": {"cost_llm": 0.125},
            },
        ),
        (None,),
    ]
