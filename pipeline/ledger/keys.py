"""Keys of the API: who holds one, what it allows, and the links that sign a browser in."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update

from pipeline.ledger.database import Database
from pipeline.ledger.errors import KeyUnknown
from pipeline.ledger.ids import is_id
from pipeline.ledger.schema import ApiKeyRow, SignInRow

PREFIX = "omnai_"
"""Lets a person, and a scan for leaked secrets, tell what a secret is for."""

SECRET_BYTES = 32
"""256 bits: nobody can guess one, so that an unsalted hash may be looked up."""

STAMP_INTERVAL_S = 60
"""`last_used_at` is this exact, so that not every request writes."""


class Role(str, Enum):
    """What a key allows."""

    ANALYST = "analyst"
    """One's own recordings and jobs."""
    ADMIN = "admin"
    """Everybody's, and reruns."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key without its secret."""

    id: str
    owner: str
    role: Role
    label: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


def create(
    database: Database, *, owner: str, role: Role, label: str = "", expires_at: datetime | None
) -> tuple[Key, str]:
    """The new key and its secret, which is stored nowhere and cannot be had again."""
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    with database.transaction() as session:
        row = session.scalars(
            insert(ApiKeyRow)
            .values(
                owner=owner,
                role=role.value,
                label=label,
                secret_hash=_hashed(secret),
                expires_at=expires_at,
            )
            .returning(ApiKeyRow)
        ).one()
    return _key(row), secret


def find(database: Database, secret: str) -> Key | None:
    """The key of a secret; none where it is unknown, expired or revoked."""
    with database.transaction() as session:
        row = session.scalar(
            select(ApiKeyRow).where(ApiKeyRow.secret_hash == _hashed(secret), *_valid())
        )
        if row is None:
            return None
        used_at = session.scalar(
            update(ApiKeyRow)
            .where(
                ApiKeyRow.id == row.id,
                or_(
                    ApiKeyRow.last_used_at.is_(None),
                    ApiKeyRow.last_used_at < func.now() - timedelta(seconds=STAMP_INTERVAL_S),
                ),
            )
            .values(last_used_at=func.now())
            .returning(ApiKeyRow.last_used_at)
            .execution_options(synchronize_session=False)
        )
    return _key(row, used_at)


def get(database: Database, key_id: str) -> Key | None:
    """A valid key by its id, for a session that began with it; none where it no longer is."""
    if not is_id(key_id):
        return None
    with database.transaction() as session:
        row = session.scalar(select(ApiKeyRow).where(ApiKeyRow.id == key_id, *_valid()))
    return None if row is None else _key(row)


def listed(database: Database) -> tuple[Key, ...]:
    """All keys, the revoked and expired ones too, oldest first."""
    with database.transaction() as session:
        rows = session.scalars(select(ApiKeyRow).order_by(ApiKeyRow.created_at, ApiKeyRow.id))
        return tuple(_key(row) for row in rows)


def revoke(database: Database, key_id: str) -> bool:
    """Return whether this call did it; its sign-in links go with it."""
    if not is_id(key_id):
        return False
    with database.transaction() as session:
        revoked = session.scalar(
            update(ApiKeyRow)
            .where(ApiKeyRow.id == key_id, ApiKeyRow.revoked_at.is_(None))
            .values(revoked_at=func.now())
            .returning(ApiKeyRow.id)
        )
        session.execute(delete(SignInRow).where(SignInRow.key_id == key_id))
    return revoked is not None


def make_sign_in(database: Database, key_id: str, *, lifetime_s: int) -> str:
    """A token that signs a browser in with this key, once. Raises KeyUnknown."""
    token = secrets.token_urlsafe(SECRET_BYTES)
    if not is_id(key_id):
        raise KeyUnknown
    with database.transaction() as session:
        session.execute(delete(SignInRow).where(SignInRow.expires_at <= func.now()))
        if session.scalar(select(ApiKeyRow.id).where(ApiKeyRow.id == key_id, *_valid())) is None:
            raise KeyUnknown
        session.execute(
            insert(SignInRow).values(
                token_hash=_hashed(token),
                key_id=key_id,
                expires_at=func.now() + timedelta(seconds=lifetime_s),
            )
        )
    return token


def take_sign_in(database: Database, token: str) -> Key | None:
    """Use a token up; none where it is unknown, used, expired, or its key no longer valid."""
    with database.transaction() as session:
        # Deleting is what makes it work once: of two that use it, one finds no row.
        key_id = session.scalar(
            delete(SignInRow)
            .where(SignInRow.token_hash == _hashed(token), SignInRow.expires_at > func.now())
            .returning(SignInRow.key_id)
        )
        if key_id is None:
            return None
        row = session.scalar(select(ApiKeyRow).where(ApiKeyRow.id == key_id, *_valid()))
    return None if row is None else _key(row)


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _valid() -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return (
        ApiKeyRow.revoked_at.is_(None),
        or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > func.now()),
    )


def _key(row: ApiKeyRow, used_at: datetime | None = None) -> Key:
    return Key(
        id=row.id,
        owner=row.owner,
        role=Role(row.role),
        label=row.label,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=used_at or row.last_used_at,
        revoked_at=row.revoked_at,
    )
