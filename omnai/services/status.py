"""What the embedded services are doing now."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ServiceState(str, Enum):
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class ServiceStatus:
    name: str
    """`postgres` or `valkey`."""
    state: ServiceState
    version: str | None
    """Of the installed program; None where it is not installed."""
    url: str | None
    """For SQLAlchemy (`postgresql+psycopg://…`) or redis-py (`unix://…`); None while stopped."""
    pid: int | None
    problem: str | None
    """Why it cannot be used, or what is unusual; None where all is well."""


@dataclass(frozen=True, kw_only=True)
class ServicesStatus:
    postgres: ServiceStatus
    valkey: ServiceStatus
    is_kept: bool
    """Whether they stay until somebody stops them, rather than until the last user leaves."""

    @property
    def all(self) -> tuple[ServiceStatus, ...]:
        return (self.postgres, self.valkey)
