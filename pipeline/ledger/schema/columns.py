"""The columns and constraints that tables share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from enum import Enum
from typing import Annotated

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKeyConstraint,
    LargeBinary,
    MetaData,
    Text,
    TypeDecorator,
    Uuid,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pipeline.ledger.documents import to_document
from pipeline.ledger.text import storable
from pipeline.plain import Json


class StoredText(TypeDecorator[str]):
    """Text by the rule of `pipeline.ledger.text`, so that no caller can forget it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class StoredJson(TypeDecorator[Json]):
    """A record as `jsonb`; comes back as the document, for `from_document` to read."""

    impl = JSONB(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> Json:
        return to_document(value)


class UtcTime(TypeDecorator[datetime]):
    """A moment; refuses a time without a zone and comes back in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("a stored time needs its time zone")
        return value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(timezone.utc)


class Base(DeclarativeBase):
    """Every constraint gets a name, because one without cannot be dropped by a migration."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it as a plain class attribute)
        str: StoredText(),
        datetime: UtcTime(),
        bytes: LargeBinary(),
        list[str]: ARRAY(StoredText()),
    }


Uid = Annotated[
    str,
    mapped_column(Uuid(as_uuid=False), primary_key=True, server_default=func.gen_random_uuid()),
]
JobId = Annotated[str, mapped_column(Uuid(as_uuid=False))]
Document = Annotated[dict[str, Json], mapped_column(StoredJson())]
CreatedAt = Annotated[datetime, mapped_column(UtcTime(), server_default=func.now())]


class UnderEpoch:
    """The first two columns of every row that an epoch writes."""

    # `sort_order` puts them first, so that the primary key's index serves a job's rows.
    job_id: Mapped[JobId] = mapped_column(primary_key=True, sort_order=-4)
    epoch: Mapped[int] = mapped_column(primary_key=True, sort_order=-3)


def under_epoch() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["job_id", "epoch"], ["epochs.job_id", "epochs.number"])


def is_one_of(column: str, accepted: type[Enum] | Iterable[str], *, name: str) -> CheckConstraint:
    words = [member.value for member in accepted] if isinstance(accepted, type) else list(accepted)
    listed = ", ".join(f"'{word}'" for word in words)
    return CheckConstraint(f"{column} IN ({listed})", name=name)


def is_sha256(column: str) -> CheckConstraint:
    """Digests name files, so that nothing else may stand where one is expected."""
    return CheckConstraint(f"{column} ~ '^[0-9a-f]{{64}}$'", name=f"{column}_is_a_digest")
