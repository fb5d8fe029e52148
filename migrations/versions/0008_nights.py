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


def downgrade() -> None:
    op.execute("UPDATE workers SET state = 'leaving' WHERE state = 'quarantined'")
    _replace_states(STATES)
    op.drop_table("tallies")
    op.drop_table("queue")
    for table in ("recordings", "jobs"):
        op.drop_column(table, "held_at")
        op.drop_column(table, "keep_until")
    op.drop_column("jobs", "ready_by")


def _replace_states(condition: str) -> None:
    op.drop_constraint(op.f("ck_workers_state_known"), "workers", type_="check")
    op.create_check_constraint(op.f("ck_workers_state_known"), "workers", condition)
