"""What people see of jobs: one, a page of many, and what each holds, page by page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime

from sqlalchemy import Select, func, select, true, tuple_
from sqlalchemy.orm import Session, aliased

from pipeline.ledger import cursors, dossiers
from pipeline.ledger.database import Database
from pipeline.ledger.documents import from_document
from pipeline.ledger.errors import JobUnknown
from pipeline.ledger.jobs import check_id
from pipeline.ledger.schema import (
    BriefRow,
    EpochRow,
    FetchRow,
    FrameRow,
    HoldingRow,
    JobRow,
    RecordingRow,
    UnitRow,
)
from pipeline.ledger.schema.jobs import STATE_TIMES
from pipeline.ledger.texts import TextKey
from pipeline.plain import Json, to_plain
from pipeline.records import (
    Decision,
    EngineClocks,
    EpochRecord,
    Evidence,
    FedUnit,
    Finding,
    JobState,
    MediaEnd,
    Phase,
    Probe,
)


@dataclass(frozen=True, kw_only=True)
class FetchView:
    """How far a recording is that is fetched from a link; nothing of the link but its host."""

    host: str
    attempts: int
    """Since it last got on."""
    received_bytes: int
    total_bytes: int | None
    """None where the server has not said, or nothing was asked yet."""
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job as it stands, with its newest epoch."""

    id: str
    owner: str
    recording_id: str | None
    fetch: FetchView | None
    """None where the recording was not named by a link."""
    filename: str
    title: str | None
    objective: str
    event_date: date | None
    engine: str
    holding_count: int
    """Holdings in its portfolio."""
    state: JobState
    times: Mapping[JobState, datetime]
    """When it last entered each state since it was last queued; only states that it entered."""
    end_reason: str | None
    end_detail: str | None
    cancel_requested_at: datetime | None
    created_at: datetime
    priority: int
    """Smaller is claimed first."""
    not_before: datetime | None
    """No worker begins with it earlier."""
    ready_by: datetime | None
    """When its brief is wanted."""
    epoch: int | None
    """Number of the newest epoch; none before the first claim. The fields below are this one's."""
    phase: Phase | None
    """None once its slot is free."""
    epoch_start_s: int | None
    epoch_started_at: datetime | None
    alive_at: datetime | None
    """When its process last showed a sign of life."""
    progress_at: datetime | None
    """When it last got on: with a unit, or into another phase."""
    progress_ms: int | None
    """Source time that its newest completed unit reaches; its start where it has none yet."""
    source_end_ms: int | None
    """As measured by any epoch, else by the recording's packets, else unknown."""
    origin_ms: int | None
    """Where source time 0 lies on the recording's own clock; none until it was probed."""
    brief_revision: int | None
    """Of the newest stored brief; none before the first."""
    keep_until: datetime | None
    """Afterwards it may be deleted; none for as long as the installation keeps jobs."""
    held_at: datetime | None
    """Under legal hold since then."""
    version: str
    """Differs whenever anything above does."""


@dataclass(frozen=True, kw_only=True)
class UnitView:
    """A completed unit and what the engine answered."""

    unit: FedUnit
    text: str
    tokens: int
    generation_id: str | None
    payload_sha256: str
    decode_ms: float
    queue_wait_ms: float
    inference_ms: float
    clocks: EngineClocks | None
    """None where the engine does not tell them apart."""
    ledger_ms: float | None
    """None until the unit after it is committed, or the epoch's end."""
    total_ms: float | None
    """From the hand-over to the engine to the end of the write; none as above."""
    committed_at: datetime


def get(database: Database, job_id: str, *, owner: str | None) -> JobView:
    """Raises JobUnknown, also for another owner's; an owner of none sees all."""
    check_id(job_id)
    with database.transaction() as session:
        return read(session, job_id, owner=owner)


def read(session: Session, job_id: str, *, owner: str | None) -> JobView:
    """As `get`, within a transaction."""
    wanted = _selected().where(JobRow.id == job_id)
    if owner is not None:
        wanted = wanted.where(JobRow.owner == owner)
    views = _read(session, wanted)
    if not views:
        raise JobUnknown
    return views[0]


