"""The window of a night, against moments computed by hand from the zones' published rules.

Europe/Berlin goes to +02:00 on 2026-03-29 at 01:00 UTC (the clocks skip 02:00 to 03:00) and back to
+01:00 on 2026-10-25 at 01:00 UTC (they show 02:00 to 03:00 twice). America/New_York goes to -04:00
on 2026-03-08 at 07:00 UTC and back to -05:00 on 2026-11-01 at 06:00 UTC (01:00 to 02:00 twice).
Both changes fall on the night from a Saturday to a Sunday.
"""

from __future__ import annotations

import zoneinfo
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.night import Night, Stretch, read_window, read_zone

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"

# Before Apia went over the date line, which left out a whole Friday.
FIRST, LAST = (datetime.fromisoformat(day) for day in ("2011-12-20", "2030-01-01"))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}:00+00:00")


def make_night(window: str, zone: str = BERLIN, *, has_weekends: bool = False) -> Night:
    opens, closes = read_window(window)
    return Night(opens=opens, closes=closes, zone=read_zone(zone), has_weekends=has_weekends)


NIGHTS = [
    # Plain nights, before and after a change: 19:30 in Berlin is 18:30 UTC in winter, 17:30 in
    # summer; in New York it is 00:30 and 23:30.
    ("19:30-06:30", BERLIN, False, "2026-01-14T18:30", "2026-01-15T05:30"),
    ("19:30-06:30", BERLIN, False, "2026-07-15T17:30", "2026-07-16T04:30"),
    ("19:30-06:30", NEW_YORK, False, "2026-01-15T00:30", "2026-01-15T11:30"),
    ("19:30-06:30", NEW_YORK, False, "2026-07-14T23:30", "2026-07-15T10:30"),
    # A window within one day.
    ("01:00-05:00", BERLIN, False, "2026-01-15T00:00", "2026-01-15T04:00"),
    # Ten hours in spring and twelve in autumn: the night itself holds the change.
    ("19:30-06:30", BERLIN, False, "2026-03-28T18:30", "2026-03-29T04:30"),
    ("19:30-06:30", BERLIN, False, "2026-10-24T17:30", "2026-10-25T05:30"),
    ("19:30-06:30", NEW_YORK, False, "2026-03-08T00:30", "2026-03-08T10:30"),
    ("19:30-06:30", NEW_YORK, False, "2026-10-31T23:30", "2026-11-01T11:30"),
    # An edge within the skipped hour is where the clocks skip, whichever edge it is.
    ("02:30-06:30", BERLIN, False, "2026-03-29T01:00", "2026-03-29T04:30"),
    ("19:30-02:30", BERLIN, False, "2026-03-28T18:30", "2026-03-29T01:00"),
    ("02:30-06:30", NEW_YORK, False, "2026-03-08T07:00", "2026-03-08T10:30"),
    ("19:30-02:30", NEW_YORK, False, "2026-03-08T00:30", "2026-03-08T07:00"),
    # An edge that the clocks show twice counts the first time.
    ("02:30-06:30", BERLIN, False, "2026-10-25T00:30", "2026-10-25T05:30"),
    ("19:30-02:30", BERLIN, False, "2026-10-24T17:30", "2026-10-25T00:30"),
    ("01:30-06:30", NEW_YORK, False, "2026-11-01T05:30", "2026-11-01T11:30"),
    ("19:30-01:30", NEW_YORK, False, "2026-10-31T23:30", "2026-11-01T05:30"),
    # Friday's night, the weekend and Sunday's night are one stretch.
    ("19:30-06:30", BERLIN, True, "2026-01-16T18:30", "2026-01-19T05:30"),
    ("19:30-06:30", BERLIN, True, "2026-03-27T18:30", "2026-03-30T04:30"),
    ("19:30-06:30", BERLIN, True, "2026-10-23T17:30", "2026-10-26T05:30"),
    ("19:30-06:30", NEW_YORK, True, "2026-03-07T00:30", "2026-03-09T10:30"),
    ("19:30-06:30", NEW_YORK, True, "2026-10-30T23:30", "2026-11-02T11:30"),
    # Thursday's night does not reach the weekend.
    ("19:30-06:30", BERLIN, True, "2026-01-15T18:30", "2026-01-16T05:30"),
    # Windows that end before midnight: Saturday's and Sunday's midnights are the edges.
    ("20:00-23:00", BERLIN, True, "2026-01-16T19:00", "2026-01-16T22:00"),
    ("20:00-23:00", BERLIN, True, "2026-01-16T23:00", "2026-01-18T23:00"),
    ("20:00-23:00", BERLIN, True, "2026-03-27T23:00", "2026-03-29T22:00"),
    # Up to midnight, and so into the weekend without a seam.
    ("20:00-00:00", BERLIN, True, "2026-01-16T19:00", "2026-01-18T23:00"),
    # All day but two hours, the ones that this night does not have: two days are one.
    ("03:00-02:00", BERLIN, False, "2026-03-28T02:00", "2026-03-30T00:00"),
    # A zone of half an hour.
    ("19:30-06:30", "Asia/Kolkata", False, "2026-01-14T14:00", "2026-01-15T01:00"),
]


