"""Findings across jobs: by holding, words, time and what people made of them."""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Integer, Select, and_, cast, func, or_, select, tuple_
from sqlalchemy.orm import Session, aliased

from pipeline.ledger import dossiers, notes
from pipeline.ledger.database import Database
from pipeline.ledger.documents import from_document
from pipeline.ledger.errors import CursorRefused
from pipeline.ledger.schema import (
    EpochRow,
    FindingHoldingRow,
    FindingNoteRow,
    FindingRow,
    HoldingRow,
    JobRow,
    RecordingRow,
    UnitRow,
)
from pipeline.ledger.texts import TextKey
from pipeline.ledger.words import Query, whole
from pipeline.plain import Json
from pipeline.records import DECISIONS, JobState, NoteAction, NoteState, Origin, Probe

_IS_NAMED = and_(
    FindingHoldingRow.job_id == HoldingRow.job_id, FindingHoldingRow.holding_id == HoldingRow.id
)
_NAMED_AT = tuple_(
    FindingHoldingRow.job_id,
    FindingHoldingRow.epoch,
    FindingHoldingRow.turn,
    FindingHoldingRow.block,
)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What is searched for; none leaves a filter out."""

    query: Query | None = None
    holding: str | None = None
    """Id, ticker, `EXCHANGE:TICKER`, name or alias; whole words of them are enough."""
    submitted_from: datetime | None = None
    submitted_to: datetime | None = None
    """Inclusive, as the one before."""
    recording_id: str | None = None
    """A UUID."""
    job_state: JobState | None = None
    state: NoteState | None = None


@dataclass(frozen=True, kw_only=True)
class NamedHolding:
    """A holding as the job's portfolio had it."""

    id: str
    name: str
    ticker: str | None


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A finding, and the job it is of."""

    job_id: str
    owner: str
    title: str | None
    filename: str
    event_date: date | None
    job_state: JobState
    submitted_at: datetime
    recording_id: str | None
    origin_ms: int | None
    """Where source time 0 lies on the recording's own clock."""
    epoch: int
    turn: int
    block: int
    holdings: tuple[NamedHolding, ...]
    evidence: str
    is_audio_evidence: bool
    implication: str
    origin: Origin
    """Without its frames."""
    state: NoteState
    note_count: int


_Completing = aliased(UnitRow)
"""The unit that completed a finding."""

_Found = tuple[FindingRow, JobRow, Json, str | None, int | None]
_JobTextKey = tuple[str, int, int, int]


def findings(
    database: Database,
    filters: Filters,
    *,
    owner: str | None,
    after: str | None = None,
    limit: int,
) -> tuple[tuple[Hit, ...], str | None]:
    """Of the newest job first, in each by epoch, turn and block; and the next page's cursor.

    What a later epoch has taken the place of is left out, as in a brief. An owner of none sees all.
    Raises CursorRefused.
    """
    wanted = _selected().where(*_conditions(filters))
    if owner is not None:
        wanted = wanted.where(JobRow.owner == owner)
    if after is not None:
        wanted = wanted.where(*_following(after))
    with database.transaction(is_snapshot=True) as session:
        found = session.execute(wanted.limit(limit + 1)).tuples().all()
        holdings = _holdings(session, [row for row, *_ in found])
    shown = tuple(_hit(*row, holdings=holdings) for row in found[:limit])
    return shown, _cursor(shown[-1]) if len(found) > limit else None


def _selected() -> Select[_Found]:
    counted = (
        select(func.count())
        .where(
            FindingNoteRow.job_id == FindingRow.job_id,
            FindingNoteRow.epoch == FindingRow.epoch,
            FindingNoteRow.turn == FindingRow.turn,
            FindingNoteRow.block == FindingRow.block,
        )
        .correlate(FindingRow)
        .scalar_subquery()
    )
    return (
        select(FindingRow, JobRow, dossiers.probe_of(), notes.decision().scalar_subquery(), counted)
        .join(JobRow, JobRow.id == FindingRow.job_id)
        .join(
            _Completing,
            and_(
                _Completing.job_id == FindingRow.job_id,
                _Completing.epoch == FindingRow.epoch,
                _Completing.sequence == FindingRow.last_sequence,
            ),
        )
        .outerjoin(RecordingRow, RecordingRow.id == JobRow.recording_id)
        .where(~_superseded())
        .order_by(
            JobRow.created_at.desc(),
            JobRow.id.desc(),
            FindingRow.epoch,
            FindingRow.turn,
            FindingRow.block,
        )
    )