def page(
    database: Database,
    *,
    owner: str | None,
    state: JobState | None = None,
    after: str | None = None,
    limit: int,
) -> tuple[tuple[JobView, ...], str | None]:
    """Newest first, and the cursor of the next page; none after the last. Raises CursorRefused."""
    wanted = _selected().order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit + 1)
    if owner is not None:
        wanted = wanted.where(JobRow.owner == owner)
    if state is not None:
        wanted = wanted.where(JobRow.state == state.value)
    if after is not None:
        wanted = wanted.where(tuple_(JobRow.created_at, JobRow.id) < cursors.read(after))
    with database.transaction() as session:
        views = _read(session, wanted)
    shown = views[:limit]
    if len(views) <= limit:
        return shown, None
    return shown, cursors.after(shown[-1].created_at, shown[-1].id)


def epochs(database: Database, job_id: str) -> tuple[EpochRecord, ...]:
    """In order of their numbers."""
    check_id(job_id)
    with database.transaction(is_snapshot=True) as session:
        return dossiers.epochs_of(session, job_id)


def units(
    database: Database, job_id: str, *, epoch: int, after_sequence: int | None = None, limit: int
) -> tuple[UnitView, ...]:
    """Of one epoch, in order of their sequence."""
    check_id(job_id)
    wanted = (
        select(UnitRow)
        .where(UnitRow.job_id == job_id, UnitRow.epoch == epoch)
        .order_by(UnitRow.sequence)
        .limit(limit)
    )
    if after_sequence is not None:
        wanted = wanted.where(UnitRow.sequence > after_sequence)
    with database.transaction() as session:
        return tuple(_unit(row) for row in session.scalars(wanted))


def evidence(
    database: Database, job_id: str, *, after: TextKey | None = None, limit: int | None = None
) -> tuple[Evidence, ...]:
    """Of all epochs, in order of epoch, turn and block, from the first after `after`."""
    check_id(job_id)
    with database.transaction(is_snapshot=True) as session:
        return dossiers.evidence_of(session, job_id, after=after, limit=limit)


def findings(
    database: Database, job_id: str, *, after: TextKey | None = None, limit: int | None = None
) -> tuple[Finding, ...]:
    """As `evidence`; superseded ones and repetitions too, which the brief leaves out."""
    check_id(job_id)
    with database.transaction(is_snapshot=True) as session:
        return dossiers.findings_of(session, job_id, after=after, limit=limit)


def frame_names(database: Database, job_id: str) -> frozenset[str]:
    """Digests of all frames kept for this job."""
    check_id(job_id)
    with database.transaction() as session:
        return frozenset(session.scalars(select(FrameRow.sha256).where(FrameRow.job_id == job_id)))


def has_frame(database: Database, job_id: str, sha256: str) -> bool:
    """Whether this job kept such a frame; the store has those of all jobs."""
    check_id(job_id)
    with database.transaction() as session:
        wanted = select(FrameRow.sha256).where(FrameRow.job_id == job_id, FrameRow.sha256 == sha256)
        return session.scalar(wanted.limit(1)) is not None


_Newest = aliased(
    EpochRow,
    select(EpochRow)
    .where(EpochRow.job_id == JobRow.id)
    .order_by(EpochRow.number.desc())
    .limit(1)
    .correlate(JobRow)
    .lateral("newest"),
)

_Found = tuple[
    JobRow, EpochRow | None, FetchRow | None, Json, int | None, Json, int | None, int | None
]


