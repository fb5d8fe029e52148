"""One completed unit with everything it completed, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from pipeline.clock import SAMPLES_PER_UNIT
from pipeline.ledger import epochs, texts
from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey
from pipeline.ledger.errors import UnitConflict
from pipeline.ledger.schema import EpochRow, JobRow, UnitRow
from pipeline.ledger.text import storable
from pipeline.records import (
    Evidence,
    Finding,
    Frame,
    Phase,
    Reply,
    Unit,
    UnitClocks,
    WrittenUnit,
)


def record(
    database: Database,
    key: EpochKey,
    *,
    unit: Unit | None,
    source_end_ms: int,
    reply: Reply,
    clocks: UnitClocks,
    texts: Sequence[Evidence | Finding] = (),
    frames: Sequence[Frame] = (),
    rms_dbfs: float | None,
    written: WrittenUnit | None = None,
) -> bool:
    """Commit one unit, or one drain unit where `unit` is none; return whether a cancel was asked.

    The frames are in the frame store already. A drain unit stands at `source_end_ms` and takes no
    source time. `written` tells of the unit before, whose own row could not. The same unit again is
    a no-op, so that a commit whose outcome is unknown can be repeated. Raises FenceLost where the
    epoch is no longer the caller's, UnitConflict for another payload or reply under a sequence that
    is there already or for a sequence with a hole before it.
    """
    with database.transaction() as session:
        epoch = epochs.hold(session, key)
        if not _is_recorded(session, key, reply):
            _check_order(epoch, reply)
            session.execute(
                insert(UnitRow).values(
                    job_id=key.job_id,
                    epoch=key.number,
                    rms_dbfs=rms_dbfs,
                    **_source_columns(unit, source_end_ms),
                    **_reply_columns(reply),
                    **_clock_columns(reply, clocks),
                )
            )
            _write_texts(session, key, texts=texts, frames=frames)
            _stamp_progress(session, key, reply)
            settle(session, key, written)
        return _is_cancel_requested(session, key)


def settle(session: Session, key: EpochKey, written: WrittenUnit | None) -> None:
    """Say how long a committed unit took, within the caller's transaction; none says nothing."""
    if written is None:
        return
    session.execute(
        update(UnitRow)
        .where(
            UnitRow.job_id == key.job_id,
            UnitRow.epoch == key.number,
            UnitRow.sequence == written.sequence,
        )
        .values(ledger_ms=written.ledger_ms, total_ms=written.total_ms)
    )


# `texts` is also the name of an argument above.
_write_texts = texts.write


def _is_recorded(session: Session, key: EpochKey, reply: Reply) -> bool:
    kept = session.execute(
        select(
            UnitRow.payload_sha256,
            UnitRow.drain,
            UnitRow.decision,
            UnitRow.text,
            UnitRow.generation_id,
        ).where(
            UnitRow.job_id == key.job_id,
            UnitRow.epoch == key.number,
            UnitRow.sequence == reply.sequence,
        )
    ).one_or_none()
    if kept is None:
        return False
    if (kept.payload_sha256, kept.drain) != (reply.payload_sha256, reply.drain):
        raise UnitConflict(f"unit {reply.sequence} is recorded with another payload")
    generation_id = None if reply.generation_id is None else storable(reply.generation_id)
    given = (reply.decision.value, storable(reply.text), generation_id)
    if (kept.decision, kept.text, kept.generation_id) != given:
        raise UnitConflict(f"unit {reply.sequence} is recorded with another reply")
    return True


def _check_order(epoch: EpochRow, reply: Reply) -> None:
    expected = 0 if epoch.last_sequence is None else epoch.last_sequence + 1
    if reply.sequence != expected:
        raise UnitConflict(f"unit {reply.sequence} is out of order; expected {expected}")


def _source_columns(unit: Unit | None, source_end_ms: int) -> dict[str, object]:
    if unit is None:
        return {
            "second": None,
            "start_ms": source_end_ms,
            "end_ms": source_end_ms,
            "real_samples": 0,
            "filled_samples": 0,
            "synthetic_samples": SAMPLES_PER_UNIT,
            "frame_ms": None,
            "held_frame_ms": None,
        }
    return {
        "second": unit.second,
        "start_ms": unit.start_ms,
        "end_ms": unit.end_ms,
        "real_samples": unit.real_samples,
        "filled_samples": unit.filled_samples,
        "synthetic_samples": unit.synthetic_samples,
        "frame_ms": unit.frame_ms,
        "held_frame_ms": unit.held_frame_ms,
    }


def _reply_columns(reply: Reply) -> dict[str, object]:
    return {
        "sequence": reply.sequence,
        "drain": reply.drain,
        "payload_sha256": reply.payload_sha256,
        "generation_id": reply.generation_id,
        "decision": reply.decision.value,
        "text": reply.text,
        "is_end_of_turn": reply.is_end_of_turn,
        "tokens": reply.tokens,
        "window_start_sequence": reply.window_start_sequence,
        "cached_tokens": reply.cached_tokens,
    }


def _clock_columns(reply: Reply, clocks: UnitClocks) -> dict[str, object]:
    return {
        "decode_ms": clocks.decode_ms,
        "queue_wait_ms": clocks.queue_wait_ms,
        "inference_ms": reply.inference_ms,
        "inference_started_at": clocks.inference_started_at,
        "inference_ended_at": clocks.inference_ended_at,
        "emitted_at": clocks.emitted_at,
        "engine_clocks": reply.clocks,
    }


def _stamp_progress(session: Session, key: EpochKey, reply: Reply) -> None:
    phase = Phase.UNIT if reply.drain is None else Phase.DRAIN
    session.execute(
        update(EpochRow)
        .where(*epochs.at(key))
        .values(last_sequence=reply.sequence, progress_at=func.now(), phase=phase.value)
    )


def _is_cancel_requested(session: Session, key: EpochKey) -> bool:
    asked_at = session.scalar(select(JobRow.cancel_requested_at).where(JobRow.id == key.job_id))
    return asked_at is not None
