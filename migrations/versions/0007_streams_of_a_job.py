"""The streams that a caller chose, as the media process found them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("probe", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "probe")
