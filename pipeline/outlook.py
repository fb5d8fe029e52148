"""When queued jobs will begin and end, as far as what is known now tells."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.night import Night

REACH = timedelta(days=365)
"""Nothing is told of a time further away: no measure of today holds for so long."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A queued job, as the walk through its queue sees it."""

    id: str
    not_before: datetime | None
    work_s: float | None
    """How long it will keep a slot busy from its first second on; none where that is not known."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A ready worker's, as the walk fills it."""

    free_at: datetime | None
    """None where that is not known."""
    start_up_s: float | None
    """What it needs for each job before the first second; none where that is not known."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A queued job's place, and when it is expected to run."""

    id: str
    position: int
    """From 1, within its engine's queue: the order in which claims of now would take them."""
    starts_at: datetime | None
    ends_at: datetime | None
    is_cut: bool = False
    """The window closes before it is done, and this installation ends it there."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the operator has settled."""

    now: datetime
    night: Night | None
    """None where work may begin at any time."""
    has_hard_end: bool
    """Whether the window's close ends what runs."""
    is_paused: bool


def walk(queue: Sequence[Waiting], slots: Iterable[Slot], plan: Plan) -> tuple[Expected, ...]:
    """Every job of one engine's queue, in the order of their positions.

    `queue` is in claim order (priority, age). From the first thing that is not known on, nothing
    is: a slot that may be free at any time may take any job that is behind it.
    """
    order = sorted(queue, key=lambda job: max(job.not_before or plan.now, plan.now))
    positions = {job.id: place for place, job in enumerate(order, start=1)}
    times: dict[str, tuple[datetime, datetime | None, bool]] = {}
    free = [(slot.free_at, place, slot.start_up_s) for place, slot in enumerate(slots)]
    if free and not plan.is_paused:
        known = [(at, place, start_up_s) for at, place, start_up_s in free if at is not None]
        times = _times(list(queue), known, plan) if len(known) == len(free) else {}
    unknown = (None, None, False)
    return tuple(
        Expected(id=job.id, position=positions[job.id], starts_at=start, ends_at=end, is_cut=cut)
        for job in order
        for start, end, cut in [times.get(job.id, unknown)]
    )


def _times(
    queue: list[Waiting], free: list[tuple[datetime, int, float | None]], plan: Plan
) -> dict[str, tuple[datetime, datetime | None, bool]]:
    """As the claims will go: the slot that is free first takes the first job that may begin."""
    heapq.heapify(free)
    times: dict[str, tuple[datetime, datetime | None, bool]] = {}
    while queue:
        free_at, place, start_up_s = free[0]
        start = _opens(max(free_at, plan.now), plan)
        due = [job for job in queue if job.not_before is None or job.not_before <= start]
        if not due:
            soonest = min(job.not_before for job in queue if job.not_before is not None)
            heapq.heapreplace(free, (soonest, place, start_up_s))
            continue
        if start - plan.now > REACH:
            return times
        job = due[0]
        queue.remove(job)
        if job.work_s is None or start_up_s is None:
            times[job.id] = (start, None, False)
            return times
        end, is_cut = _end(start, timedelta(seconds=start_up_s + job.work_s), plan)
        times[job.id] = (start, end, is_cut)
        heapq.heapreplace(free, (end, place, start_up_s))
    return times


def running_end(work_s: float, plan: Plan) -> tuple[datetime, bool]:
    """When what runs now and needs so long yet ends, and whether the window's close ends it."""
    if plan.night is not None and plan.has_hard_end and not plan.night.is_open(plan.now):
        return plan.now, True
    return _end(plan.now, timedelta(seconds=work_s), plan)


def _opens(at: datetime, plan: Plan) -> datetime:
    return at if plan.night is None else plan.night.opens_at(at)


def _end(start: datetime, work: timedelta, plan: Plan) -> tuple[datetime, bool]:
    end = start + work
    if plan.night is None or not plan.has_hard_end:
        return end, False
    closes_at = plan.night.closes_at(start)
    return (closes_at, True) if closes_at < end else (end, False)
