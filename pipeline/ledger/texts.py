"""Evidence and findings: written under their key, replaced in place, never there twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.ledger import epochs
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import TextConflict
from pipeline.ledger.schema import (
    EvidenceFrameRow,
    EvidenceRow,
    FindingFrameRow,
    FindingHoldingRow,
    FindingRow,
    FrameRow,
    HoldingRow,
    UnitRow,
)
from pipeline.ledger.words import finding_text
from pipeline.records import Evidence, Finding, Frame, Origin

Text = Evidence | Finding

TextKey = tuple[int, int, int]
"""Epoch, turn and block: where a text stands in its job."""

_Keyed = EvidenceRow | FindingRow | EvidenceFrameRow | FindingFrameRow | FindingHoldingRow


def record(
    database: Database, key: EpochKey, *, texts: Sequence[Text], frames: Sequence[Frame] = ()
) -> None:
    """Write texts that no unit completes: the turn that a stop, a fault or the end cut off.

    The last unit that was answered may not be there: its own write is what failed. A text then ends
    with the unit before it, and one that began with it is left out. Raises as `units.record` does.
    """
    with database.transaction() as session:
        epoch = epochs.hold(session, key)
        kept = _of_kept_units(session, key, texts, last_sequence=epoch.last_sequence)
        write(session, key, texts=kept, frames=frames)


def write(
    session: Session, key: EpochKey, *, texts: Sequence[Text], frames: Sequence[Frame]
) -> None:
    """Insert or replace under an epoch that the caller holds; frames first, texts name them.

    Where two frames share one millisecond, the first stands for both. Raises TextConflict for
    evidence whose key a finding has taken, ValueError for another epoch's.
    """
    _write_frames(session, key, frames)
    for text in texts:
        if text.epoch != key.number:
            raise ValueError(f"a text of epoch {text.epoch} cannot be written under {key.number}")
        if isinstance(text, Finding):
            _write_finding(session, key, text)
        else:
            _write_evidence(session, key, text)


def _of_kept_units(
    session: Session, key: EpochKey, texts: Sequence[Text], *, last_sequence: int | None
) -> Sequence[Text]:
    if last_sequence is None:
        return ()
    if all(text.origin.last_sequence <= last_sequence for text in texts):
        return texts
    end_ms = session.scalars(
        select(UnitRow.end_ms).where(
            UnitRow.job_id == key.job_id,
            UnitRow.epoch == key.number,
            UnitRow.sequence == last_sequence,
        )
    ).one()
    return [
        replace(text, origin=_up_to(text.origin, last_sequence, end_ms))
        for text in texts
        if text.origin.first_sequence <= last_sequence
    ]


def _up_to(origin: Origin, last_sequence: int, end_ms: int) -> Origin:
    if origin.last_sequence <= last_sequence:
        return origin
    return replace(
        origin,
        generated_in=replace(origin.generated_in, end_ms=end_ms),
        last_sequence=last_sequence,
        frames=tuple(frame for frame in origin.frames if frame.source_ms < end_ms),
    )


def _write_frames(session: Session, key: EpochKey, frames: Sequence[Frame]) -> None:
    if not frames:
        return
    session.execute(
        insert(FrameRow).on_conflict_do_nothing(),
        [
            {
                "job_id": key.job_id,
                "epoch": key.number,
                "source_ms": frame.source_ms,
                "sha256": frame.sha256,
                "width_px": frame.width_px,
                "height_px": frame.height_px,
                "size_bytes": len(frame.jpeg),
            }
            for frame in frames
        ],
    )


def _write_evidence(session: Session, key: EpochKey, evidence: Evidence) -> None:
    if session.scalar(select(FindingRow.turn).where(*_at(FindingRow, key, evidence))) is not None:
        raise TextConflict
    session.execute(delete(EvidenceFrameRow).where(*_at(EvidenceFrameRow, key, evidence)))
    _put(session, EvidenceRow, _columns(key, evidence) | {"kind": evidence.kind.value})
    _write_frames_named(session, EvidenceFrameRow, key, evidence)


def _write_finding(session: Session, key: EpochKey, finding: Finding) -> None:
    earlier: tuple[type[_Keyed], ...] = (
        EvidenceFrameRow,
        EvidenceRow,
        FindingFrameRow,
        FindingHoldingRow,
    )
    for table in earlier:
        session.execute(delete(table).where(*_at(table, key, finding)))
    said = (finding.evidence, finding.implication, finding.uncertainty, finding.verification)
    named = (*finding.unmatched, *finding.ambiguous)
    _put(
        session,
        FindingRow,
        _columns(key, finding)
        | {
            "unmatched": list(finding.unmatched),
            "ambiguous": list(finding.ambiguous),
            "evidence": finding.evidence,
            "is_audio_evidence": finding.is_audio_evidence,
            "implication": finding.implication,
            "uncertainty": finding.uncertainty,
            "verification": finding.verification,
            "is_closed": finding.is_closed,
            "search_text": finding_text((*said, *named), _names(session, key, finding)),
        },
    )
    _write_frames_named(session, FindingFrameRow, key, finding)
    if finding.holding_ids:
        session.execute(
            insert(FindingHoldingRow),
            [
                _key_columns(key, finding) | {"position": position, "holding_id": holding_id}
                for position, holding_id in enumerate(finding.holding_ids)
            ],
        )


def _names(session: Session, key: EpochKey, finding: Finding) -> Sequence[str]:
    """What its holdings are called, folded."""
    return session.scalars(
        select(HoldingRow.search_text)
        .where(HoldingRow.job_id == key.job_id, HoldingRow.id.in_(finding.holding_ids))
        .order_by(HoldingRow.position)
    ).all()


def _write_frames_named(
    session: Session,
    table: type[EvidenceFrameRow] | type[FindingFrameRow],
    key: EpochKey,
    text: Text,
) -> None:
    if text.origin.frames:
        session.execute(
            insert(table),
            [
                _key_columns(key, text) | {"position": position, "frame_ms": frame.source_ms}
                for position, frame in enumerate(text.origin.frames)
            ],
        )


def _put(
    session: Session, table: type[EvidenceRow] | type[FindingRow], columns: dict[str, object]
) -> None:
    session.execute(
        insert(table)
        .values(columns)
        .on_conflict_do_update(
            index_elements=[table.job_id, table.epoch, table.turn, table.block], set_=columns
        )
    )


def _key_columns(key: EpochKey, text: Text) -> dict[str, object]:
    return {"job_id": key.job_id, "epoch": key.number, "turn": text.turn, "block": text.block}


def _columns(key: EpochKey, text: Text) -> dict[str, object]:
    origin = text.origin
    return _key_columns(key, text) | {
        "text": text.text,
        "marks": text.marks,
        "generated_start_ms": origin.generated_in.start_ms,
        "generated_end_ms": origin.generated_in.end_ms,
        "available_from_ms": origin.available_from_ms,
        "first_sequence": origin.first_sequence,
        "last_sequence": origin.last_sequence,
    }


def _at(table: type[_Keyed], key: EpochKey, text: Text) -> tuple[ColumnElement[bool], ...]:
    return (
        table.job_id == key.job_id,
        table.epoch == key.number,
        table.turn == text.turn,
        table.block == text.block,
    )
