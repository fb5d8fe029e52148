"""Who runs what next: decided in the database, one job to one slot."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, insert, or_, select, update
from sqlalchemy.orm import Session

from pipeline.errors import ContextTooLong
from pipeline.ledger import dossiers, jobs, queue
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import LedgerRefused, SlotBusy
from pipeline.ledger.jobs import SLOT_INDEX
from pipeline.ledger.queue import QueueState
from pipeline.ledger.schema import BlobRow, EpochRow, JobRow, RecordingRow
from pipeline.night import Night
from pipeline.records import (
    EndReason,
    EngineInfo,
    Holding,
    JobState,
    Phase,
    RecordingRecord,
    Request,
)

MakePrompt = Callable[[str, Sequence[Holding]], str]
"""The exact system text for an objective and its holdings; `pipeline.prompt` makes it. Raises
ContextTooLong for one that the engine does not take."""


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A job that is this worker's to run, and all that it needs to know."""

    key: EpochKey
    recording: RecordingRecord
    request: Request
    holdings: tuple[Holding, ...]
    start_s: int
    """First source second of this epoch."""
    prompt: str
    """Exact text; its digest is in the epoch's row."""
    closes_in_s: float | None
    """From the claim until the night's window closes; none where there is no window."""


def claim(
    database: Database,
    *,
    engine: EngineInfo,
    slot: str,
    host: str,
    pid: int,
    prompt: MakePrompt,
    night: Night | None = None,
) -> Claimed | None:
    """Open the next epoch of the first job in the queue; none where nothing waits for this engine,
    where the queue is paused, and outside the window of `night`, by the database's clock.

    A job whose context is too long fails without an epoch, and the next one is looked at. Raises
    SlotBusy where another epoch still holds the slot, and whatever else `prompt` raises; the job
    stays queued then.
    """
    try:
        while True:
            with database.transaction() as session:
                if not queue.is_open_to_claims(session):
                    return None
                now = session.execute(select(func.now())).scalar_one()
                if night is not None and not night.is_open(now):
                    return None
                job = session.scalar(
                    select(JobRow)
                    .where(*_claimable(engine.name))
                    .order_by(JobRow.priority, JobRow.created_at, JobRow.id)
                    .limit(1)
                    .with_for_update(skip_locked=True, key_share=True)
                )
                if job is None:
                    return None
                closes_at = None if night is None else night.closes_at(now)
                closes_in_s = None if closes_at is None else (closes_at - now).total_seconds()
                try:
                    return _open(session, job, engine, slot, host, pid, prompt, closes_in_s)
                except ContextTooLong as refused:
                    jobs.refuse(
                        session,
                        job.id,
                        end_reason=EndReason.CONTEXT_TOO_LONG,
                        end_detail=refused.message,
                    )
    except LedgerRefused as refusal:
        if refusal.constraint == SLOT_INDEX:
            raise SlotBusy from refusal
        raise


def waiting(database: Database, *, engine: str | None, night: Night | None = None) -> int:
    """How many jobs could be claimed now; of one engine, or of all."""
    with database.transaction() as session:
        if queue.read_state(session) is not QueueState.OPEN:
            return 0
        now = session.execute(select(func.now())).scalar_one()
        if night is not None and not night.is_open(now):
            return 0
        wanted = select(func.count()).select_from(JobRow).where(*_claimable(engine))
        return session.execute(wanted).scalar_one()


def _claimable(engine: str | None) -> list[ColumnElement[bool]]:
    conditions = [
        JobRow.state == JobState.QUEUED.value,
        JobRow.cancel_requested_at.is_(None),
        or_(JobRow.not_before.is_(None), JobRow.not_before <= func.now()),
    ]
    return conditions if engine is None else [*conditions, JobRow.engine == engine]


def _open(
    session: Session,
    job: JobRow,
    engine: EngineInfo,
    slot: str,
    host: str,
    pid: int,
    prompt: MakePrompt,
    closes_in_s: float | None,
) -> Claimed:
    request = dossiers.request_of(job)
    holdings = dossiers.holdings_of(session, job.id)
    text = prompt(request.objective, holdings)
    start_s = request.options.start_s if job.next_start_s is None else job.next_start_s
    number = job.next_epoch
    session.execute(
        update(JobRow)
        .where(JobRow.id == job.id)
        .values(
            state=JobState.RUNNING.value,
            running_at=func.now(),
            next_epoch=number + 1,
            next_start_s=None,
        )
        .execution_options(synchronize_session=False)
    )
    session.execute(
        insert(EpochRow).values(
            job_id=job.id,
            number=number,
            engine=engine,
            prompt_sha256=hashlib.sha256(text.encode()).hexdigest(),
            start_s=start_s,
            slot=slot,
            host=host,
            pid=pid,
            phase=Phase.CLAIM.value,
        )
    )
    return Claimed(
        key=EpochKey(job_id=job.id, number=number),
        recording=_recording(session, job),
        request=request,
        holdings=holdings,
        start_s=start_s,
        prompt=text,
        closes_in_s=closes_in_s,
    )


def _recording(session: Session, job: JobRow) -> RecordingRecord:
    rows = session.execute(
        select(RecordingRow, BlobRow)
        .join(BlobRow, RecordingRow.blob_sha256 == BlobRow.sha256)
        .where(RecordingRow.id == job.recording_id)
    )
    recording, blob = rows.tuples().one()
    return dossiers.recording_of(job, recording, blob)
