"""Frames that were fed, kept long enough to show what a text could have drawn on."""

from __future__ import annotations

from collections import deque

from pipeline.records import Frame


class FrameRing:
    """The last frames that were fed, held pictures included, and the units they were fed with."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a frame ring holds at least one frame")
        self._frames: deque[tuple[int, Frame]] = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, sequence: int, frame: Frame) -> None:
        """Keep a frame that was fed with this unit; units come in order."""
        self._frames.append((sequence, frame))

    def last(self, *, from_sequence: int, to_sequence: int) -> Frame | None:
        """The latest frame fed with the units from one to another, both included."""
        for sequence, frame in reversed(self._frames):
            if sequence < from_sequence:
                return None
            if sequence <= to_sequence:
                return frame
        return None

    def first(self, *, from_sequence: int, to_sequence: int) -> Frame | None:
        """The earliest frame fed with the units from one to another, both included."""
        for sequence, frame in self._frames:
            if sequence > to_sequence:
                return None
            if sequence >= from_sequence:
                return frame
        return None


class TurnFrames:
    """The frames of one turn's evidence interval as far as it goes: three at most are held.

    What was on screen when the turn began and the earliest of the interval are held from then on,
    so that a long turn does not lose them.
    """

    def __init__(self, ring: FrameRing, *, from_sequence: int, first_sequence: int) -> None:
        self._ring = ring
        self._from = from_sequence
        self._at_start = ring.last(from_sequence=from_sequence, to_sequence=first_sequence)
        self._earliest: Frame | None = None
        self._latest: Frame | None = None
        self.reach(first_sequence)

    def reach(self, sequence: int) -> None:
        """The turn goes on to this unit, whose frame is in the ring."""
        latest = self._ring.last(from_sequence=self._from, to_sequence=sequence)
        self._latest = latest or self._latest
        if self._earliest is None:
            self._earliest = self._ring.first(from_sequence=self._from, to_sequence=sequence)

    def chosen(self) -> tuple[Frame, ...]:
        """At the turn's first unit, at the unit reached, the earliest; each moment once."""
        told = (self._at_start, self._latest, self._earliest)
        distinct = {frame.source_ms: frame for frame in told if frame is not None}
        return tuple(distinct.values())
