"""How long a unit's write and the unit as a whole took."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("ledger_ms", "total_ms"):
        op.add_column("units", sa.Column(name, sa.Double(), nullable=True))


def downgrade() -> None:
    for name in ("total_ms", "ledger_ms"):
        op.drop_column("units", name)