@pytest.mark.parametrize(
    ("window", "zone", "has_weekends", "opens", "closes"),
    NIGHTS,
    ids=lambda value: str(value),
)
def test_a_stretch_is_open_from_its_first_moment_to_before_its_last(
    window: str, zone: str, has_weekends: bool, opens: str, closes: str
) -> None:
    night = make_night(window, zone, has_weekends=has_weekends)
    first, end, moment = utc(opens), utc(closes), timedelta(microseconds=1)
    assert [night.is_open(at) for at in (first - moment, first, end - moment, end)] == [
        *(False, True),
        *(True, False),
    ]
    assert night.opens_at(first - moment) == night.opens_at(first) == first
    assert night.closes_at(first - moment) == night.closes_at(end - moment) == end
    assert night.opens_at(end - moment) == end - moment
    assert night.opens_at(end) > end
    for at in (first, end - moment, end):
        assert night.newest(at) == Stretch(opens_at=first, closes_at=end)
    assert night.newest(first - moment).closes_at < first


def test_a_window_that_the_clocks_skip_does_not_open_that_night() -> None:
    night = make_night("02:10-02:50")
    assert night.opens_at(utc("2026-03-28T12:00")) == utc("2026-03-30T00:10")
    assert night.newest(utc("2026-03-29T12:00")).opens_at == utc("2026-03-28T01:10")


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "Australia/Lord_Howe", "Pacific/Apia", "UTC"])
@given(
    edges=st.lists(st.times(), min_size=2, max_size=2, unique_by=lambda at: (at.hour, at.minute)),
    has_weekends=st.booleans(),
    at=st.datetimes(min_value=FIRST, max_value=LAST),
)
@settings(max_examples=30, deadline=None, database=None)
def test_the_answers_of_one_moment_agree(
    zone: str, edges: list[object], has_weekends: bool, at: datetime
) -> None:
    window = "-".join(f"{edge:%H:%M}" for edge in edges)
    night = make_night(window, zone, has_weekends=has_weekends)
    at = at.replace(tzinfo=read_zone("UTC"))
    opens, closes, newest = night.opens_at(at), night.closes_at(at), night.newest(at)
    assert at <= opens < closes
    assert night.is_open(opens)
    assert not night.is_open(closes)
    assert night.is_open(at) == (opens == at) == (at < newest.closes_at)
    assert newest.opens_at <= at


def test_a_host_without_zones_has_those_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    zone = zoneinfo.ZoneInfo.no_cache(BERLIN)
    assert utc("2026-07-01T00:00").astimezone(zone).utcoffset() == timedelta(hours=2)
