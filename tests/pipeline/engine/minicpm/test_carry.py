"""Which samples wait in the model's buffer, and whose they are."""

from __future__ import annotations

from pipeline.engine.minicpm.carry import Carry
from tests import units


def test_the_first_units_padding_is_the_models_and_80_samples_stay_behind() -> None:
    carry = Carry()
    carry.take(units.unit(), first_unit_samples=16_560)
    carry.settle(80)
    assert (carry.padding_samples, carry.source_samples) == (560, 80)


def test_every_later_unit_leaves_its_own_last_samples() -> None:
    carry = Carry()
    for _ in range(3):
        carry.take(units.unit())
        carry.settle(80)
    assert carry.source_samples == 80


def test_filled_samples_are_source_time_and_synthetic_ones_are_not() -> None:
    carry = Carry()
    carry.take(units.unit(real_samples=15_000, filled_samples=950, synthetic_samples=50))
    carry.settle(80)
    assert carry.source_samples == 30


def test_silence_pushes_the_last_source_samples_through() -> None:
    carry = Carry()
    carry.take(units.unit())
    carry.settle(80)
    carry.take(None)
    carry.settle(80)
    assert carry.source_samples == 0


def test_a_unit_of_which_nothing_was_taken_in_waits_as_a_whole() -> None:
    carry = Carry()
    carry.take(units.unit())
    carry.settle(16_000)
    assert carry.source_samples == 16_000
