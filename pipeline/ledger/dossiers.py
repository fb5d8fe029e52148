"""Everything the ledger knows of one job, as the records it was written from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, func, select, tuple_
from sqlalchemy.orm import Session

from pipeline.ledger import notes
from pipeline.ledger.database import Database
from pipeline.ledger.documents import from_document
from pipeline.ledger.errors import JobUnknown
from pipeline.ledger.jobs import ENDED, check_id
from pipeline.ledger.schema import (
    BlobRow,
    EpochRow,
    EvidenceFrameRow,
    EvidenceRow,
    FindingFrameRow,
    FindingHoldingRow,
    FindingRow,
    FrameRow,
    GapRow,
    HoldingRow,
    JobRow,
    RecordingRow,
    UnitRow,
)
from pipeline.ledger.schema.jobs import STATE_TIMES
from pipeline.ledger.schema.texts import UnderTurn
from pipeline.ledger.texts import TextKey
from pipeline.records import (
    Decision,
    Dossier,
    EngineInfo,
    EpochRecord,
    Evidence,
    EvidenceKind,
    FedUnit,
    Finding,
    FrameRecord,
    Gap,
    Holding,
    Interval,
    JobState,
    MediaEnd,
    Options,
    Origin,
    Probe,
    RecordingRecord,
    Request,
    SessionEnd,
    TextMark,
)

_TextRow = TypeVar("_TextRow", EvidenceRow, FindingRow)
_Named = TypeVar("_Named")


def load(database: Database, job_id: str) -> Dossier:
    """One view of the rows, also while the job runs.

    Raises JobUnknown, also for a job that still waits for its recording.
    """
    check_id(job_id)
    with database.transaction(is_snapshot=True) as session:
        rows = session.execute(
            select(JobRow, RecordingRow, BlobRow)
            .join(RecordingRow, JobRow.recording_id == RecordingRow.id)
            .join(BlobRow, RecordingRow.blob_sha256 == BlobRow.sha256)
            .where(JobRow.id == job_id)
        )
        found = rows.tuples().one_or_none()
        if found is None:
            raise JobUnknown
        job, recording, blob = found
        state = JobState(job.state)
        return Dossier(
            job_id=job.id,
            state=state,
            request=request_of(job),
            holdings=holdings_of(session, job_id),
            portfolio_sha256=job.portfolio_sha256,
            recording=recording_of(job, recording, blob),
            created_at=job.created_at,
            ended_at=getattr(job, STATE_TIMES[state]) if state in ENDED else None,
            end_reason=job.end_reason,
            epochs=epochs_of(session, job_id),
            units=_units(session, job_id),
            findings=findings_of(session, job_id),
            evidence=evidence_of(session, job_id),
            notes=notes.of(session, job_id),
        )


def request_of(job: JobRow) -> Request:
    return Request(
        objective=job.objective,
        title=job.title,
        event_date=job.event_date,
        engine=job.engine,
        options=from_document(Options, job.options),
    )


def probe_of() -> ColumnElement[Any]:
    """The probe that a job goes by: its own, where the caller chose streams, else the recording's.

    Where jobs and recordings are joined.
    """
    return func.coalesce(JobRow.probe, RecordingRow.probe)


def recording_of(job: JobRow, recording: RecordingRow, blob: BlobRow) -> RecordingRecord:
    probe = recording.probe if job.probe is None else job.probe
    return RecordingRecord(
        filename=job.filename,
        sha256=blob.sha256,
        size_bytes=blob.size_bytes,
        probe=None if probe is None else from_document(Probe, probe),
    )


def holdings_of(session: Session, job_id: str) -> tuple[Holding, ...]:
    rows = session.scalars(
        select(HoldingRow).where(HoldingRow.job_id == job_id).order_by(HoldingRow.position)
    )
    return tuple(
        Holding(
            id=row.id,
            name=row.name,
            ticker=row.ticker,
            exchange=row.exchange,
            currency=row.currency,
            asset_type=row.asset_type,
            weight_pct=row.weight_pct,
            aliases=tuple(row.aliases),
        )
        for row in rows
    )


def epochs_of(session: Session, job_id: str) -> tuple[EpochRecord, ...]:
    gaps: dict[int, list[Gap]] = defaultdict(list)
    for gap in session.scalars(
        select(GapRow).where(GapRow.job_id == job_id).order_by(GapRow.epoch, GapRow.start_ms)
    ):
        gaps[gap.epoch].append(Gap(start_ms=gap.start_ms, end_ms=gap.end_ms))
    rows = session.scalars(
        select(EpochRow).where(EpochRow.job_id == job_id).order_by(EpochRow.number)
    )
    return tuple(
        EpochRecord(
            number=row.number,
            start_s=row.start_s,
            engine=from_document(EngineInfo, row.engine),
            prompt_sha256=row.prompt_sha256,
            started_at=row.started_at,
            ended_at=row.ended_at,
            end_reason=row.end_reason,
            end_detail=row.end_detail,
            gaps=tuple(gaps[row.number]),
            media_end=None if row.media_end is None else from_document(MediaEnd, row.media_end),
            session_end=None
            if row.session_end is None
            else from_document(SessionEnd, row.session_end),
        )
        for row in rows
    )


def _units(session: Session, job_id: str) -> tuple[FedUnit, ...]:
    rows = session.execute(
        select(
            UnitRow.epoch,
            UnitRow.sequence,
            UnitRow.second,
            UnitRow.drain,
            UnitRow.start_ms,
            UnitRow.end_ms,
            UnitRow.real_samples,
            UnitRow.filled_samples,
            UnitRow.synthetic_samples,
            UnitRow.frame_ms,
            UnitRow.held_frame_ms,
            UnitRow.rms_dbfs,
            UnitRow.is_end_of_turn,
            UnitRow.decision,
            UnitRow.inference_ms,
        )
        .where(UnitRow.job_id == job_id)
        .order_by(UnitRow.epoch, UnitRow.sequence)
    ).mappings()
    return tuple(FedUnit(**{**row, "decision": Decision(row["decision"])}) for row in rows)


def evidence_of(
    session: Session, job_id: str, *, after: TextKey | None = None, limit: int | None = None
) -> tuple[Evidence, ...]:
    frames = _frames(session, job_id, EvidenceFrameRow)
    rows = session.scalars(_texts(EvidenceRow, job_id, after, limit))
    return tuple(
        Evidence(
            epoch=row.epoch,
            turn=row.turn,
            block=row.block,
            kind=EvidenceKind(row.kind),
            text=row.text,
            origin=origin_of(row, frames),
            marks=_marks(row),
        )
        for row in rows
    )


def findings_of(
    session: Session, job_id: str, *, after: TextKey | None = None, limit: int | None = None
) -> tuple[Finding, ...]:
    frames = _frames(session, job_id, FindingFrameRow)
    holdings = _holding_ids(session, job_id)
    rows = session.scalars(_texts(FindingRow, job_id, after, limit))
    return tuple(
        Finding(
            epoch=row.epoch,
            turn=row.turn,
            block=row.block,
            holding_ids=holdings.get((row.epoch, row.turn, row.block), ()),
            unmatched=tuple(row.unmatched),
            ambiguous=tuple(row.ambiguous),
            evidence=row.evidence,
            is_audio_evidence=row.is_audio_evidence,
            implication=row.implication,
            uncertainty=row.uncertainty,
            verification=row.verification,
            is_closed=row.is_closed,
            text=row.text,
            origin=origin_of(row, frames),
            marks=_marks(row),
        )
        for row in rows
    )


def _texts(
    table: type[_TextRow], job_id: str, after: TextKey | None, limit: int | None
) -> Select[tuple[_TextRow]]:
    key = (table.epoch, table.turn, table.block)
    wanted = select(table).where(table.job_id == job_id).order_by(*key).limit(limit)
    return wanted if after is None else wanted.where(tuple_(*key) > after)


def _marks(row: EvidenceRow | FindingRow) -> tuple[TextMark, ...]:
    return tuple(from_document(TextMark, mark) for mark in row.marks)


def origin_of(
    row: EvidenceRow | FindingRow, frames: Mapping[TextKey, tuple[FrameRecord, ...]]
) -> Origin:
    return Origin(
        generated_in=Interval(start_ms=row.generated_start_ms, end_ms=row.generated_end_ms),
        available_from_ms=row.available_from_ms,
        first_sequence=row.first_sequence,
        last_sequence=row.last_sequence,
        frames=frames.get((row.epoch, row.turn, row.block), ()),
    )


def _holding_ids(session: Session, job_id: str) -> Mapping[TextKey, tuple[str, ...]]:
    rows = session.scalars(
        select(FindingHoldingRow)
        .where(FindingHoldingRow.job_id == job_id)
        .order_by(FindingHoldingRow.position)
    )
    return _by_key((row, row.holding_id) for row in rows)


def _frames(
    session: Session, job_id: str, table: type[EvidenceFrameRow] | type[FindingFrameRow]
) -> Mapping[TextKey, tuple[FrameRecord, ...]]:
    rows = session.execute(
        select(table, FrameRow)
        .join(
            FrameRow,
            (FrameRow.job_id == table.job_id)
            & (FrameRow.epoch == table.epoch)
            & (FrameRow.source_ms == table.frame_ms),
        )
        .where(table.job_id == job_id)
        .order_by(table.position)
    )
    return _by_key(
        (
            row,
            FrameRecord(
                sha256=frame.sha256,
                source_ms=frame.source_ms,
                width_px=frame.width_px,
                height_px=frame.height_px,
            ),
        )
        for row, frame in rows.tuples()
    )


def _by_key(named: Iterable[tuple[UnderTurn, _Named]]) -> Mapping[TextKey, tuple[_Named, ...]]:
    """What each text names, in the order given."""
    lists: dict[TextKey, list[_Named]] = defaultdict(list)
    for row, item in named:
        lists[row.epoch, row.turn, row.block].append(item)
    return {key: tuple(items) for key, items in lists.items()}
