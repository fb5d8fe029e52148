"""What falls out of the native window, and what never does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pipeline.engine.minicpm.window import window_after

if TYPE_CHECKING:
    from tests.native.harness import Native

HIGH, LOW = 200, 120
"""Thirteen tokens a unit without a frame: falls at once from some fifteen units to some eight."""


def unit_lengths(native: Native) -> list[int]:
    return [unit["length"] for unit in native.decoder._unit_history]


def test_the_oldest_units_fall_and_the_protected_context_stays_as_it_was(native: Native) -> None:
    protected = native.begin()
    context = native.cache()
    with native.watched(), native.narrow(high=HIGH, low=LOW):
        nth = 0
        while not nth or window_after(native.duplex, nth - 1).units == nth:
            before = native.cache()
            native.second(nth)
            nth += 1
    expected = protected + 13 * nth
    assert expected > HIGH
    assert expected - 13 <= HIGH
    kept = (LOW - protected) // 13
    window = window_after(native.duplex, nth - 1)
    assert (window.units, window.start_sequence) == (kept, nth - kept)
    assert window.cached_tokens == native.decoder.get_cache_length() == protected + 13 * kept
    assert native.decoder._system_preserve_length == protected
    gone = 13 * (nth - kept)
    for (keys, values), (first_keys, first_values), (keys_then, values_then) in zip(
        native.cache(), context, before, strict=True
    ):
        assert np.array_equal(keys[:, :protected], first_keys)
        assert np.array_equal(values[:, :protected], first_values)
        # Values know no position: what stays is what was there, a unit's length aside.
        still = values_then[:, protected + gone :]
        assert np.array_equal(values[:, protected : protected + still.shape[1]], still)
        assert not np.array_equal(
            keys[:, protected : protected + still.shape[1]], keys_then[:, protected + gone :]
        )


def test_after_a_fall_the_kept_keys_stand_at_their_new_positions(native: Native) -> None:
    """The first layer's keys depend on token and position alone."""
    protected = native.begin()
    marker = native.decoder.embed_tokens([native.token("<unit>")])
    tail = native.decoder.embed_tokens([native.token("<|listen|>"), native.token("</unit>")])
    with native.watched(), native.narrow(high=HIGH, low=LOW):
        nth = 0
        while not nth or window_after(native.duplex, nth - 1).units == nth:
            native.second(nth)
            nth += 1
    turned = native.cache()[0][0]
    places = range(protected, native.decoder.get_cache_length(), 13)
    ends = {place + 11 for place in places}
    native.decoder.reset()
    while (at := native.decoder.get_cache_length()) < turned.shape[1]:
        native.decoder.feed(tail if at in ends else marker)
    fresh = native.cache()[0][0]
    for place in places:
        for at in (place, place + 11, place + 12):
            if native.is_exact:
                np.testing.assert_allclose(turned[:, at], fresh[:, at], rtol=1e-3, atol=1e-3)
            else:  # every fall rounds the keys to bfloat16
                assert np.corrcoef(turned[:, at].ravel(), fresh[:, at].ravel())[0, 1] > 0.99


def test_at_its_own_size_the_window_holds_from_seventy_five_to_a_hundred_and_one_units(
    native: Native,
) -> None:
    from tests.native.harness import picture

    text = "watch"
    while native.begin(text) < 24:
        text += " and"
    assert native.begin(text) < 75
    frame, counts = picture(), []
    with native.watched():
        for nth in range(102):
            native.second(nth, frame=frame)
            counts.append(window_after(native.duplex, nth).units)
            native.duplex.total_hidden.clear()
    assert set(unit_lengths(native)) == {79}
    assert counts == [*range(1, 101), 75, 76]


def test_a_window_that_cannot_be_is_refused(native: Native) -> None:
    from pipeline.engine.minicpm.native import NativeFailed

    native.begin()
    with native.watched():
        native.second(0)
        native.second(1)
    with pytest.raises(NativeFailed, match="2 units"):
        window_after(native.duplex, 0)


def test_spoken_units_are_as_long_as_what_was_fed(native: Native) -> None:
    protected = native.begin()
    with native.watched() as record:
        native.will_speak(3, ends_turn=True)
        native.second(0)
        spoken = record.tokens
        native.second(1)
        assert unit_lengths(native) == [spoken, 13]
        assert spoken == 13 + 5  # the marker, three words, the turn's end; the chunk's for a listen
        assert native.decoder.get_cache_length() == protected + record.tokens
