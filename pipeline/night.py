"""The operator's window: when work may begin, exact across every change of the clocks."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_WINDOW = re.compile(r"([0-9]{2}:[0-9]{2})\s*[-–]\s*([0-9]{2}:[0-9]{2})")

_ZONE_CHARS_MAX = 100
"""The longest name in use has thirty."""

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_SATURDAY = 5


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """One stretch of time in which the window is open; its end is no part of it."""

    opens_at: datetime
    closes_at: datetime


@dataclass(frozen=True, kw_only=True)
class Night:
    """A daily window by the clocks of one zone, and whether weekends are open throughout.

    A window belongs to the day on which it opens; one that closes at or before the time it opens
    crosses midnight. An edge that the clocks skip is where they skip, and one that they show twice
    counts the first time. Every moment has to know its zone; every answer is in UTC.
    """

    opens: time
    closes: time
    zone: ZoneInfo
    has_weekends: bool
    """Whether Saturdays and Sundays are open from midnight to midnight."""

    def __post_init__(self) -> None:
        if self.opens == self.closes:
            raise ValueError("a window that opens when it closes is always open, or never")

    def is_open(self, at: datetime) -> bool:
        return self._stretch(at).opens_at <= at

    def opens_at(self, at: datetime) -> datetime:
        """The first open moment from `at` on: `at` itself while it is open."""
        return max(self._stretch(at).opens_at, at.astimezone(timezone.utc))

    def closes_at(self, at: datetime) -> datetime:
        """When the stretch closes that is open at `at`, or else the next one."""
        return self._stretch(at).closes_at

    def newest(self, at: datetime) -> Stretch:
        """The stretch that is open at `at`, or else the last one before it."""
        return [found for found in self._around(at) if found.opens_at <= at][-1]

    def _stretch(self, at: datetime) -> Stretch:
        """The one that is open at `at`, or else the next one."""
        return next(found for found in self._around(at) if at < found.closes_at)

    def _around(self, at: datetime) -> tuple[Stretch, ...]:
        return _stretches(self, at.astimezone(self.zone).date())

    def parts(self, today: date) -> Iterator[Stretch]:
        """Of a week and a half to either side, each by itself and in no order."""
        for days in range(-11, 12):
            day = today + days * _DAY
            last = day if self.opens < self.closes else day + _DAY
            yield self._part(day, self.opens, last, self.closes)
            if self.has_weekends and day.weekday() >= _SATURDAY:
                yield self._part(day, time(), day + _DAY, time())

    def _part(self, first: date, opens: time, last: date, closes: time) -> Stretch:
        return Stretch(
            opens_at=_instant(datetime.combine(first, opens, tzinfo=self.zone)),
            closes_at=_instant(datetime.combine(last, closes, tzinfo=self.zone)),
        )


def read_window(text: str) -> tuple[time, time]:
    """`19:30-06:30` as when it opens and when it closes. Raises ValueError for anything else."""
    found = _WINDOW.fullmatch(text.strip())
    if found is None:
        raise ValueError
    opens, closes = (time.fromisoformat(edge) for edge in found.groups())
    if opens == closes:
        raise ValueError
    return opens, closes


def read_zone(name: str) -> ZoneInfo:
    """Raises ValueError for what is no name of the IANA database."""
    if len(name) > _ZONE_CHARS_MAX:
        raise ValueError
    try:
        return ZoneInfo(name.strip())
    # What looks like a path is a ValueError, and a folder of zones is an error of reading.
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError from error


@functools.lru_cache(maxsize=128)
def _stretches(night: Night, today: date) -> tuple[Stretch, ...]:
    """Whole stretches in order: at least the last one that has begun, whatever the weekends join
    together, and the next one that has not."""
    joined: list[Stretch] = []
    for part in sorted(night.parts(today), key=lambda part: part.opens_at):
        if part.closes_at <= part.opens_at:
            continue  # the clocks skipped all of it
        if joined and part.opens_at <= joined[-1].closes_at:
            closes_at = max(part.closes_at, joined[-1].closes_at)
            joined[-1] = Stretch(opens_at=joined[-1].opens_at, closes_at=closes_at)
        else:
            joined.append(part)
    return tuple(joined)


def _instant(local: datetime) -> datetime:
    """When the clocks of its zone first show this time, or skip it."""
    utc = local.astimezone(timezone.utc)
    if utc.astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None):
        return utc
    # Skipped: read with the offset after the change it lies before the change, and the other way
    # round; the change is where the offset of the earlier reading ends.
    before, after = local.replace(fold=1).astimezone(timezone.utc), utc
    offset = before.astimezone(local.tzinfo).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        if middle.astimezone(local.tzinfo).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
