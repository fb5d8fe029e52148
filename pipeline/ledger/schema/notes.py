"""Table of what people did about findings."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import Base, CreatedAt, JobId, is_one_of
from pipeline.ledger.schema.texts import KEY, UnderTurn
from pipeline.records import NoteAction


class FindingNoteRow(UnderTurn, Base):
    """One entry of a finding's log; a trigger of migration 0003 refuses every change of one.

    The finding itself may still be replaced in place while its turn goes on: its key stays.
    """

    __tablename__ = "finding_notes"
    __table_args__ = (
        ForeignKeyConstraint(KEY, [f"findings.{column}" for column in KEY]),
        is_one_of("action", NoteAction, name="action_known"),
        CheckConstraint("number >= 1", name="number_positive"),
        CheckConstraint("action <> 'note' OR text <> ''", name="note_says_something"),
    )

    number: Mapped[int] = mapped_column(primary_key=True)
    action: Mapped[str]
    text: Mapped[str]
    author: Mapped[str]
    key_id: Mapped[JobId | None] = mapped_column(ForeignKey("api_keys.id"))
    """None where no key was used."""
    at: Mapped[CreatedAt]
