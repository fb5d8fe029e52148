"""The first tables: what was asked, what ran, what was said, and who may ask."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column(
            "id",
            sa.Uuid(as_uuid=False),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
        ),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role IN ('analyst', 'admin')", name=op.f("ck_api_keys_role_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_api_keys_secret_hash")),
    )
    op.create_table(
        "blobs",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint("sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_blobs_sha256_is_a_digest")),
        sa.CheckConstraint("size_bytes >= 0", name=op.f("ck_blobs_size_bytes_not_negative")),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_blobs")),
    )
    op.create_table(
        "recordings",
        sa.Column(
            "id",
            sa.Uuid(as_uuid=False),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
        ),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("blob_sha256", sa.Text(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("probe", postgresql.JSONB(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["blob_sha256"], ["blobs.sha256"], name=op.f("fk_recordings_blob_sha256_blobs")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recordings")),
        sa.UniqueConstraint("owner", "blob_sha256", name=op.f("uq_recordings_owner_blob_sha256")),
    )
    op.create_table(
        "jobs",
        sa.Column(
            "id",
            sa.Uuid(as_uuid=False),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
        ),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("recording_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("event_date", sa.Date(), nullable=True),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("options", postgresql.JSONB(), nullable=False),
        sa.Column("portfolio_sha256", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("waiting_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("running_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("canceling_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finalizing_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("succeeded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("canceled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_epoch", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.Column("end_detail", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "CASE state WHEN 'waiting_for_recording' THEN waiting_at WHEN 'queued' THEN "
            "queued_at WHEN 'running' THEN running_at WHEN 'canceling' THEN canceling_at "
            "WHEN 'finalizing' THEN finalizing_at WHEN 'succeeded' THEN succeeded_at WHEN "
            "'failed' THEN failed_at WHEN 'canceled' THEN canceled_at END IS NOT NULL",
            name=op.f("ck_jobs_state_has_time"),
        ),
        sa.CheckConstraint(
            "portfolio_sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_jobs_portfolio_sha256_is_a_digest")
        ),
        sa.CheckConstraint(
            "recording_id IS NOT NULL OR state IN ('waiting_for_recording', 'failed', 'canceled')",
            name=op.f("ck_jobs_has_recording_before_queue"),
        ),
        sa.CheckConstraint(
            "state IN ('waiting_for_recording', 'queued', 'running', 'canceling', "
            "'finalizing', 'succeeded', 'failed', 'canceled')",
            name=op.f("ck_jobs_state_known"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('succeeded', 'failed', 'canceled') OR end_reason IS NOT NULL",
            name=op.f("ck_jobs_ended_with_reason"),
        ),
        sa.CheckConstraint("next_epoch >= 1", name=op.f("ck_jobs_next_epoch_positive")),
        sa.ForeignKeyConstraint(
            ["recording_id"], ["recordings.id"], name=op.f("fk_jobs_recording_id_recordings")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(
        "ix_jobs_claim",
        "jobs",
        ["engine", "priority", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(op.f("ix_jobs_owner_created_at"), "jobs", ["owner", "created_at"], unique=False)
    op.create_index(op.f("ix_jobs_recording_id"), "jobs", ["recording_id"], unique=False)
    op.create_table(
        "briefs",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("canonical_sha256", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "canonical_sha256 ~ '^[0-9a-f]{64}$'",
            name=op.f("ck_briefs_canonical_sha256_is_a_digest"),
        ),
        sa.CheckConstraint("revision >= 1", name=op.f("ck_briefs_revision_positive")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_briefs_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "revision", name=op.f("pk_briefs")),
    )
    op.create_table(
        "epochs",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("engine", postgresql.JSONB(), nullable=False),
        sa.Column("prompt_sha256", sa.Text(), nullable=False),
        sa.Column("start_s", sa.Integer(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "alive_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column(
            "progress_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("last_sequence", sa.Integer(), nullable=True),
        sa.Column("fenced_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.Column("end_detail", sa.Text(), nullable=True),
        sa.Column("media_end", postgresql.JSONB(), nullable=True),
        sa.Column("session_end", postgresql.JSONB(), nullable=True),
        sa.CheckConstraint(
            "phase IN ('claim', 'prepare', 'unit', 'drain', 'publish')",
            name=op.f("ck_epochs_phase_known"),
        ),
        sa.CheckConstraint(
            "(ended_at IS NULL) = (end_reason IS NULL)", name=op.f("ck_epochs_ended_with_reason")
        ),
        sa.CheckConstraint(
            "ended_at IS NULL OR fenced_at IS NOT NULL", name=op.f("ck_epochs_ended_is_fenced")
        ),
        sa.CheckConstraint("number >= 1", name=op.f("ck_epochs_number_positive")),
        sa.CheckConstraint(
            "released_at IS NULL OR ended_at IS NOT NULL", name=op.f("ck_epochs_released_is_ended")
        ),
        sa.CheckConstraint("start_s >= 0", name=op.f("ck_epochs_start_s_not_negative")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_epochs_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_epochs")),
    )
    op.create_index(
        "uq_epochs_slot_unreleased",
        "epochs",
        ["slot"],
        unique=True,
        postgresql_where=sa.text("released_at IS NULL"),
    )
    op.create_table(
        "holdings",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ticker", sa.Text(), nullable=True),
        sa.Column("exchange", sa.Text(), nullable=True),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("asset_type", sa.Text(), nullable=False),
        sa.Column("weight_pct", sa.Numeric(), nullable=False),
        sa.Column("aliases", sa.ARRAY(sa.Text()), nullable=False),
        sa.CheckConstraint(
            "weight_pct NOT IN ('NaN', 'Infinity', '-Infinity')",
            name=op.f("ck_holdings_weight_pct_finite"),
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_holdings_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "id", name=op.f("pk_holdings")),
        sa.UniqueConstraint("job_id", "position", name=op.f("uq_holdings_job_id_position")),
    )
    op.create_table(
        "frames",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("source_ms", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("width_px", sa.Integer(), nullable=False),
        sa.Column("height_px", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.CheckConstraint("sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_frames_sha256_is_a_digest")),
        sa.CheckConstraint(
            "size_bytes BETWEEN 1 AND 512000", name=op.f("ck_frames_size_bytes_in_range")
        ),
        sa.CheckConstraint("width_px > 0 AND height_px > 0", name=op.f("ck_frames_edges_positive")),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch"],
            ["epochs.job_id", "epochs.number"],
            name=op.f("fk_frames_job_id_epoch_epochs"),
        ),
        sa.PrimaryKeyConstraint("job_id", "epoch", "source_ms", name=op.f("pk_frames")),
    )
    op.create_table(
        "gaps",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("start_ms", sa.Integer(), nullable=False),
        sa.Column("end_ms", sa.Integer(), nullable=False),
        sa.CheckConstraint("start_ms < end_ms", name=op.f("ck_gaps_interval_forward")),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch"],
            ["epochs.job_id", "epochs.number"],
            name=op.f("fk_gaps_job_id_epoch_epochs"),
        ),
        sa.PrimaryKeyConstraint("job_id", "epoch", "start_ms", name=op.f("pk_gaps")),
    )
    op.create_table(
        "units",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("second", sa.Integer(), nullable=True),
        sa.Column("drain", sa.Integer(), nullable=True),
        sa.Column("start_ms", sa.Integer(), nullable=False),
        sa.Column("end_ms", sa.Integer(), nullable=False),
        sa.Column("real_samples", sa.Integer(), nullable=False),
        sa.Column("filled_samples", sa.Integer(), nullable=False),
        sa.Column("synthetic_samples", sa.Integer(), nullable=False),
        sa.Column("frame_ms", sa.Integer(), nullable=True),
        sa.Column("held_frame_ms", sa.Integer(), nullable=True),
        sa.Column("rms_dbfs", sa.Double(), nullable=True),
        sa.Column("payload_sha256", sa.Text(), nullable=False),
        sa.Column("generation_id", sa.Text(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("is_end_of_turn", sa.Boolean(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("window_start_sequence", sa.Integer(), nullable=False),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("decode_ms", sa.Double(), nullable=False),
        sa.Column("queue_wait_ms", sa.Double(), nullable=False),
        sa.Column("inference_ms", sa.Double(), nullable=False),
        sa.Column("inference_started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("inference_ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("emitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "committed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint("decision IN ('listen', 'speak')", name=op.f("ck_units_decision_known")),
        sa.CheckConstraint(
            "payload_sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_units_payload_sha256_is_a_digest")
        ),
        sa.CheckConstraint(
            "rms_dbfs > '-Infinity' AND rms_dbfs < 'Infinity'",
            name=op.f("ck_units_rms_dbfs_finite"),
        ),
        sa.CheckConstraint(
            "(second IS NULL) = (drain IS NOT NULL)", name=op.f("ck_units_second_unless_drain")
        ),
        sa.CheckConstraint("drain BETWEEN 1 AND 8", name=op.f("ck_units_drain_in_range")),
        sa.CheckConstraint(
            "frame_ms IS NULL OR held_frame_ms IS NULL", name=op.f("ck_units_frame_own_or_held")
        ),
        sa.CheckConstraint(
            "real_samples >= 0 AND filled_samples >= 0 AND synthetic_samples >= 0 AND "
            "real_samples + filled_samples + synthetic_samples = 16000",
            name=op.f("ck_units_samples_make_a_second"),
        ),
        sa.CheckConstraint("sequence >= 0", name=op.f("ck_units_sequence_not_negative")),
        sa.CheckConstraint("start_ms <= end_ms", name=op.f("ck_units_interval_forward")),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch"],
            ["epochs.job_id", "epochs.number"],
            name=op.f("fk_units_job_id_epoch_epochs"),
        ),
        sa.PrimaryKeyConstraint("job_id", "epoch", "sequence", name=op.f("pk_units")),
    )
    op.create_index(
        "uq_units_second",
        "units",
        ["job_id", "epoch", "second"],
        unique=True,
        postgresql_where=sa.text("second IS NOT NULL"),
    )
    op.create_table(
        "evidence",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("generated_start_ms", sa.Integer(), nullable=False),
        sa.Column("generated_end_ms", sa.Integer(), nullable=False),
        sa.Column("available_from_ms", sa.Integer(), nullable=False),
        sa.Column("first_sequence", sa.Integer(), nullable=False),
        sa.Column("last_sequence", sa.Integer(), nullable=False),
        sa.CheckConstraint("kind IN ('turn', 'cut')", name=op.f("ck_evidence_kind_known")),
        sa.CheckConstraint(
            "first_sequence <= last_sequence", name=op.f("ck_evidence_sequences_forward")
        ),
        sa.CheckConstraint(
            "generated_start_ms <= generated_end_ms", name=op.f("ck_evidence_interval_forward")
        ),
        sa.CheckConstraint("turn >= 0 AND block >= 0", name=op.f("ck_evidence_key_not_negative")),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "first_sequence"],
            ["units.job_id", "units.epoch", "units.sequence"],
            name=op.f("fk_evidence_job_id_epoch_first_sequence_units"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "last_sequence"],
            ["units.job_id", "units.epoch", "units.sequence"],
            name=op.f("fk_evidence_job_id_epoch_last_sequence_units"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch"],
            ["epochs.job_id", "epochs.number"],
            name=op.f("fk_evidence_job_id_epoch_epochs"),
        ),
        sa.PrimaryKeyConstraint("job_id", "epoch", "turn", "block", name=op.f("pk_evidence")),
    )
    op.create_table(
        "findings",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("unmatched", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("ambiguous", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("is_audio_evidence", sa.Boolean(), nullable=False),
        sa.Column("implication", sa.Text(), nullable=False),
        sa.Column("uncertainty", sa.Text(), nullable=False),
        sa.Column("verification", sa.Text(), nullable=False),
        sa.Column("is_closed", sa.Boolean(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("generated_start_ms", sa.Integer(), nullable=False),
        sa.Column("generated_end_ms", sa.Integer(), nullable=False),
        sa.Column("available_from_ms", sa.Integer(), nullable=False),
        sa.Column("first_sequence", sa.Integer(), nullable=False),
        sa.Column("last_sequence", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "first_sequence <= last_sequence", name=op.f("ck_findings_sequences_forward")
        ),
        sa.CheckConstraint(
            "generated_start_ms <= generated_end_ms", name=op.f("ck_findings_interval_forward")
        ),
        sa.CheckConstraint("turn >= 0 AND block >= 0", name=op.f("ck_findings_key_not_negative")),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "first_sequence"],
            ["units.job_id", "units.epoch", "units.sequence"],
            name=op.f("fk_findings_job_id_epoch_first_sequence_units"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "last_sequence"],
            ["units.job_id", "units.epoch", "units.sequence"],
            name=op.f("fk_findings_job_id_epoch_last_sequence_units"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch"],
            ["epochs.job_id", "epochs.number"],
            name=op.f("fk_findings_job_id_epoch_epochs"),
        ),
        sa.PrimaryKeyConstraint("job_id", "epoch", "turn", "block", name=op.f("pk_findings")),
    )
    op.create_table(
        "evidence_frames",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("frame_ms", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "frame_ms"],
            ["frames.job_id", "frames.epoch", "frames.source_ms"],
            name=op.f("fk_evidence_frames_job_id_epoch_frame_ms_frames"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "turn", "block"],
            ["evidence.job_id", "evidence.epoch", "evidence.turn", "evidence.block"],
            name=op.f("fk_evidence_frames_job_id_epoch_turn_block_evidence"),
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "epoch", "turn", "block", "position", name=op.f("pk_evidence_frames")
        ),
    )
    op.create_table(
        "finding_frames",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("frame_ms", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "frame_ms"],
            ["frames.job_id", "frames.epoch", "frames.source_ms"],
            name=op.f("fk_finding_frames_job_id_epoch_frame_ms_frames"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "turn", "block"],
            ["findings.job_id", "findings.epoch", "findings.turn", "findings.block"],
            name=op.f("fk_finding_frames_job_id_epoch_turn_block_findings"),
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "epoch", "turn", "block", "position", name=op.f("pk_finding_frames")
        ),
    )
    op.create_table(
        "finding_holdings",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("holding_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "turn", "block"],
            ["findings.job_id", "findings.epoch", "findings.turn", "findings.block"],
            name=op.f("fk_finding_holdings_job_id_epoch_turn_block_findings"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "holding_id"],
            ["holdings.job_id", "holdings.id"],
            name=op.f("fk_finding_holdings_job_id_holding_id_holdings"),
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "epoch", "turn", "block", "position", name=op.f("pk_finding_holdings")
        ),
    )
    op.create_index(
        op.f("ix_finding_holdings_job_id_holding_id"),
        "finding_holdings",
        ["job_id", "holding_id"],
        unique=False,
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_finding_holdings_job_id_holding_id"), table_name="finding_holdings")
    op.drop_table("finding_holdings")
    op.drop_table("finding_frames")
    op.drop_table("evidence_frames")
    op.drop_table("findings")
    op.drop_table("evidence")
    op.drop_index(
        "uq_units_second", table_name="units", postgresql_where=sa.text("second IS NOT NULL")
    )
    op.drop_table("units")
    op.drop_table("gaps")
    op.drop_table("frames")
    op.drop_table("holdings")
    op.drop_index(
        "uq_epochs_slot_unreleased",
        table_name="epochs",
        postgresql_where=sa.text("released_at IS NULL"),
    )
    op.drop_table("epochs")
    op.drop_table("briefs")
    op.drop_index(op.f("ix_jobs_recording_id"), table_name="jobs")
    op.drop_index(op.f("ix_jobs_owner_created_at"), table_name="jobs")
    op.drop_index("ix_jobs_claim", table_name="jobs", postgresql_where=sa.text("state = 'queued'"))
    op.drop_table("jobs")
    op.drop_table("recordings")
    op.drop_table("blobs")
    op.drop_table("api_keys")
