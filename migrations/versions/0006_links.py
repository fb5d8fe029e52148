"""Recordings that are fetched from a link."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SHOWN = "received_bytes, total_bytes, attempts, ended_at"
"""What people see of a fetch; the rest of a row moves every few seconds."""


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    op.create_table(
        "fetches",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("upload_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("not_before", time, nullable=True),
        sa.Column("lease", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("leased_until", time, nullable=True),
        sa.Column("received_bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=True),
        sa.Column("validator", sa.Text(), nullable=True),
        sa.Column("place_sha256", sa.Text(), nullable=True),
        sa.Column("begun_at", time, nullable=True),
        sa.Column("ended_at", time, nullable=True),
        sa.Column("created_at", time, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "(url IS NULL) = (ended_at IS NOT NULL)", name=op.f("ck_fetches_url_while_open")
        ),
        sa.CheckConstraint(
            "(lease IS NULL) = (leased_until IS NULL)", name=op.f("ck_fetches_lease_has_end")
        ),
        sa.CheckConstraint(
            "lease IS NULL OR ended_at IS NULL", name=op.f("ck_fetches_lease_while_open")
        ),
        sa.CheckConstraint("attempts >= 0", name=op.f("ck_fetches_attempts_not_negative")),
        sa.CheckConstraint(
            "received_bytes >= 0 AND (total_bytes IS NULL OR received_bytes <= total_bytes)",
            name=op.f("ck_fetches_received_within_total"),
        ),
        sa.CheckConstraint(
            "(validator IS NULL) = (place_sha256 IS NULL)"
            " AND (validator IS NULL OR total_bytes IS NOT NULL)",
            name=op.f("ck_fetches_version_whole"),
        ),
        sa.CheckConstraint(
            "place_sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_fetches_place_sha256_is_a_digest")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_fetches_job_id_jobs")),
        sa.ForeignKeyConstraint(
            ["upload_id"], ["uploads.id"], name=op.f("fk_fetches_upload_id_uploads")
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_fetches")),
    )
    op.create_index(
        "ix_fetches_open",
        "fetches",
        ["created_at", "job_id"],
        unique=False,
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.execute(
        f"CREATE TRIGGER omnai_notify_job AFTER UPDATE OF {SHOWN} ON fetches"
        " FOR EACH ROW EXECUTE FUNCTION omnai_notify_job()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER omnai_notify_job ON fetches")
    op.drop_index(
        "ix_fetches_open", table_name="fetches", postgresql_where=sa.text("ended_at IS NULL")
    )
    op.drop_table("fetches")
