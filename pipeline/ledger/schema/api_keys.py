"""Tables of who may call the API: keys, and the links that sign a browser in once."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.ledger.schema.columns import Base, CreatedAt, JobId, Uid, is_one_of, is_sha256

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
    label: Mapped[str] = mapped_column(server_default=text("''"))
    """What its holder calls it."""


class SignInRow(Base):
    """A link that signs a browser in with a key; the row goes when the link is used."""

    __tablename__ = "sign_ins"
    __table_args__ = (is_sha256("token_hash"),)

    token_hash: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[JobId] = mapped_column(ForeignKey("api_keys.id"))
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
