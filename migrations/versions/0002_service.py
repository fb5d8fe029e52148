"""The service: uploads, sign-ins, reruns, kept answers, audit, workers, and news of changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

CHANGES = (
    ("jobs", "INSERT OR UPDATE"),
    ("epochs", "INSERT OR UPDATE"),
    ("briefs", "INSERT"),
)


def upgrade() -> None:
    op.add_column(
        "api_keys", sa.Column("label", sa.Text(), server_default=sa.text("''"), nullable=False)
    )
    op.add_column("jobs", sa.Column("next_start_s", sa.Integer(), nullable=True))
    op.create_check_constraint(
        op.f("ck_jobs_next_start_s_not_negative"), "jobs", "next_start_s >= 0"
    )
    _create_sign_ins()
    _create_uploads()
    _create_reruns()
    _create_idempotency_keys()
    _create_audit()
    _create_workers()
    _create_notices()


def _create_sign_ins() -> None:
    op.create_table(
        "sign_ins",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "token_hash ~ '^[0-9a-f]{64}$'", name=op.f("ck_sign_ins_token_hash_is_a_digest")
        ),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name=op.f("fk_sign_ins_key_id_api_keys")
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_sign_ins")),
    )


def _create_uploads() -> None:
    op.create_table(
        "uploads",
        sa.Column(
            "id",
            sa.Uuid(as_uuid=False),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
        ),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("blob_sha256", sa.Text(), nullable=True),
        sa.Column("recording_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "recording_id IS NULL OR closed_at IS NOT NULL",
            name=op.f("ck_uploads_recording_when_closed"),
        ),
        sa.CheckConstraint(
            "blob_sha256 IS NULL OR closed_at IS NULL", name=op.f("ck_uploads_blob_while_open")
        ),
        sa.ForeignKeyConstraint(
            ["blob_sha256"], ["blobs.sha256"], name=op.f("fk_uploads_blob_sha256_blobs")
        ),
        sa.ForeignKeyConstraint(
            ["recording_id"], ["recordings.id"], name=op.f("fk_uploads_recording_id_recordings")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    op.create_index(
        "ix_uploads_blob_open",
        "uploads",
        ["blob_sha256"],
        unique=False,
        postgresql_where=sa.text("blob_sha256 IS NOT NULL"),
    )


def _create_reruns() -> None:
    op.create_table(
        "reruns",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column(
            "requested_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint("epoch >= 1", name=op.f("ck_reruns_epoch_positive")),
        sa.CheckConstraint("start_s >= 0", name=op.f("ck_reruns_start_s_not_negative")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_reruns_job_id_jobs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reruns")),
    )
    op.create_index(op.f("ix_reruns_job_id_epoch"), "reruns", ["job_id", "epoch"], unique=False)


def _create_idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("payload_sha256", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column(
            "begun_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("headers", postgresql.JSONB(), nullable=True),
        sa.CheckConstraint(
            "payload_sha256 ~ '^[0-9a-f]{64}$'",
            name=op.f("ck_idempotency_keys_payload_sha256_is_a_digest"),
        ),
        sa.CheckConstraint(
            "(status IS NULL) = (answered_at IS NULL) AND (body IS NULL) = (answered_at IS NULL)"
            " AND (headers IS NULL) = (answered_at IS NULL)",
            name=op.f("ck_idempotency_keys_answered_whole"),
        ),
        sa.PrimaryKeyConstraint("owner", "route", "key", name=op.f("pk_idempotency_keys")),
    )


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("key_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name=op.f("fk_audit_key_id_api_keys")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column(
            "id",
            sa.Uuid(as_uuid=False),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
        ),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "alive_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.CheckConstraint(
            "state IN ('loading', 'ready', 'leaving', 'gone')",
            name=op.f("ck_workers_state_known"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
        sa.UniqueConstraint("host", "slot", name=op.f("uq_workers_host_slot")),
    )


def _create_notices() -> None:
    # Branches rather than one expression, because a row of one table lacks the other's column.
    op.execute("""
        CREATE FUNCTION omnai_notify_job() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_TABLE_NAME = 'jobs' THEN
                PERFORM pg_notify('omnai_jobs', NEW.id::text);
            ELSE
                PERFORM pg_notify('omnai_jobs', NEW.job_id::text);
            END IF;
            RETURN NULL;
        END
        $$
    """)
    for table, events in CHANGES:
        op.execute(
            f"CREATE TRIGGER omnai_notify_job AFTER {events} ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION omnai_notify_job()"
        )


def downgrade() -> None:
    for table, _ in CHANGES:
        op.execute(f"DROP TRIGGER omnai_notify_job ON {table}")
    op.execute("DROP FUNCTION omnai_notify_job()")
    op.drop_table("workers")
    op.drop_index(op.f("ix_audit_at"), table_name="audit")
    op.drop_table("audit")
    op.drop_table("idempotency_keys")
    op.drop_index(op.f("ix_reruns_job_id_epoch"), table_name="reruns")
    op.drop_table("reruns")
    op.drop_index(
        "ix_uploads_blob_open",
        table_name="uploads",
        postgresql_where=sa.text("blob_sha256 IS NOT NULL"),
    )
    op.drop_table("uploads")
    op.drop_table("sign_ins")
    op.drop_constraint(op.f("ck_jobs_next_start_s_not_negative"), "jobs", type_="check")
    op.drop_column("jobs", "next_start_s")
    op.drop_column("api_keys", "label")
