"""One epoch: its fence, its stamps and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.errors import FenceLost
from pipeline.ledger.database import Database
from pipeline.ledger.documents import from_document
from pipeline.ledger.errors import EpochUnknown
from pipeline.ledger.schema import EpochRow, GapRow, JobRow, RecordingRow
from pipeline.records import EndReason, Gap, MediaEnd, Options, Phase, Probe, SessionEnd


@dataclass(frozen=True, kw_only=True)
class EpochKey:
    """Names one epoch of one job; whoever holds it may write until the epoch is fenced."""

    job_id: str
    number: int

    def log_context(self) -> Mapping[str, str | int]:
        return {"job_id": self.job_id, "epoch": self.number}


@dataclass(frozen=True, kw_only=True)
class UnreleasedEpoch:
    """An epoch that still holds its slot."""

    key: EpochKey
    slot: str
    host: str
    pid: int
    phase: Phase
    alive_at: datetime
    progress_at: datetime
    now: datetime
    """The database's clock when this was read; stamps are judged against it and no other."""
    is_fenced: bool


def hold(session: Session, key: EpochKey) -> EpochRow:
    """Lock the epoch until the transaction ends; every write under it begins here.

    Raises FenceLost where it may no longer be written under, EpochUnknown where there is none.
    Whoever needs the job's row too locks it after this one, never before.
    """
    row = lock(session, key)
    if row.fenced_at is not None:
        raise FenceLost
    return row


def lock(session: Session, key: EpochKey) -> EpochRow:
    row = session.scalar(select(EpochRow).where(*at(key)).with_for_update())
    if row is None:
        raise EpochUnknown
    return row


def record_probe(database: Database, key: EpochKey, probe: Probe) -> None:
    """Keep what is known of the job's recording. Raises FenceLost.

    Where the caller chose streams it is the job's own: others of the recording have another.
    """
    with database.transaction() as session:
        hold(session, key)
        job = session.execute(
            select(JobRow.recording_id, JobRow.options).where(JobRow.id == key.job_id)
        ).one()
        if from_document(Options, job.options).is_stream_chosen:
            session.execute(update(JobRow).where(JobRow.id == key.job_id).values(probe=probe))
            return
        session.execute(
            update(RecordingRow).where(RecordingRow.id == job.recording_id).values(probe=probe)
        )


def record_gap(database: Database, key: EpochKey, gap: Gap) -> None:
    """Idempotent. Raises FenceLost."""
    with database.transaction() as session:
        hold(session, key)
        session.execute(
            insert(GapRow)
            .values(job_id=key.job_id, epoch=key.number, start_ms=gap.start_ms, end_ms=gap.end_ms)
            .on_conflict_do_nothing()
        )


def stamp_alive(database: Database, key: EpochKey) -> bool:
    """Say that the process lives; return whether the epoch may still be written under.

    A fenced epoch is stamped too, until it is released: its host waits for its process to go.
    """
    with database.transaction() as session:
        fenced_at = session.execute(
            update(EpochRow)
            .where(*at(key), EpochRow.released_at.is_(None))
            .values(alive_at=func.now())
            .returning(EpochRow.fenced_at)
        ).one_or_none()
    return fenced_at is not None and fenced_at[0] is None


def enter(database: Database, key: EpochKey, phase: Phase) -> None:
    """Say that the loop gets on, and with what. Raises FenceLost.

    Publishing writes nothing under the epoch and follows its end, so that alone passes a fence.
    """
    with database.transaction() as session:
        row = lock(session, key) if phase is Phase.PUBLISH else hold(session, key)
        if row.released_at is not None:
            raise FenceLost
        session.execute(
            update(EpochRow).where(*at(key)).values(phase=phase.value, progress_at=func.now())
        )


def end(
    database: Database,
    key: EpochKey,
    *,
    end_reason: EndReason,
    end_detail: str | None = None,
    media_end: MediaEnd | None = None,
    session_end: SessionEnd | None = None,
) -> None:
    """End one's own epoch and fence it; `jobs.finish` does this together with the job's end.

    Raises FenceLost where somebody else ended it first.
    """
    with database.transaction() as session:
        hold(session, key)
        close(
            session,
            key,
            end_reason=end_reason,
            end_detail=end_detail,
            media_end=media_end,
            session_end=session_end,
        )


def fence(
    database: Database, key: EpochKey, *, end_reason: EndReason, end_detail: str | None = None
) -> bool:
    """End somebody else's epoch; return whether this call did it.

    `jobs.give_up` does this together with the job's end.
    """
    with database.transaction() as session:
        if lock(session, key).fenced_at is not None:
            return False
        close(session, key, end_reason=end_reason, end_detail=end_detail)
        return True


def release(database: Database, key: EpochKey) -> bool:
    """Free the slot; return whether this call did it.

    For the epoch's own process after the engine's reset, or its host once that process is gone.
    Raises LedgerRefused for an epoch that has not ended.
    """
    with database.transaction() as session:
        released = session.execute(
            update(EpochRow)
            .where(*at(key), EpochRow.released_at.is_(None))
            .values(released_at=func.now())
            .returning(EpochRow.number)
        )
        return released.one_or_none() is not None


def unreleased(
    database: Database, *, host: str | None = None, slot: str | None = None
) -> tuple[UnreleasedEpoch, ...]:
    """Epochs that hold a slot, oldest first; for whoever looks after a host or the whole."""
    wanted = select(EpochRow, func.now()).where(EpochRow.released_at.is_(None))
    if host is not None:
        wanted = wanted.where(EpochRow.host == host)
    if slot is not None:
        wanted = wanted.where(EpochRow.slot == slot)
    with database.transaction() as session:
        return tuple(
            UnreleasedEpoch(
                key=EpochKey(job_id=row.job_id, number=row.number),
                slot=row.slot,
                host=row.host,
                pid=row.pid,
                phase=Phase(row.phase),
                alive_at=row.alive_at,
                progress_at=row.progress_at,
                now=now,
                is_fenced=row.fenced_at is not None,
            )
            for row, now in session.execute(wanted.order_by(EpochRow.started_at)).tuples()
        )


def close(
    session: Session,
    key: EpochKey,
    *,
    end_reason: EndReason,
    end_detail: str | None,
    media_end: MediaEnd | None = None,
    session_end: SessionEnd | None = None,
) -> None:
    """Fence and end an epoch that the caller has locked."""
    session.execute(
        update(EpochRow)
        .where(*at(key))
        .values(
            fenced_at=func.now(),
            ended_at=func.now(),
            end_reason=end_reason.value,
            end_detail=end_detail,
            media_end=media_end,
            session_end=session_end,
        )
    )


def at(key: EpochKey) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Where the epoch's row is."""
    return EpochRow.job_id == key.job_id, EpochRow.number == key.number
