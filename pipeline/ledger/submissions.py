"""A job as it is asked for: written whole, and queued from the moment its recording is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from pipeline.ledger import fetches, views
from pipeline.ledger.database import Database
from pipeline.ledger.errors import RecordingNotStored, RecordingUnknown
from pipeline.ledger.fetches import LinkedFile
from pipeline.ledger.jobs import insert_holdings
from pipeline.ledger.recordings import Recording
from pipeline.ledger.schema import BlobRow, JobRow, RecordingRow
from pipeline.ledger.views import JobView
from pipeline.records import Holding, JobState, Request
from pipeline.schedule import Schedule

ANYTIME = Schedule()


def submit(
    database: Database,
    *,
    owner: str,
    recording: Recording | LinkedFile,
    request: Request,
    portfolio_holdings: Sequence[Holding],
    portfolio_sha256: str,
    engine: str,
    schedule: Schedule = ANYTIME,
    then: Callable[[Session, JobView], None] | None = None,
) -> str:
    """Queue a job and return its id; whoever submits has seen that `owner` may use the recording.

    With a link in the recording's place the job waits until somebody has fetched it. `engine` is
    what will run it, whatever `request.engine` says. What `then` writes is committed with the job
    or not at all; nothing is, where it raises. Raises RecordingUnknown where the recording has gone
    since, RecordingNotStored where a worker could not read it.
    """
    with database.transaction() as session:
        if isinstance(recording, Recording):
            _hold(session, recording)
        job_id = session.execute(
            insert(JobRow)
            .values(
                owner=owner,
                **_source(recording),
                objective=request.objective,
                title=request.title,
                event_date=request.event_date,
                engine=engine,
                options=request.options,
                portfolio_sha256=portfolio_sha256,
                priority=schedule.priority,
                not_before=schedule.not_before,
                ready_by=schedule.ready_by,
            )
            .returning(JobRow.id)
        ).scalar_one()
        insert_holdings(session, job_id, portfolio_holdings)
        if isinstance(recording, LinkedFile):
            fetches.add(session, job_id, recording.link)
        if then is not None:
            then(session, views.read(session, job_id, owner=owner))
    return job_id


def _source(recording: Recording | LinkedFile) -> dict[str, object]:
    """Where the job begins."""
    if isinstance(recording, Recording):
        return {
            "recording_id": recording.id,
            "filename": recording.filename,
            "state": JobState.QUEUED.value,
            "queued_at": func.now(),
        }
    return {
        "recording_id": None,
        "filename": recording.filename,
        "state": JobState.WAITING_FOR_RECORDING.value,
        "waiting_at": func.now(),
    }


def _hold(session: Session, recording: Recording) -> None:
    """Lock the recording, so that it stays until the job names it."""
    stored_at = session.execute(
        select(BlobRow.stored_at)
        .join(RecordingRow, RecordingRow.blob_sha256 == BlobRow.sha256)
        .where(RecordingRow.id == recording.id)
        .with_for_update(read=True, key_share=True)
    ).one_or_none()
    if stored_at is None:
        raise RecordingUnknown
    if stored_at[0] is None:
        raise RecordingNotStored
