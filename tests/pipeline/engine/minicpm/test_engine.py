"""One model, one epoch after another, and nothing of one in the next."""

from __future__ import annotations

import logging

import pytest

from pipeline.engine.minicpm.engine import EngineLost
from pipeline.errors import EngineError, EpochUncertain, SessionStopped
from pipeline.records import Options
from tests import units
from tests.pipeline.engine.minicpm import doubles
from tests.pipeline.engine.minicpm.doubles import LOCK, ModelDouble

PREPARED = [
    "reset_session",
    "seed",
    "clear_break_event",
    "clear_session_stop",
    "_reset_streaming_state",
    "decoder.reset",
    "init_streaming_processor",
    "feed",
    "register_system_prompt",
]

RESET = ["reset_session", "_reset_streaming_state", "decoder.reset"]


def test_it_says_which_model_it_is() -> None:
    info = doubles.engine().describe()
    assert (info.name, info.revision, info.device) == ("minicpmo", LOCK.revision, "cpu")
    assert info.settings["torch_dtype"] == "bfloat16"


def test_every_epoch_begins_with_the_models_own_reset_and_its_seed() -> None:
    model = ModelDouble()
    engine = doubles.engine(model)
    for epoch in (1, 2):
        model.calls.clear()
        session = engine.open(units.context(epoch=epoch, options=Options(seed=40 + epoch)))
        assert model.names() == PREPARED
        assert ("seed", 40 + epoch) in model.calls
        session.close()


def test_the_audio_encoder_starts_an_epoch_without_the_last_recording() -> None:
    model = ModelDouble()
    engine = doubles.engine(model)
    first = engine.open(units.context())
    first.step(units.unit(), epoch=1, sequence=0)
    assert len(model.heard) == 1
    first.close()
    assert model.heard == []
    engine.open(units.context(epoch=2)).step(units.unit(), epoch=2, sequence=0)
    assert len(model.heard) == 1


def test_an_encoder_that_was_left_full_is_emptied_before_the_context_goes_in() -> None:
    model = ModelDouble()
    model.heard = ["a recording of somebody else"]
    engine = doubles.engine(model)
    model.calls.clear()
    engine.open(units.context())
    assert model.heard == []
    assert model.names()[0] == "reset_session"


def test_starting_again_with_the_same_context_feeds_it_once() -> None:
    model = ModelDouble()
    engine = doubles.engine(model)
    session = engine.open(units.context())
    before = list(model.calls)
    assert engine.open(units.context()) is session
    assert model.calls == before


@pytest.mark.parametrize("changes", [{"prompt": "another"}, {"epoch": 2}, {}])
def test_another_context_or_a_used_one_is_refused_until_the_session_is_closed(
    changes: dict[str, object],
) -> None:
    engine = doubles.engine()
    session = engine.open(units.context())
    if not changes:
        session.step(units.unit(), epoch=1, sequence=0)
    with pytest.raises(EngineError, match="open"):
        engine.open(units.context(**changes))
    session.close()
    assert engine.open(units.context(**changes)).is_untouched


def test_a_context_that_is_too_long_is_refused_with_count_and_limit_and_nothing_is_fed() -> None:
    model = ModelDouble()
    engine = doubles.engine(model)
    with pytest.raises(EngineError, match=r"4\d\d\d tokens.*4000"):
        engine.open(units.context(prompt="x" * 4_000))
    assert "feed" not in model.names()
    assert engine.open(units.context()).is_untouched


def test_a_stop_while_the_context_goes_in_ends_it_between_two_batches() -> None:
    model = ModelDouble()
    engine = doubles.engine(model)
    model.on_feed = engine.stop_opening
    with pytest.raises(SessionStopped):
        engine.open(units.context(prompt="x" * 2_000))
    assert model.names().count("feed") == 1
    assert model.names()[-3:] == RESET
    model.on_feed = lambda: None
    assert engine.open(units.context()).is_untouched


def test_a_fault_while_the_context_goes_in_is_uncertain_and_resets() -> None:
    def fail() -> None:
        raise RuntimeError("out of memory")

    model = ModelDouble(on_feed=fail)
    engine = doubles.engine(model)
    with pytest.raises(EpochUncertain, match="context: RuntimeError"):
        engine.open(units.context())
    assert model.names()[-4:] == ["check_device", *RESET]
    assert not engine.is_lost
    model.on_feed = lambda: None
    assert engine.open(units.context()).is_untouched


def test_an_epoch_that_failed_leaves_the_engine_fit_for_the_next() -> None:
    model = ModelDouble(raises_in_generate={0})
    engine = doubles.engine(model)
    session = engine.open(units.context())
    with pytest.raises(EpochUncertain):
        session.step(units.unit(), epoch=1, sequence=0)
    session.close()
    model.raises_in_generate.clear()
    reply = engine.open(units.context(epoch=2)).step(units.unit(), epoch=2, sequence=0)
    assert (reply.sequence, reply.window_start_sequence, engine.is_lost) == (0, 0, False)


@pytest.mark.parametrize("switch", ["reset_fails", "device_is_gone"])
def test_where_the_reset_fails_the_end_is_still_told_and_nothing_opens_again(
    switch: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = ModelDouble(raises_in_generate={0})
    engine = doubles.engine(model)
    session = engine.open(units.context())
    with pytest.raises(EpochUncertain):
        session.step(units.unit(), epoch=1, sequence=0)
    setattr(model, switch, True)
    assert not engine.is_lost
    with caplog.at_level(logging.CRITICAL):
        assert session.close() is session.close()
    assert engine.is_lost
    model.calls.clear()
    with pytest.raises(EngineLost):
        engine.open(units.context(epoch=2))
    assert model.calls == []
