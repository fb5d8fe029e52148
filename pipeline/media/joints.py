"""Follows the clocks of a file's streams: which steps are holes, which are new parts or strays."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.media.scanned import FORWARD_JUMP_US, Scan, StreamScan

BACK_JUMP_US = 500_000
"""A step back of this much begins a new part, as joined transport streams have."""

STRAY_US = 2_000_000
"""Time stamps of up to this much content are not believed where the clock then goes on as if they
had followed on: one damaged stamp dates all the sound of its PES packet."""

STRAYS_MAX = 100_000
JUMPS_MAX = 10_000
"""Corrections kept for one stream; a file with more has no clock worth following."""

RUNS_MAX = 100_000
"""Stretches kept for one stream; later ones extend the last."""

REORDERED_MAX = 16
"""Pictures by which presentation runs ahead of decoding at most (H.264, HEVC)."""

STEPS_KEPT = 64
"""Small steps back of one stream that may turn out to belong to another stream's new part."""

APART_MAX = 500
"""Packets of a file within which all streams pass from one part to the next."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a packet stands."""

    in_file: int
    ordinal: int
    """In its stream."""
    shown: int
    """Its presentation time in µs, else its decode time."""


@dataclass(frozen=True, kw_only=True)
class Joint:
    """Where one part of a stream may end and another begin."""

    place: Place
    end: int
    """When the part before ends, on its own clock."""


@dataclass
class _Doubt:
    """A stretch that did not follow on, and what was believed before it."""

    ordinal: int
    is_back: bool
    began: int
    last: int
    end: int
    shown_end: int | None
    offset: int
    run: tuple[int, int]
    runs: int
    parts: int
    packets: int = 0
    length: int = 0


class StreamClock:
    """Follows one stream's decode time; what it finds goes into the stream's scan."""

    def __init__(self, found: StreamScan) -> None:
        self.found = found
        self.parts: list[Joint] = []
        """Where the clock jumped back."""
        self.steps: deque[Joint] = deque(maxlen=STEPS_KEPT)
        """Where it stepped back by less."""
        self._last: int | None = None
        self._end = 0
        self._step = 40_000
        """What lies between the times of packets that follow on: a declared duration may be wrong
        by seconds, where an edit list took pictures out."""
        self._offset = 0
        self._doubt: _Doubt | None = None
        self._is_shown = False
        self._shown_end: int | None = None

    def see(self, place: Place, time: int, duration: int, *, is_shown: bool = False) -> None:
        """Take in one packet; `is_shown` where its time is that of presentation, not decoding."""
        step = duration if duration > 0 else self._step
        is_other_kind = is_shown != self._is_shown
        slack = REORDERED_MAX * step if is_other_kind else 0
        if self._last is not None:
            if self._is_guessed(place, time, slack):
                time = self._end - self._offset
            self._compare(place, time, slack)
        if is_other_kind:
            self._is_shown = is_shown
            self._last = None
        self._shown_end = max(place.shown + step, self._shown_end or place.shown + step)
        self._extend(time + self._offset, time + self._offset + step)
        if self._doubt is not None:
            self._doubt.packets += 1
            self._doubt.length = time - self._doubt.began + min(step, self._step)
            if self._doubt.length > STRAY_US:
                self._doubt = None

    def finish(self) -> None:
        """A last packet far ahead is believed (a slide at the end); one far behind is not."""
        doubt = self._doubt
        if doubt is not None and doubt.is_back and doubt.packets == 1:
            self._take_back(doubt)

    def _is_guessed(self, place: Place, time: int, slack: int) -> bool:
        """Whether a decode time goes back where presentation does not: Matroska has none, and
        FFmpeg's guess is off after a hole.
        """
        assert self._last is not None
        earliest = self._last - BACK_JUMP_US - slack - self._offset
        return time < earliest <= place.shown

    def _compare(self, place: Place, time: int, slack: int) -> None:
        """Decide what a packet is that does not follow on."""
        if self._follows(time, slack):
            assert self._last is not None
            if time + self._offset <= self._last - slack:
                self.steps.append(Joint(place=place, end=self._shown_end or time))
            return
        if self._doubt is not None and self._is_return(self._doubt, time):
            self._take_back(self._doubt)
            if self._follows(time, slack):
                return
        assert self._last is not None
        is_back = time + self._offset < self._last
        self._doubt = _Doubt(
            ordinal=place.ordinal,
            is_back=is_back,
            began=time,
            last=self._last,
            end=self._end,
            shown_end=self._shown_end,
            offset=self._offset,
            run=self.found.runs[-1],
            runs=len(self.found.runs),
            parts=len(self.parts),
        )
        if is_back and len(self.parts) < JUMPS_MAX:
            self.parts.append(Joint(place=place, end=self._shown_end or time))
            self._shown_end = None
            self._offset = self._end - time

    def _follows(self, time: int, slack: int) -> bool:
        assert self._last is not None
        at = time + self._offset
        return self._last - BACK_JUMP_US - slack <= at <= self._end + BACK_JUMP_US

    def _is_return(self, doubt: _Doubt, time: int) -> bool:
        """Whether the packet comes as if those in doubt had followed on one after the other."""
        off = time + doubt.offset - doubt.end - doubt.length
        return abs(off) <= max(BACK_JUMP_US, self._step)

    def _take_back(self, doubt: _Doubt) -> None:
        """Believe none of the time stamps since the doubt began."""
        found = self.found
        self._doubt = None
        if len(found.strays) + doubt.packets > STRAYS_MAX:
            return
        found.strays.update(range(doubt.ordinal, doubt.ordinal + doubt.packets))
        del found.runs[doubt.runs :]
        found.runs[-1] = doubt.run
        del self.parts[doubt.parts :]
        self._last = doubt.last + doubt.length
        self._end = doubt.end + doubt.length
        self._offset = doubt.offset
        self._shown_end = doubt.shown_end

    def _extend(self, time: int, end: int) -> None:
        if self._last is not None and 0 < time - self._last <= BACK_JUMP_US * 2:
            self._step = time - self._last
        runs = self.found.runs
        if runs and (time <= runs[-1][1] + FORWARD_JUMP_US or len(runs) >= RUNS_MAX):
            runs[-1] = (min(time, runs[-1][0]), max(end, runs[-1][1]))
        else:
            runs.append((time, end))
        self._last, self._end = time, end


