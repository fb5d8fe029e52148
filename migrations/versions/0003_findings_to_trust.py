"""Notes on findings, marks of texts, engine clocks, what a brief's content is, and search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

# What is stored has to be folded as the code that searches it folds what is typed.
from pipeline.ledger.words import finding_text, holding_text

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ROWS_AT_ONCE = 1_000

HOLDINGS = "SELECT job_id, id, name, ticker, exchange, aliases FROM holdings"
FINDINGS = """
    SELECT f.job_id, f.epoch, f.turn, f.block, f.evidence, f.implication, f.uncertainty,
           f.verification, f.unmatched, f.ambiguous,
           array(SELECT h.search_text
                   FROM finding_holdings n
                   JOIN holdings h ON h.job_id = n.job_id AND h.id = n.holding_id
                  WHERE (n.job_id, n.epoch, n.turn, n.block) = (f.job_id, f.epoch, f.turn, f.block)
                  ORDER BY h.position) AS names
      FROM findings f
"""


def upgrade() -> None:
    op.add_column(
        "units", sa.Column("engine_clocks", postgresql.JSONB(none_as_null=True), nullable=True)
    )
    for table in ("evidence", "findings"):
        op.add_column(
            table,
            sa.Column(
                "marks", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False
            ),
        )
    for table in ("findings", "holdings"):
        op.add_column(
            table,
            sa.Column("search_text", sa.Text(), server_default=sa.text("''"), nullable=False),
        )
    # What is listed and searched across owners comes by it, the newest first.
    op.create_index(op.f("ix_jobs_created_at_id"), "jobs", ["created_at", "id"], unique=False)
    _extend_briefs()
    _create_notes()
    _fill()


def _extend_briefs() -> None:
    op.add_column("briefs", sa.Column("content_sha256", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f("ck_briefs_content_sha256_is_a_digest"),
        "briefs",
        "content_sha256 ~ '^[0-9a-f]{64}$'",
    )
    op.add_column(
        "briefs",
        sa.Column("note_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
    )
    op.create_check_constraint(
        op.f("ck_briefs_note_count_not_negative"), "briefs", "note_count >= 0"
    )


def _create_notes() -> None:
    op.create_table(
        "finding_notes",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.CheckConstraint(
            "action IN ('note', 'accept', 'reject', 'done')",
            name=op.f("ck_finding_notes_action_known"),
        ),
        sa.CheckConstraint("number >= 1", name=op.f("ck_finding_notes_number_positive")),
        sa.CheckConstraint(
            "action <> 'note' OR text <> ''", name=op.f("ck_finding_notes_note_says_something")
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "epoch", "turn", "block"],
            ["findings.job_id", "findings.epoch", "findings.turn", "findings.block"],
            name=op.f("fk_finding_notes_job_id_epoch_turn_block_findings"),
        ),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name=op.f("fk_finding_notes_key_id_api_keys")
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "epoch", "turn", "block", "number", name=op.f("pk_finding_notes")
        ),
    )
    # Rows still go with the job that they belong to; no row ever says something else.
    op.execute("""
        CREATE FUNCTION omnai_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'a note is never changed' USING ERRCODE = 'restrict_violation';
        END
        $$
    """)
    op.execute(
        "CREATE TRIGGER omnai_refuse_change BEFORE UPDATE ON finding_notes"
        " FOR EACH ROW EXECUTE FUNCTION omnai_refuse_change()"
    )


def _fill() -> None:
    _fold_rows(
        HOLDINGS,
        "UPDATE holdings SET search_text = :folded WHERE job_id = :job_id AND id = :id",
        lambda row: holding_text(
            row["id"], row["name"], row["ticker"], row["exchange"], row["aliases"]
        ),
    )
    _fold_rows(
        FINDINGS,
        "UPDATE findings SET search_text = :folded WHERE job_id = :job_id AND epoch = :epoch"
        " AND turn = :turn AND block = :block",
        lambda row: finding_text(
            (
                row["evidence"],
                row["implication"],
                row["uncertainty"],
                row["verification"],
                *row["unmatched"],
                *row["ambiguous"],
            ),
            row["names"],
        ),
    )


def _fold_rows(selected: str, update: str, folded: Callable[[Mapping[str, Any]], str]) -> None:
    connection = op.get_bind()
    statement = sa.text(selected).execution_options(yield_per=ROWS_AT_ONCE)
    rows = connection.execute(statement)
    for part in rows.mappings().partitions():
        connection.execute(sa.text(update), [{**row, "folded": folded(row)} for row in part])


def downgrade() -> None:
    op.drop_index(op.f("ix_jobs_created_at_id"), table_name="jobs")
    op.drop_table("finding_notes")
    op.execute("DROP FUNCTION omnai_refuse_change()")
    for name in ("note_count_not_negative", "content_sha256_is_a_digest"):
        op.drop_constraint(op.f(f"ck_briefs_{name}"), "briefs", type_="check")
    for table, column in (
        ("briefs", "note_count"),
        ("briefs", "content_sha256"),
        ("holdings", "search_text"),
        ("findings", "search_text"),
        ("findings", "marks"),
        ("evidence", "marks"),
        ("units", "engine_clocks"),
    ):
        op.drop_column(table, column)
