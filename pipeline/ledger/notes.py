"""What people did about findings: a log for each, written under the finding's own lock."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import ColumnElement, Select, func, insert, select, tuple_
from sqlalchemy.orm import Session

from pipeline.ledger.database import Database
from pipeline.ledger.errors import FindingUnknown, NotesFull
from pipeline.ledger.jobs import check_id
from pipeline.ledger.schema import FindingNoteRow, FindingRow
from pipeline.ledger.texts import TextKey
from pipeline.records import DECISIONS, FindingNote, NoteAction

NOTES_MAX = 500
"""For one finding: every one of them is in the brief, which must stay something to read."""


def add(
    database: Database,
    job_id: str,
    finding: TextKey,
    *,
    action: NoteAction,
    text: str,
    author: str,
    actor: str | None,
    then: Callable[[Session, FindingNote], None] | None = None,
) -> FindingNote:
    """Append to a finding's log, also while its job runs; two at once get two numbers.

    What `then` writes is committed with the note or not at all. Raises FindingUnknown, NotesFull.
    """
    check_id(job_id)
    with database.transaction() as session:
        # The finding's row is what two writers queue at.
        locked = select(FindingRow.turn).where(*_at(FindingRow, job_id, finding))
        if session.scalar(locked.with_for_update(key_share=True)) is None:
            raise FindingUnknown
        written = session.scalar(select(func.count()).where(*_at(FindingNoteRow, job_id, finding)))
        if (written or 0) >= NOTES_MAX:
            raise NotesFull
        epoch, turn, block = finding
        row = session.execute(
            insert(FindingNoteRow)
            .values(
                job_id=job_id,
                epoch=epoch,
                turn=turn,
                block=block,
                number=(written or 0) + 1,
                action=action.value,
                text=text,
                author=author,
                key_id=actor,
            )
            .returning(FindingNoteRow)
        ).scalar_one()
        note = _note(row)
        if then is not None:
            then(session, note)
        return note


def listed(database: Database, job_id: str, finding: TextKey) -> tuple[FindingNote, ...]:
    """The oldest first. Raises FindingUnknown."""
    check_id(job_id)
    with database.transaction(is_snapshot=True) as session:
        wanted = select(FindingRow.turn).where(*_at(FindingRow, job_id, finding))
        if session.scalar(wanted) is None:
            raise FindingUnknown
        return of(session, job_id, finding=finding)


def of_job(database: Database, job_id: str) -> tuple[FindingNote, ...]:
    """In order of epoch, turn, block and number."""
    check_id(job_id)
    with database.transaction() as session:
        return of(session, job_id)


def of(session: Session, job_id: str, *, finding: TextKey | None = None) -> tuple[FindingNote, ...]:
    """Of one finding, or of all of a job's."""
    place = (FindingNoteRow.epoch, FindingNoteRow.turn, FindingNoteRow.block)
    wanted = (
        select(FindingNoteRow)
        .where(FindingNoteRow.job_id == job_id)
        .order_by(*place, FindingNoteRow.number)
    )
    if finding is not None:
        wanted = wanted.where(tuple_(*place) == finding)
    return tuple(map(_note, session.scalars(wanted)))


def decision() -> Select[tuple[str]]:
    """The newest deciding action for the finding of the enclosing statement; none is open."""
    return (
        select(FindingNoteRow.action)
        .where(
            FindingNoteRow.job_id == FindingRow.job_id,
            FindingNoteRow.epoch == FindingRow.epoch,
            FindingNoteRow.turn == FindingRow.turn,
            FindingNoteRow.block == FindingRow.block,
            FindingNoteRow.action.in_([action.value for action in DECISIONS]),
        )
        .order_by(FindingNoteRow.number.desc())
        .limit(1)
        .correlate(FindingRow)
    )


def _note(row: FindingNoteRow) -> FindingNote:
    return FindingNote(
        epoch=row.epoch,
        turn=row.turn,
        block=row.block,
        number=row.number,
        action=NoteAction(row.action),
        text=row.text,
        author=row.author,
        at=row.at,
    )


def _at(
    table: type[FindingRow] | type[FindingNoteRow], job_id: str, finding: TextKey
) -> tuple[ColumnElement[bool], ...]:
    epoch, turn, block = finding
    return (
        table.job_id == job_id,
        table.epoch == epoch,
        table.turn == turn,
        table.block == block,
    )
