"""Which samples the model has taken in and which still wait in its buffer."""

from __future__ import annotations

from collections import deque

from pipeline.clock import SAMPLES_PER_UNIT
from pipeline.records import Unit


class Carry:
    """Follows the model's audio buffer: what is of the source in it, and what is not.

    The model puts zeros of its own before a first unit that is too short for it (560 before
    16,000 samples); they are never source samples, and they are consumed first.
    """

    def __init__(self) -> None:
        self._runs: deque[tuple[int, bool]] = deque()
        self.padding_samples = 0
        """Zeros that the model itself put before the first unit."""

    def take(self, unit: Unit | None, *, first_unit_samples: int | None = None) -> None:
        """A unit, or a second of silence, is handed to the model."""
        if first_unit_samples is not None:
            self.padding_samples = max(0, first_unit_samples - SAMPLES_PER_UNIT)
        synthetic = SAMPLES_PER_UNIT if unit is None else unit.synthetic_samples
        for samples, is_source in ((SAMPLES_PER_UNIT - synthetic, True), (synthetic, False)):
            if samples:
                self._runs.append((samples, is_source))

    def settle(self, buffered_samples: int) -> None:
        """The model's buffer holds so many samples now: the last ones handed over."""
        over = sum(samples for samples, _ in self._runs) - buffered_samples
        while over > 0:
            samples, is_source = self._runs.popleft()
            if samples > over:
                self._runs.appendleft((samples - over, is_source))
            over -= samples

    @property
    def source_samples(self) -> int:
        """Samples of the source's span that were handed over and not taken in yet."""
        return sum(samples for samples, is_source in self._runs if is_source)
