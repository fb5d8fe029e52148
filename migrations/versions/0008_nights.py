"""Nights that are planned, and rows that may be kept and let go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

STATES = "state IN ('loading', 'ready', 'leaving', 'gone')"
STATES_NOW = "state IN ('loading', 'ready', 'leaving', 'gone', 'quarantined')"

ASKED_BY_DELETION = {
    "evidence": ("first_sequence", "last_sequence"),
    "findings": ("first_sequence", "last_sequence"),
    "evidence_frames": ("frame_ms",),
    "finding_frames": ("frame_ms",),
}
"""Columns that refer to units and frames, each of which is looked for there when it is deleted."""


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    op.add_column("jobs", sa.Column("ready_by", time, nullable=True))
    for table in ("jobs", "recordings"):
        op.add_column(table, sa.Column("keep_until", time, nullable=True))
        op.add_column(table, sa.Column("held_at", time, nullable=True))
    op.create_table(
        "queue",
        sa.Column("id", sa.SmallInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("changed_at", time, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_queue_one_row")),
        sa.CheckConstraint(
            "state IN ('open', 'paused', 'draining')", name=op.f("ck_queue_state_known")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queue")),
    )
    op.execute("INSERT INTO queue (state) VALUES ('open')")
    op.create_table(
        "tallies",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("count >= 0", name=op.f("ck_tallies_count_not_negative")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tallies")),
    )
    _replace_states(STATES_NOW)
    for table, column in _asked():
        op.create_index(_index(table, column), table, ["job_id", "epoch", column])


def downgrade() -> None:
    for table, column in _asked():
        op.drop_index(_index(table, column), table_name=table)
    op.execute("UPDATE workers SET state = 'leaving' WHERE state = 'quarantined'")
    _replace_states(STATES)
    op.drop_table("tallies")
    op.drop_table("queue")
    for table in ("recordings", "jobs"):
        op.drop_column(table, "held_at")
        op.drop_column(table, "keep_until")
    op.drop_column("jobs", "ready_by")


def _asked() -> list[tuple[str, str]]:
    return [(table, column) for table, columns in ASKED_BY_DELETION.items() for column in columns]


def _index(table: str, column: str) -> str:
    return op.f(f"ix_{table}_job_id_epoch_{column}")


def _replace_states(condition: str) -> None:
    op.drop_constraint(op.f("ck_workers_state_known"), "workers", type_="check")
    op.create_check_constraint(op.f("ck_workers_state_known"), "workers", condition)