def _superseded() -> ColumnElement[bool]:
    """Whether a later epoch completed the second in which the finding was completed.

    design.md, "Seams", as `pipeline.brief.seams` has it: a drain stands at the source's end.
    """
    newer = aliased(UnitRow)
    at_end = cast(func.greatest(FindingRow.generated_end_ms - 1, 0), Integer) // 1000
    return (
        select(newer.sequence)
        .join(EpochRow, and_(EpochRow.job_id == newer.job_id, EpochRow.number == newer.epoch))
        .where(
            EpochRow.job_id == FindingRow.job_id,
            EpochRow.number > FindingRow.epoch,
            newer.second == func.coalesce(_Completing.second, at_end),
        )
        .correlate(FindingRow, _Completing)
        .exists()
    )


def _conditions(filters: Filters) -> Iterator[ColumnElement[bool]]:
    if filters.query is not None:
        for alternatives in filters.query.wanted:
            yield or_(*(_has(FindingRow, piece) for piece in alternatives))
        for piece in filters.query.unwanted:
            yield ~_has(FindingRow, piece)
    if filters.holding is not None:
        yield (
            select(HoldingRow.id)
            .join(FindingHoldingRow, _IS_NAMED)
            .where(
                tuple_(FindingRow.job_id, FindingRow.epoch, FindingRow.turn, FindingRow.block)
                == _NAMED_AT,
                _has(HoldingRow, whole(filters.holding)),
            )
            .correlate(FindingRow)
            .exists()
        )
    if filters.submitted_from is not None:
        yield JobRow.created_at >= filters.submitted_from
    if filters.submitted_to is not None:
        yield JobRow.created_at <= filters.submitted_to
    if filters.recording_id is not None:
        yield JobRow.recording_id == filters.recording_id
    if filters.job_state is not None:
        yield JobRow.state == filters.job_state.value
    if filters.state is not None:
        decision = notes.decision().scalar_subquery()
        actions = {state: action.value for action, state in DECISIONS.items()}
        yield decision.is_not_distinct_from(actions.get(filters.state))


def _has(table: type[FindingRow] | type[HoldingRow], piece: str) -> ColumnElement[bool]:
    # Not LIKE: what is typed needs no escape here.
    return func.strpos(table.search_text, piece) > 0


def _holdings(
    session: Session, rows: Sequence[FindingRow]
) -> Mapping[_JobTextKey, tuple[NamedHolding, ...]]:
    if not rows:
        return {}
    named = session.execute(
        select(FindingHoldingRow, HoldingRow)
        .join(HoldingRow, _IS_NAMED)
        .where(_NAMED_AT.in_([(row.job_id, row.epoch, row.turn, row.block) for row in rows]))
        .order_by(FindingHoldingRow.position)
    )
    found: defaultdict[_JobTextKey, list[NamedHolding]] = defaultdict(list)
    for place, row in named.tuples():
        found[place.job_id, place.epoch, place.turn, place.block].append(
            NamedHolding(id=row.id, name=row.name, ticker=row.ticker)
        )
    return {key: tuple(holdings) for key, holdings in found.items()}


def _hit(
    row: FindingRow,
    job: JobRow,
    probe: Json,
    decided: str | None,
    note_count: int | None,
    *,
    holdings: Mapping[_JobTextKey, tuple[NamedHolding, ...]],
) -> Hit:
    return Hit(
        job_id=job.id,
        owner=job.owner,
        title=job.title,
        filename=job.filename,
        event_date=job.event_date,
        job_state=JobState(job.state),
        submitted_at=job.created_at,
        recording_id=job.recording_id,
        origin_ms=None if probe is None else from_document(Probe, probe).origin_ms,
        epoch=row.epoch,
        turn=row.turn,
        block=row.block,
        holdings=holdings.get((row.job_id, row.epoch, row.turn, row.block), ()),
        evidence=row.evidence,
        is_audio_evidence=row.is_audio_evidence,
        implication=row.implication,
        origin=dossiers.origin_of(row, {}),
        state=NoteState.OPEN if decided is None else DECISIONS[NoteAction(decided)],
        note_count=note_count or 0,
    )


def _following(cursor: str) -> Iterator[ColumnElement[bool]]:
    created_at, job_id, key = _read_cursor(cursor)
    yield JobRow.created_at <= created_at
    yield or_(
        tuple_(JobRow.created_at, JobRow.id) < (created_at, job_id),
        and_(
            JobRow.created_at == created_at,
            JobRow.id == job_id,
            tuple_(FindingRow.epoch, FindingRow.turn, FindingRow.block) > key,
        ),
    )


def _cursor(last: Hit) -> str:
    place = [last.submitted_at.isoformat(), last.job_id, last.epoch, last.turn, last.block]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[datetime, str, TextKey]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        created_at, job_id, *key = json.loads(
            base64.b64decode(padded, altchars=b"-_", validate=True)
        )
        place = datetime.fromisoformat(created_at), str(UUID(job_id))
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise CursorRefused from None
    is_key = len(key) == 3 and all(type(part) is int and 0 <= part < 2**31 for part in key)
    if place[0].tzinfo is None or not is_key:
        raise CursorRefused
    epoch, turn, block = key
    return *place, (epoch, turn, block)
