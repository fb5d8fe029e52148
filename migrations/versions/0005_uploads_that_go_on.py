"""Uploads that go on after an interruption, and when one that does not is given up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

CHECKS = {
    "length_positive": "length_bytes >= 1",
    "offset_within_length": (
        "(length_bytes IS NULL) = (offset_bytes IS NULL)"
        " AND offset_bytes >= 0 AND offset_bytes <= length_bytes"
    ),
    "refused_without_recording": (
        "(refusal_code IS NULL) = (refusal_message IS NULL)"
        " AND (refusal_code IS NULL OR (closed_at IS NOT NULL AND recording_id IS NULL))"
    ),
}


def upgrade() -> None:
    op.add_column(
        "uploads",
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            # What the release before writes in the meantime gets a day too.
            server_default=sa.text("now() + interval '24 hours'"),
            nullable=False,
        ),
    )
    for name in ("length_bytes", "offset_bytes"):
        op.add_column("uploads", sa.Column(name, sa.BigInteger(), nullable=True))
    for name in ("client_metadata", "refusal_code", "refusal_message"):
        op.add_column("uploads", sa.Column(name, sa.Text(), nullable=True))
    for name, rule in CHECKS.items():
        op.create_check_constraint(op.f(f"ck_uploads_{name}"), "uploads", rule)
    op.create_index(
        "ix_uploads_open_expires_at",
        "uploads",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("closed_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index(
        "ix_uploads_open_expires_at",
        table_name="uploads",
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    for name in reversed(CHECKS):
        op.drop_constraint(op.f(f"ck_uploads_{name}"), "uploads", type_="check")
    for name in (
        "refusal_message",
        "refusal_code",
        "client_metadata",
        "offset_bytes",
        "length_bytes",
        "expires_at",
    ):
        op.drop_column("uploads", name)