def join_parts(scan: Scan, clocks: dict[int, StreamClock]) -> None:
    """Write into the scan what continues each part's clock.

    All streams of a part are moved alike, so that sound and picture stay together, and so far that
    no stream begins before all have ended.
    """
    totals = dict.fromkeys(clocks, 0)
    for joints in _parts(clocks):
        reached = max(joint.end + totals[index] for index, joint in joints.items())
        said = min(joint.place.shown for joint in joints.values())
        scan.resets.append((reached, said))
        for index, joint in joints.items():
            totals[index] = reached - said
            clocks[index].found.offsets.append((joint.place.ordinal, reached - said))


def _parts(clocks: dict[int, StreamClock]) -> Iterator[dict[int, Joint]]:
    """The jumps of all streams, those together that are one part's, in order of the file."""
    every = sorted(
        (
            (joint.place.in_file, index, joint)
            for index, clock in clocks.items()
            for joint in (*clock.parts, *_steps_of_parts(index, clocks))
        ),
        key=lambda item: item[:2],
    )
    open_parts: deque[tuple[int, dict[int, Joint]]] = deque()
    for at, index, joint in every:
        while open_parts and at - open_parts[0][0] > APART_MAX:
            yield open_parts.popleft()[1]
        # Short parts may begin in one stream while others have not ended the one before.
        part = next((part for _, part in open_parts if index not in part), None)
        if part is None:
            part = {}
            open_parts.append((at, part))
        part[index] = joint
    yield from (part for _, part in open_parts)


def _steps_of_parts(index: int, clocks: dict[int, StreamClock]) -> list[Joint]:
    """A stream's smaller steps back where another one jumps, and it does not itself. Where none
    does, two parts overlap by less, and stay where their own times put them.
    """
    own = clocks[index]
    found: dict[int, Joint] = {}
    for other, clock in clocks.items():
        if other == index or not own.steps:
            continue
        for joint in clock.parts:
            at = joint.place.in_file
            if _distance(own.parts, at) <= APART_MAX:
                continue
            step = min(own.steps, key=lambda step: abs(step.place.in_file - at))
            if abs(step.place.in_file - at) <= APART_MAX:
                found[step.place.ordinal] = step
    return list(found.values())


def _distance(joints: Sequence[Joint], in_file: int) -> int:
    """Packets to the nearest of these, which are in order of the file."""
    after = bisect_left(joints, in_file, key=lambda joint: joint.place.in_file)
    near = joints[max(after - 1, 0) : after + 1]
    return min((abs(joint.place.in_file - in_file) for joint in near), default=APART_MAX + 1)
