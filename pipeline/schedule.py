"""When a job is wanted: before which others, not before when, and by when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from pipeline.errors import InputRefused, Problem

PRIORITY_BOUNDS = (-100, 100)
"""Least and greatest, both allowed; a queue of a night has a few dozen jobs."""

OWN_PRIORITY_MIN = 0
"""Whoever is no admin may let others go first, and may not go before them."""

AHEAD_MAX = timedelta(days=366)
"""A time further away is a slip of the hand; so is one that was as long ago."""

_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_LOCAL = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}(:[0-9]{2})?)")

ACCEPTED = "a time with its offset is accepted, such as 2026-03-31T07:00:00+02:00"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When a job is wanted; by itself: in its turn, and as soon as may be. Times are in UTC."""

    priority: int = 0
    """Smaller is claimed first."""
    not_before: datetime | None = None
    ready_by: datetime | None = None
    """When its brief is wanted; it changes nothing about the order."""


def build_schedule(
    *,
    priority: object,
    not_before: object,
    ready_by: object,
    now: datetime,
    is_admin: bool,
) -> Schedule:
    """Raises InputRefused with everything that is wrong, by JSON pointer; None is not given."""
    problems: list[Problem] = []
    schedule = Schedule(
        priority=_priority(priority, is_admin, problems),
        not_before=_time(not_before, "/not_before", now, problems),
        ready_by=_time(ready_by, "/ready_by", now, problems),
    )
    earliest = max(schedule.not_before or now, now)
    if schedule.ready_by is not None and schedule.ready_by <= now:
        _refuse(problems, "ready_by_past", "/ready_by", "this time is over; give a later one")
    elif schedule.ready_by is not None and schedule.ready_by <= earliest:
        _refuse(
            problems,
            "ready_by_too_early",
            "/ready_by",
            "it is not after “not_before”, before which nothing begins; give a later time",
        )
    if problems:
        raise InputRefused(*problems)
    return schedule


def with_offset(local: str, zone: ZoneInfo) -> str:
    """A time as a form gives it, read by the clocks of `zone`, as RFC 3339.

    What is no such time comes back as it is, for `build_schedule` to refuse. A time that the clocks
    show twice is the first one; one that they skip is as much later as they skip.
    """
    found = _LOCAL.fullmatch(local.strip())
    if found is None:
        return local
    try:
        at = datetime.fromisoformat(f"{found[1]}T{found[2]}").replace(tzinfo=zone)
        return at.astimezone(timezone.utc).isoformat()
    except (ValueError, OverflowError):
        return local


def _priority(value: object, is_admin: bool, problems: list[Problem]) -> int:
    least, greatest = PRIORITY_BOUNDS
    own = least if is_admin else OWN_PRIORITY_MIN
    accepted = f"a whole number from {own} to {greatest} is accepted; smaller goes first"
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(problems, "priority_type", "/priority", f"it is no whole number; {accepted}")
    elif not least <= value <= greatest:
        _refuse(problems, "priority_out_of_bounds", "/priority", f"out of bounds; {accepted}")
    elif value < own:
        message = f"only an admin lets a job go before those of others; {accepted}"
        _refuse(problems, "priority_reserved", "/priority", message)
    else:
        return value
    return 0


def _time(value: object, where: str, now: datetime, problems: list[Problem]) -> datetime | None:
    at = None if value is None else read_time(value, where, problems)
    if at is not None and abs(at - now) > AHEAD_MAX:
        message = f"it is further away than {AHEAD_MAX.days} days; give a nearer time"
        _refuse(problems, "time_too_far", where, message)
        return None
    return at


def read_time(value: object, where: str, problems: list[Problem]) -> datetime | None:
    """An RFC 3339 time with its offset, in UTC; what is none is added to the problems."""
    found = _RFC3339.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        _refuse(problems, "time_malformed", where, f"it is no time; {ACCEPTED}")
        return None
    day, clock, fraction, offset = found.groups()
    if offset is None:
        _refuse(problems, "time_without_offset", where, f"it names no offset; {ACCEPTED}")
        return None
    try:
        at = datetime.fromisoformat(
            f"{day}T{clock}.{(fraction or '.0')[1:7]:0<6}{'+00:00' if offset in 'Zz' else offset}"
        ).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        _refuse(problems, "time_malformed", where, f"no calendar and clock has it; {ACCEPTED}")
        return None
    return at


def _refuse(problems: list[Problem], code: str, where: str, message: str) -> None:
    problems.append(Problem(code=code, where=where, message=message))
