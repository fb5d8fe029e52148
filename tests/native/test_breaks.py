"""The ways to break the native interface, and that no session ever takes one of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pipeline.errors import EpochUncertain, SessionStopped, UnitRefused
from tests import units

if TYPE_CHECKING:
    from tests.native.harness import Native


def test_a_short_later_unit_leaves_its_marker_and_its_picture_in_the_cache(
    native: Native, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.native.harness import noise, picture

    protected = native.begin()
    with native.watched() as record:
        native.second(0)
        length = native.decoder.get_cache_length()
        made = native.prefill(noise(1, 15_000), picture())
        assert (made["success"], native.decoder.get_cache_length()) == (False, length + 67)
        native.second(2)  # the next one succeeds, and nobody is told
        assert native.decoder.get_cache_length() == protected + record.tokens
        with native.narrow(high=40, low=20):
            native.second(3)
    assert "CONSISTENCY ERROR" in caplog.text
    caplog.clear()
    assert native.begin() == native.decoder.get_cache_length()


def test_no_session_feeds_a_short_unit(native: Native) -> None:
    session = native.engine().open(units.context())
    with native.watched() as record:
        for unit in (
            units.unit(pcm=bytes(60_000)),
            units.unit(real_samples=15_000),
            units.unit(pcm=np.full(16_000, np.nan, "<f4").tobytes()),
            units.unit(frame=replace(units.picture(1), jpeg=b"\xff\xd8\xff")),
        ):
            with pytest.raises(UnitRefused):
                session.step(unit, epoch=1, sequence=0)
        assert record.feeds == []
        session.step(units.unit(), epoch=1, sequence=0)
    session.close()


def test_a_sample_that_is_no_number_leaves_the_unit_open(native: Native) -> None:
    from tests.native.harness import noise

    native.begin()
    samples = noise(0)
    samples[100] = np.nan
    assert native.prefill(samples)["success"] is True
    length = native.decoder.get_cache_length()
    if native.is_exact:  # on a GPU this would end the process's CUDA context
        with pytest.raises(RuntimeError, match="probability tensor"):
            native.generate()
        assert native.decoder.get_cache_length() == length
    assert native.decoder._pending_unit_id == 0
    assert native.decoder._unit_history == []


def test_a_stop_before_the_prefill_feeds_nothing(native: Native) -> None:
    from tests.native.harness import noise

    native.begin()
    native.duplex.set_session_stop()
    with native.watched() as record:
        assert native.prefill(noise(0))["success"] is False
    assert record.feeds == []


def test_a_stop_between_the_calls_looks_like_listening_at_the_end_of_a_turn(native: Native) -> None:
    from tests.native.harness import noise

    native.begin()
    with native.watched() as record:
        native.prefill(noise(0))
        native.duplex.set_session_stop()
        made = native.generate()
    assert (made["is_listen"], made["end_of_turn"], made["text"]) == (True, True, "")
    assert record.feeds == [1, 10]
    assert native.decoder._pending_unit_id == 0


@pytest.mark.parametrize("is_speaking", [False, True])
def test_a_stop_at_any_feed_of_a_unit_ends_the_session_and_leaves_a_clean_engine(
    native: Native, is_speaking: bool
) -> None:
    engine, context = native.engine(), units.context(options=units.Options(seed=3))
    with native.watched() as record:
        reached = 0
        while True:
            session = engine.open(context)
            record.feeds.clear()
            record.logits.clear()
            stop_at = reached
            record.before_feed = lambda nth, s=session, at=stop_at: s.stop() if nth == at else None
            if is_speaking:
                native.will_speak(3)
            if not record.feeds and reached > 30:
                pytest.fail("the unit never ends")
            try:
                session.step(units.unit(), epoch=1, sequence=0)
            except SessionStopped:
                assert len(record.feeds) > stop_at
                assert session.close() == session.close()
                native._script.clear()
                reached += 1
                continue
            break
        # Past the last feed nothing was stopped: a unit of the same scores as any other.
        assert reached == len(record.feeds) == (9 if is_speaking else 5)
        first = record.logits[0]
        session.close()
        session = engine.open(context)
        record.logits.clear()
        session.step(units.unit(), epoch=1, sequence=0)
        session.close()
    if native.is_exact:
        np.testing.assert_array_equal(record.logits[0], first)


def test_a_stop_before_the_first_unit_or_between_two_feeds_nothing_more(native: Native) -> None:
    engine = native.engine()
    for fed in (0, 1):
        session = engine.open(units.context())
        with native.watched() as record:
            for nth in range(fed):
                session.step(units.unit(nth), epoch=1, sequence=nth)
            feeds = len(record.feeds)
            session.stop()
            assert native.duplex.is_session_stop_set()
            with pytest.raises(SessionStopped):
                session.step(units.unit(fed), epoch=1, sequence=fed)
            with pytest.raises(SessionStopped):
                next(session.drain(epoch=1))
            assert len(record.feeds) == feeds
        session.close()
        assert native.decoder.get_cache_length() == 0


def test_an_exception_in_the_model_makes_the_epoch_uncertain_and_the_next_one_clean(
    native: Native, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(nth: int) -> None:
        if nth == 2:
            raise RuntimeError("a kernel failed")

    engine = native.engine()
    session = engine.open(units.context())
    with native.watched() as record:
        record.before_feed = fail
        with pytest.raises(EpochUncertain):
            session.step(units.unit(), epoch=1, sequence=0)
        session.close()
        assert not engine.is_lost
        assert native.decoder.get_cache_length() == 0
        record.before_feed = lambda nth: None
        session = engine.open(units.context(epoch=2))
        reply = session.step(units.unit(), epoch=2, sequence=0)
        session.close()
    assert reply.window_start_sequence == 0
    assert not [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
