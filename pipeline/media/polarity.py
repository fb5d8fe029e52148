"""Two channels that cancel each other: one of them is turned over before they are mixed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice

import numpy as np

from pipeline.clock import milliseconds
from pipeline.media.levels import Level
from pipeline.media.mixdown import FLOAT
from pipeline.media.remarks import RemarkBook

LOOKAHEAD_S = 0.5
"""Half a second that cancels is no chance of one wave: a syllable and its pause are shorter."""

CANCELS = 0.05
"""Power of the half sum over that of the half difference (-13 dB): with channels as loud as each
other a correlation of -0.90."""

AUDIBLE = 1e-6
"""Mean square (-60 dBFS) of the half difference below which nothing is decided."""

RAMP_PER_S = 50
"""The turn takes 20 ms, so that it is no click."""

MESSAGE = (
    "the two channels cancel each other in mono (their half sum is 13 dB or more below their half "
    "difference); one was inverted before they were mixed"
)


@dataclass(frozen=True, kw_only=True)
class _Piece:
    channels: FLOAT
    start: Fraction
    levels: Sequence[Level]


class Polarity:
    """Passes two channels through, a little later, the other one turned where they cancel.

    It turns where the half sum of the next half second is below CANCELS, and back at the first
    block in which the half sum is the louder one; between the two it stays as it is.
    """

    def __init__(self, remarks: RemarkBook) -> None:
        self._remarks = remarks
        self._waiting: deque[_Piece] = deque()
        self._rate_hz = 1
        self._is_turned = False

    def push(
        self, channels: FLOAT, levels: Sequence[Level], start: Fraction, rate_hz: int
    ) -> Iterator[FLOAT]:
        """Take in samples, shape (2, samples), that follow on; yields what is decided."""
        self._rate_hz = rate_hz
        self._waiting.append(_Piece(channels=channels, start=start, levels=levels))
        later = sum(piece.channels.shape[1] for piece in islice(self._waiting, 1, None))
        while later >= LOOKAHEAD_S * rate_hz:
            yield self._decide()
            later -= self._waiting[0].channels.shape[1]

    def finish(self) -> Iterator[FLOAT]:
        """What is still waiting, decided by what there is of it; the next push begins anew."""
        while self._waiting:
            yield self._decide()

    def _decide(self) -> FLOAT:
        following = list(chain.from_iterable(piece.levels for piece in self._waiting))
        piece = self._waiting.popleft()
        if not self._is_turned and all(level.middle >= CANCELS * level.side for level in following):
            return piece.channels
        before = self._is_turned
        turns = [self._turn(following[at:]) for at in range(len(piece.levels))]
        if not before and not any(turns):
            return piece.channels
        return self._turned(piece, before, turns)

    def _turn(self, following: Sequence[Level]) -> bool:
        """Whether the other channel is turned in the first of these blocks."""
        if self._is_turned:
            first = following[0]
            self._is_turned = not first.middle > max(first.side, AUDIBLE)
            return self._is_turned
        middle = side = 0.0
        size = 0
        for level in following:
            middle += level.middle * level.size
            side += level.side * level.size
            size += level.size
            if size >= LOOKAHEAD_S * self._rate_hz:
                break
        self._is_turned = side > AUDIBLE * size and middle < CANCELS * side
        return self._is_turned

    def _turned(self, piece: _Piece, before: bool, turns: list[bool]) -> FLOAT:
        sign = np.ones(piece.channels.shape[1], np.float32)
        at = 0
        for level, is_turned in zip(piece.levels, turns, strict=True):
            end = at + level.size
            sign[at:end] = -1 if is_turned else 1
            if is_turned is not before:
                ramp = min(max(self._rate_hz // RAMP_PER_S, 1), level.size)
                sign[at : at + ramp] = np.linspace(-sign[at], sign[at], ramp, dtype=np.float32)
            if is_turned:
                self._note(piece.start, at, end, is_new=not before)
            before, at = is_turned, end
        return np.stack([piece.channels[0], piece.channels[1] * sign])

    def _note(self, start: Fraction, at: int, end: int, *, is_new: bool) -> None:
        self._remarks.note(
            "audio_out_of_phase",
            MESSAGE,
            start_ms=milliseconds(start + Fraction(at, self._rate_hz)),
            end_ms=milliseconds(start + Fraction(end, self._rate_hz)),
            count=int(is_new),
        )
