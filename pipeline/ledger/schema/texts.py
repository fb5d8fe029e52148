"""Tables of what was said: frames, evidence, findings, and what each of them names."""

from __future__ import annotations

from typing import Annotated

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import (
    Base,
    StoredJson,
    UnderEpoch,
    is_one_of,
    is_sha256,
    under_epoch,
)
from pipeline.plain import Json
from pipeline.records import FRAME_BYTES_MAX, EvidenceKind

Marks = Annotated[
    list[Json],
    mapped_column(StoredJson(), server_default=text("'[]'::jsonb"), sort_order=1),
]
"""Counted remarks on a text, as `jsonb`; after the columns that all texts have."""

KEY = ("job_id", "epoch", "turn", "block")


class FrameRow(UnderEpoch, Base):
    """A kept frame; its bytes are in the frame store before this row is written.

    Its time is its key, for a still has the same bytes whenever it is shown.
    """

    __tablename__ = "frames"
    __table_args__ = (
        under_epoch(),
        is_sha256("sha256"),
        CheckConstraint(f"size_bytes BETWEEN 1 AND {FRAME_BYTES_MAX}", name="size_bytes_in_range"),
        CheckConstraint("width_px > 0 AND height_px > 0", name="edges_positive"),
    )

    source_ms: Mapped[int] = mapped_column(primary_key=True)
    sha256: Mapped[str]
    width_px: Mapped[int]
    height_px: Mapped[int]
    size_bytes: Mapped[int]


class UnderTurn(UnderEpoch):
    """The key of a text: which block of which turn of which epoch."""

    turn: Mapped[int] = mapped_column(primary_key=True, sort_order=-2)
    block: Mapped[int] = mapped_column(primary_key=True, sort_order=-1)


class FromUnits(UnderTurn):
    """Where a text comes from; the frames it names are rows of their own."""

    text: Mapped[str]
    generated_start_ms: Mapped[int]
    generated_end_ms: Mapped[int]
    available_from_ms: Mapped[int]
    first_sequence: Mapped[int]
    last_sequence: Mapped[int]


def _from_units() -> tuple[ForeignKeyConstraint | CheckConstraint | Index, ...]:
    return (
        under_epoch(),
        *(
            Index(None, "job_id", "epoch", column)  # asked for each unit that is deleted
            for column in ("first_sequence", "last_sequence")
        ),
        *(
            ForeignKeyConstraint(
                ["job_id", "epoch", column], ["units.job_id", "units.epoch", "units.sequence"]
            )
            for column in ("first_sequence", "last_sequence")
        ),
        CheckConstraint("turn >= 0 AND block >= 0", name="key_not_negative"),
        CheckConstraint("first_sequence <= last_sequence", name="sequences_forward"),
        CheckConstraint("generated_start_ms <= generated_end_ms", name="interval_forward"),
    )


class EvidenceRow(FromUnits, Base):
    """Public text that is not a finding."""

    __tablename__ = "evidence"
    __table_args__ = (*_from_units(), is_one_of("kind", EvidenceKind, name="kind_known"))

    kind: Mapped[str]
    marks: Mapped[Marks]


class FindingRow(FromUnits, Base):
    """A complete labelled portfolio conclusion."""

    __tablename__ = "findings"
    __table_args__ = _from_units()

    unmatched: Mapped[list[str]]
    ambiguous: Mapped[list[str]]
    evidence: Mapped[str]
    is_audio_evidence: Mapped[bool]
    implication: Mapped[str]
    uncertainty: Mapped[str]
    verification: Mapped[str]
    is_closed: Mapped[bool]
    marks: Mapped[Marks]
    search_text: Mapped[str] = mapped_column(server_default=text("''"), sort_order=2)
    """What it says and the names of its holdings, folded as `pipeline.ledger.words` does."""


class FindingHoldingRow(UnderTurn, Base):
    """A holding that a finding names.

    Rows rather than an array, so that the database refuses a holding nobody supplied and finds the
    findings of a holding by an index.
    """

    __tablename__ = "finding_holdings"
    __table_args__ = (
        ForeignKeyConstraint(KEY, [f"findings.{column}" for column in KEY]),
        ForeignKeyConstraint(["job_id", "holding_id"], ["holdings.job_id", "holdings.id"]),
        Index(None, "job_id", "holding_id"),
    )

    position: Mapped[int] = mapped_column(primary_key=True)
    holding_id: Mapped[str]


class NamesFrame(UnderTurn):
    """A frame that a text names, in order."""

    position: Mapped[int] = mapped_column(primary_key=True)
    frame_ms: Mapped[int]


def _names_frame(table: str) -> tuple[ForeignKeyConstraint | Index, ...]:
    return (
        Index(None, "job_id", "epoch", "frame_ms"),  # asked for each frame that is deleted
        ForeignKeyConstraint(KEY, [f"{table}.{column}" for column in KEY]),
        ForeignKeyConstraint(
            ["job_id", "epoch", "frame_ms"], ["frames.job_id", "frames.epoch", "frames.source_ms"]
        ),
    )


class EvidenceFrameRow(NamesFrame, Base):
    """A frame that a piece of evidence names."""

    __tablename__ = "evidence_frames"
    __table_args__ = _names_frame("evidence")


class FindingFrameRow(NamesFrame, Base):
    """A frame that a finding names."""

    __tablename__ = "finding_frames"
    __table_args__ = _names_frame("findings")