def _selected() -> Select[_Found]:
    reached_ms = (
        select(UnitRow.end_ms)
        .where(
            UnitRow.job_id == JobRow.id,
            UnitRow.epoch == _Newest.number,
            UnitRow.sequence == _Newest.last_sequence,
        )
        .scalar_subquery()
    )
    measured = (
        select(EpochRow.media_end)
        .where(EpochRow.job_id == JobRow.id, EpochRow.media_end.is_not(None))
        .order_by(EpochRow.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    revision = (
        select(BriefRow.revision)
        .where(BriefRow.job_id == JobRow.id)
        .order_by(BriefRow.revision.desc())
        .limit(1)
        .scalar_subquery()
    )
    holdings = (
        select(func.count())
        .select_from(HoldingRow)
        .where(HoldingRow.job_id == JobRow.id)
        .scalar_subquery()
    )
    return (
        select(
            JobRow, _Newest, FetchRow, dossiers.probe_of(), reached_ms, measured, revision, holdings
        )
        .outerjoin(RecordingRow, JobRow.recording_id == RecordingRow.id)
        .outerjoin(_Newest, true())
        .outerjoin(FetchRow, FetchRow.job_id == JobRow.id)
    )


def _read(session: Session, wanted: Select[_Found]) -> tuple[JobView, ...]:
    return tuple(_view(*found) for found in session.execute(wanted).tuples())


def _view(
    job: JobRow,
    epoch: EpochRow | None,
    fetch: FetchRow | None,
    probe: Json,
    reached_ms: int | None,
    measured: Json,
    brief_revision: int | None,
    holding_count: int | None,
) -> JobView:
    shown: dict[str, object] = {
        "id": job.id,
        "owner": job.owner,
        "recording_id": job.recording_id,
        "fetch": None if fetch is None else _fetch(fetch),
        "filename": job.filename,
        "title": job.title,
        "objective": job.objective,
        "event_date": job.event_date,
        "engine": job.engine,
        "holding_count": holding_count or 0,
        "state": JobState(job.state),
        "times": _times(job),
        "end_reason": job.end_reason,
        "end_detail": job.end_detail,
        "cancel_requested_at": job.cancel_requested_at,
        "created_at": job.created_at,
        "priority": job.priority,
        "not_before": job.not_before,
        "ready_by": job.ready_by,
        "source_end_ms": _source_end_ms(probe, measured),
        "origin_ms": None if probe is None else from_document(Probe, probe).origin_ms,
        "brief_revision": brief_revision,
        "keep_until": job.keep_until,
        "held_at": job.held_at,
        **_newest(epoch, reached_ms),
    }
    document = json.dumps(_shown_plain(shown), sort_keys=True)
    version = hashlib.sha256(document.encode()).hexdigest()[:32]
    return JobView(**shown, version=version)  # type: ignore[arg-type]


def _fetch(row: FetchRow) -> FetchView:
    return FetchView(**{part.name: getattr(row, part.name) for part in fields(FetchView)})


_OF_EPOCH = (
    "epoch",
    "phase",
    "epoch_start_s",
    "epoch_started_at",
    "alive_at",
    "progress_at",
    "progress_ms",
)


def _newest(epoch: EpochRow | None, reached_ms: int | None) -> dict[str, object]:
    if epoch is None:
        return dict.fromkeys(_OF_EPOCH)
    return {
        "epoch": epoch.number,
        "phase": Phase(epoch.phase) if epoch.released_at is None else None,
        "epoch_start_s": epoch.start_s,
        "epoch_started_at": epoch.started_at,
        "alive_at": epoch.alive_at,
        "progress_at": epoch.progress_at,
        "progress_ms": epoch.start_s * 1000 if reached_ms is None else reached_ms,
    }


def _times(job: JobRow) -> Mapping[JobState, datetime]:
    entered = {state: getattr(job, column) for state, column in STATE_TIMES.items()}
    return {state: at for state, at in entered.items() if at is not None}


def _source_end_ms(probe: Json, measured: Json) -> int | None:
    if measured is not None:
        return from_document(MediaEnd, measured).source_end_ms
    return None if probe is None else from_document(Probe, probe).packet_end_ms


def _unit(row: UnitRow) -> UnitView:
    fed = {part.name: getattr(row, part.name) for part in fields(FedUnit)}
    return UnitView(
        unit=FedUnit(**{**fed, "decision": Decision(row.decision)}),
        text=row.text,
        tokens=row.tokens,
        generation_id=row.generation_id,
        payload_sha256=row.payload_sha256,
        decode_ms=row.decode_ms,
        queue_wait_ms=row.queue_wait_ms,
        inference_ms=row.inference_ms,
        clocks=None
        if row.engine_clocks is None
        else from_document(EngineClocks, row.engine_clocks),
        ledger_ms=row.ledger_ms,
        total_ms=row.total_ms,
        committed_at=row.committed_at,
    )


def _shown_plain(shown: Mapping[str, object]) -> Json:
    plain: Json = to_plain(shown)
    return plain
