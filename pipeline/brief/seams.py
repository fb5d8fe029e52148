"""Which epoch each source second belongs to: the newest that completed it (design.md, "Seams")."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.records import FedUnit, Origin


class Ownership:
    """The completed units of a job, second by second."""

    def __init__(self, units: Iterable[FedUnit]) -> None:
        self._newest: dict[int, FedUnit] = {}
        self._second: dict[tuple[int, int], int] = {}
        last: dict[int, int] = {}
        drained: list[FedUnit] = []
        for unit in sorted(units, key=lambda unit: (unit.epoch, unit.sequence)):
            if unit.second is None:
                drained.append(unit)
                continue
            self._newest[unit.second] = unit
            self._second[unit.epoch, unit.sequence] = unit.second
            last[unit.epoch] = max(unit.second, last.get(unit.epoch, unit.second))
        for unit in drained:
            if unit.epoch in last:
                self._second[unit.epoch, unit.sequence] = last[unit.epoch]
        self.units: tuple[FedUnit, ...] = tuple(
            self._newest[second] for second in sorted(self._newest)
        )
        """One unit for each completed source second, in order of time."""

    def is_current(self, epoch: int, origin: Origin) -> bool:
        """Whether the second in which a text was completed still belongs to its own epoch."""
        second = self._second.get((epoch, origin.last_sequence))
        if second is None:
            # A drain with no real unit before it: only the text's own interval places it.
            second = max(origin.generated_in.end_ms - 1, 0) // 1000
        owner = self._newest.get(second)
        return owner is None or owner.epoch <= epoch

    def kept_in(self, epoch: int) -> int:
        """How many seconds belong to this epoch."""
        return sum(unit.epoch == epoch for unit in self.units)
