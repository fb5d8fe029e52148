"""One job: how it starts, the states it moves through, and how it ends with its epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Update, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.ledger import epochs, units
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import EdgeRefused, JobUnknown, LedgerRefused, SlotBusy
from pipeline.ledger.ids import is_id
from pipeline.ledger.schema import BlobRow, EpochRow, FetchRow, HoldingRow, JobRow, RecordingRow
from pipeline.ledger.schema.jobs import STATE_TIMES
from pipeline.ledger.words import holding_text
from pipeline.records import (
    EndReason,
    EngineInfo,
    Holding,
    JobState,
    MediaEnd,
    Phase,
    RecordingRecord,
    Request,
    SessionEnd,
    WrittenUnit,
)

LOCAL_OWNER = "local"
"""Owns what `omnai analyze` records."""

SLOT_INDEX = "uq_epochs_slot_unreleased"

ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED})

_RERUN = frozenset({JobState.QUEUED})

EDGES: Mapping[JobState, frozenset[JobState]] = {
    JobState.WAITING_FOR_RECORDING: frozenset(
        {JobState.QUEUED, JobState.FAILED, JobState.CANCELED}
    ),
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.CANCELED, JobState.FAILED}),
    JobState.RUNNING: frozenset({JobState.FINALIZING, JobState.CANCELING, JobState.FAILED}),
    JobState.CANCELING: frozenset({JobState.CANCELED}),
    JobState.FINALIZING: frozenset({JobState.SUCCEEDED, JobState.CANCELED, JobState.FAILED}),
    JobState.SUCCEEDED: _RERUN,
    JobState.FAILED: _RERUN,
    JobState.CANCELED: _RERUN,
}
"""Where a job may go from each state; nothing else may be written."""


def start_local(
    database: Database,
    *,
    recording: RecordingRecord,
    request: Request,
    holdings: Sequence[Holding],
    portfolio_sha256: str,
    engine: EngineInfo,
    prompt_sha256: str,
    slot: str,
    host: str,
    pid: int,
) -> EpochKey:
    """Record a job that is already running, with its first epoch open, so that nobody claims it.

    Raises SlotBusy while another epoch holds the slot.
    """
    try:
        with database.transaction() as session:
            recording_id = _insert_recording(session, recording)
            job_id = _insert_running_job(
                session,
                recording_id=recording_id,
                filename=recording.filename,
                request=request,
                portfolio_sha256=portfolio_sha256,
            )
            insert_holdings(session, job_id, holdings)
            session.execute(
                insert(EpochRow).values(
                    job_id=job_id,
                    number=1,
                    engine=engine,
                    prompt_sha256=prompt_sha256,
                    start_s=request.options.start_s,
                    slot=slot,
                    host=host,
                    pid=pid,
                    phase=Phase.CLAIM.value,
                )
            )
    except LedgerRefused as refusal:
        if refusal.constraint == SLOT_INDEX:
            raise SlotBusy from refusal
        raise
    return EpochKey(job_id=job_id, number=1)


def move(
    database: Database,
    job_id: str,
    *,
    source: JobState,
    target: JobState,
    end_reason: EndReason | None = None,
    end_detail: str | None = None,
    under: EpochKey | None = None,
) -> bool:
    """Compare and set; return whether this call moved the job.

    A worker passes its epoch and gets FenceLost once that is no longer its own: the job may be
    running again under a later one. Raises EdgeRefused for a move that is in nobody's power.
    """
    check_edge(source, target)
    check_id(job_id)
    with database.transaction() as session:
        if under is not None:
            epochs.hold(session, under)
        statement = _moved(job_id, target, end_reason, end_detail).where(
            JobRow.state == source.value
        )
        return session.execute(statement.returning(JobRow.id)).one_or_none() is not None


def request_cancel(database: Database, job_id: str) -> JobState:
    """Ask a job to end; return the state it is in now.

    What has not begun is canceled at once, what runs goes to canceling, what is finalizing keeps
    the request for its `finish`, what has ended stays as it is. Raises JobUnknown.
    """
    check_id(job_id)
    with database.transaction() as session:
        state = _locked(session, job_id)[0]
        if state is JobState.WAITING_FOR_RECORDING:
            leave_waiting(session, job_id, JobState.CANCELED, end_reason=EndReason.CANCELED)
            session.execute(_asked(job_id))
            return JobState.CANCELED
        if state is JobState.QUEUED:
            session.execute(_moved(job_id, JobState.CANCELED, EndReason.CANCELED, None))
            session.execute(_asked(job_id))
            return JobState.CANCELED
        if state is JobState.RUNNING:
            session.execute(_moved(job_id, JobState.CANCELING, None, None))
            return JobState.CANCELING
        if state is JobState.FINALIZING:
            session.execute(_asked(job_id))
        return state


def finish(
    database: Database,
    key: EpochKey,
    *,
    outcome: JobState,
    end_reason: EndReason,
    end_detail: str | None = None,
    media_end: MediaEnd | None = None,
    session_end: SessionEnd | None = None,
    written: WrittenUnit | None = None,
) -> JobState:
    """End one's own epoch and its job in one transaction; return the state the job ended in.

    A job whose cancel came first ends canceled, whatever the outcome; its epoch keeps `end_reason`.
    `written` tells of the epoch's last unit.
    Raises FenceLost where somebody else ended the epoch first, EdgeRefused for an outcome that the
    job's state does not lead to.
    """
    with database.transaction() as session:
        epochs.hold(session, key)
        units.settle(session, key, written)
        epochs.close(
            session,
            key,
            end_reason=end_reason,
            end_detail=end_detail,
            media_end=media_end,
            session_end=session_end,
        )
        return _end_job(session, key.job_id, outcome, end_reason, end_detail)


def give_up(
    database: Database, key: EpochKey, *, end_reason: EndReason, end_detail: str | None = None
) -> JobState | None:
    """End somebody else's epoch and fail its job in one transaction; none where it had ended.

    For whoever finds a worker lost or a unit past its limit. The slot stays held until `release`.
    """
    with database.transaction() as session:
        if epochs.lock(session, key).fenced_at is not None:
            return None
        epochs.close(session, key, end_reason=end_reason, end_detail=end_detail)
        return _end_job(session, key.job_id, JobState.FAILED, end_reason, end_detail)


def refuse(session: Session, job_id: str, *, end_reason: EndReason, end_detail: str) -> None:
    """Fail a queued job that the caller has locked; no epoch of it runs."""
    session.execute(
        _moved(job_id, JobState.FAILED, end_reason, end_detail)
        .where(JobRow.state == JobState.QUEUED.value)
        .values(next_start_s=None)
        .execution_options(synchronize_session=False)
    )


def leave_waiting(
    session: Session,
    job_id: str,
    target: JobState,
    *,
    recording_id: str | None = None,
    end_reason: EndReason | None = None,
    end_detail: str | None = None,
    lease: str | None = None,
) -> bool:
    """Move a job that waits for its recording, and forget its link in the same transaction.

    Returns whether it still waited; whoever fetches names its lease, and is refused the same way
    once another holds it. Raises JobUnknown.
    """
    check_edge(JobState.WAITING_FOR_RECORDING, target)
    # The job's lock comes first, here and wherever both rows are written.
    if _locked(session, job_id)[0] is not JobState.WAITING_FOR_RECORDING:
        return False
    forgotten = update(FetchRow).where(FetchRow.job_id == job_id)
    if lease is not None:
        forgotten = forgotten.where(FetchRow.lease == lease)
    found = session.execute(
        forgotten.values(url=None, ended_at=func.now(), lease=None, leased_until=None)
        .returning(FetchRow.job_id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if lease is not None and found is None:
        return False
    moved = _moved(job_id, target, end_reason, end_detail)
    session.execute(moved.values(recording_id=recording_id))
    return True


def state_of(database: Database, job_id: str) -> JobState:
    """Raises JobUnknown."""
    check_id(job_id)
    with database.transaction() as session:
        state = session.scalar(select(JobRow.state).where(JobRow.id == job_id))
    if state is None:
        raise JobUnknown
    return JobState(state)


def engine_of(database: Database, job_id: str) -> str:
    """Whose workers may run it. Raises JobUnknown."""
    check_id(job_id)
    with database.transaction() as session:
        engine = session.scalar(select(JobRow.engine).where(JobRow.id == job_id))
    if engine is None:
        raise JobUnknown
    return engine


def check_edge(source: JobState, target: JobState) -> None:
    if target not in EDGES[source]:
        accepted = tuple(sorted(state.value for state in EDGES[source]))
        raise EdgeRefused(source.value, target.value, accepted)


def check_id(job_id: str) -> None:
    """Ids come from URLs; what is no UUID is no job, and need not reach the database."""
    if not is_id(job_id):
        raise JobUnknown


def _end_job(
    session: Session,
    job_id: str,
    outcome: JobState,
    end_reason: EndReason,
    end_detail: str | None,
) -> JobState:
    state, is_cancel_requested = _locked(session, job_id)
    if outcome is JobState.CANCELED and state is JobState.RUNNING:
        session.execute(_moved(job_id, JobState.CANCELING, None, None))
        state = JobState.CANCELING
    if state is JobState.CANCELING or is_cancel_requested:
        outcome, end_reason = JobState.CANCELED, EndReason.CANCELED
    check_edge(state, outcome)
    session.execute(_moved(job_id, outcome, end_reason, end_detail))
    return outcome


def _locked(session: Session, job_id: str) -> tuple[JobState, bool]:
    row = session.execute(
        select(JobRow.state, JobRow.cancel_requested_at)
        .where(JobRow.id == job_id)
        .with_for_update(key_share=True)
    ).one_or_none()
    if row is None:
        raise JobUnknown
    return JobState(row.state), row.cancel_requested_at is not None


def _moved(
    job_id: str, target: JobState, end_reason: EndReason | None, end_detail: str | None
) -> Update:
    values: dict[str, object] = {
        "state": target.value,
        STATE_TIMES[target]: func.now(),
        "end_reason": end_reason.value if end_reason else None,
        "end_detail": end_detail,
    }
    if target is JobState.CANCELING:
        values["cancel_requested_at"] = func.coalesce(JobRow.cancel_requested_at, func.now())
    if target is JobState.QUEUED:
        values["cancel_requested_at"] = None
    return update(JobRow).where(JobRow.id == job_id).values(values)


def _asked(job_id: str) -> Update:
    asked_at = func.coalesce(JobRow.cancel_requested_at, func.now())
    return update(JobRow).where(JobRow.id == job_id).values(cancel_requested_at=asked_at)


def _insert_recording(session: Session, recording: RecordingRecord) -> str:
    session.execute(
        insert(BlobRow)
        .values(sha256=recording.sha256, size_bytes=recording.size_bytes)
        .on_conflict_do_nothing()
    )
    inserted = insert(RecordingRow).values(
        owner=LOCAL_OWNER,
        blob_sha256=recording.sha256,
        filename=recording.filename,
        probe=recording.probe,
    )
    # An update that changes nothing, because a conflict that does nothing returns no row.
    return session.execute(
        inserted.on_conflict_do_update(
            index_elements=[RecordingRow.owner, RecordingRow.blob_sha256],
            set_={"filename": RecordingRow.filename},
        ).returning(RecordingRow.id)
    ).scalar_one()


def _insert_running_job(
    session: Session,
    *,
    recording_id: str,
    filename: str,
    request: Request,
    portfolio_sha256: str,
) -> str:
    return session.execute(
        insert(JobRow)
        .values(
            owner=LOCAL_OWNER,
            recording_id=recording_id,
            filename=filename,
            objective=request.objective,
            title=request.title,
            event_date=request.event_date,
            engine=request.engine,
            options=request.options,
            portfolio_sha256=portfolio_sha256,
            state=JobState.RUNNING.value,
            running_at=func.now(),
            next_epoch=2,
        )
        .returning(JobRow.id)
    ).scalar_one()


def insert_holdings(session: Session, job_id: str, holdings: Sequence[Holding]) -> None:
    if not holdings:
        return
    session.execute(
        insert(HoldingRow),
        [
            {
                "job_id": job_id,
                "position": position,
                "id": holding.id,
                "name": holding.name,
                "ticker": holding.ticker,
                "exchange": holding.exchange,
                "currency": holding.currency,
                "asset_type": holding.asset_type,
                "weight_pct": holding.weight_pct,
                "aliases": list(holding.aliases),
                "search_text": holding_text(
                    holding.id, holding.name, holding.ticker, holding.exchange, holding.aliases
                ),
            }
            for position, holding in enumerate(holdings)
        ],
    )
