"""Table of who may call the API."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped

from pipeline.ledger.schema.columns import Base, CreatedAt, Uid, is_one_of

ROLES = ("analyst", "admin")


class ApiKeyRow(Base):
    """A key, as a hash of its secret; the secret itself is shown once and never stored."""

    __tablename__ = "api_keys"
    __table_args__ = (is_one_of("role", ROLES, name="role_known"), UniqueConstraint("secret_hash"))

    id: Mapped[Uid]
    owner: Mapped[str]
    role: Mapped[str]
    secret_hash: Mapped[str]
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
