"""The life of an epoch inside the model: every call once, in order, and every way to break it."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from pipeline.engine.minicpm import inputs
from pipeline.engine.session import DRAIN_UNITS_MAX, Session
from pipeline.errors import EngineError, EpochUncertain, SessionStopped, UnitRefused
from pipeline.records import Decision, Options, Reply, Unit
from tests import units
from tests.pipeline.engine.minicpm import doubles
from tests.pipeline.engine.minicpm.doubles import ModelDouble, Said

NATIVE = ("prefill", "generate")


def opened(model: ModelDouble, **changes: object) -> Session:
    session = doubles.engine(model).open(units.context(**changes))
    model.calls.clear()
    return session


def fed(session: Session, count: int, *, start: int = 0) -> list[Reply]:
    return [session.step(units.unit(n), epoch=1, sequence=n) for n in range(start, start + count)]


def native(model: ModelDouble) -> list[tuple[object, ...]]:
    return [call for call in model.calls if call[0] in NATIVE]


# --- one unit


def test_a_unit_is_one_prefill_and_one_generation_with_everything_said() -> None:
    model = ModelDouble()
    session = opened(model, options=Options(output_max_tokens_per_unit=33, max_slice_nums=2))
    unit = units.unit()
    session.step(unit, epoch=1, sequence=0)
    assert native(model) == [("prefill", 0), ("generate", 0)]
    samples, (picture,), slices, is_batched = model.inputs
    assert samples.tobytes() == unit.pcm
    assert unit.frame is not None
    with Image.open(io.BytesIO(unit.frame.jpeg)) as image:
        assert picture.tobytes() == image.convert("RGB").tobytes()
    assert (slices, is_batched) == (2, True)
    assert model.sampling == {
        "cap": 33,
        "decode_mode": "sampling",
        "temperature": 0.7,
        "top_k": 100,
        "top_p": 0.8,
        "listen_prob_scale": 1.0,
        "listen_top_k": None,
        "text_repetition_penalty": 1.05,
        "text_repetition_window_size": 512,
    }


def test_a_unit_without_a_frame_feeds_no_picture() -> None:
    model = ModelDouble()
    opened(model).step(units.unit(frame=None), epoch=1, sequence=0)
    assert model.inputs[1] == []


def test_the_clocks_tell_the_calls_apart_and_label_the_models_own() -> None:
    (reply,) = fed(opened(ModelDouble()), 1)
    clocks = reply.clocks
    assert clocks is not None
    assert min(clocks.prepare_ms, clocks.prefill_ms, clocks.generate_ms) > 0
    assert clocks.prefill_ms + clocks.generate_ms <= reply.inference_ms
    assert clocks.upstream_ms == {
        "prefill_cost_audio_feed": 2.0,
        "prefill_cost_all": 4.0,
        "generate_cost_llm": 3.0,
        "generate_cost_all": 3.0,
    }


def test_decoding_a_unit_is_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    session, clock, decode = opened(ModelDouble()), Clock(), inputs.decode

    def slow(unit: Unit) -> inputs.NativeInputs:
        clock.now += 3
        return decode(unit)

    monkeypatch.setattr("pipeline.engine.session.time", clock)
    monkeypatch.setattr("pipeline.engine.minicpm.session.time", clock)
    monkeypatch.setattr(inputs, "decode", slow)
    (reply,) = fed(session, 1)
    assert reply.clocks is not None
    assert (reply.queue_wait_ms, reply.clocks.prepare_ms) == (0, 3000)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pcm": bytes(60_000)}, "samples"),
        ({"pcm": np.full(16_000, np.nan, "<f4").tobytes()}, "samples"),
        ({"frame": replace(units.picture(1), jpeg=b"\xff\xd8 no picture")}, "frame"),
        ({"frame": replace(units.picture(1), width_px=65)}, "frame"),
    ],
)
def test_an_unfit_unit_is_refused_before_any_native_call(
    changes: dict[str, object], reason: str
) -> None:
    model = ModelDouble()
    session = opened(model)
    with pytest.raises(UnitRefused) as caught:
        session.step(units.unit(**changes), epoch=1, sequence=0)
    assert (caught.value.reason, model.calls, session.is_untouched) == (reason, [], True)
    assert fed(session, 1)[0].sequence == 0


def test_stale_conflicting_and_skipped_units_reach_nothing_native() -> None:
    model = ModelDouble()
    session = opened(model)
    fed(session, 2)
    before = list(model.calls)
    for unit, epoch, sequence in (
        (units.unit(2), 2, 2),
        (units.unit(2), 0, 2),
        (units.unit(3), 1, 3),
        (units.unit(1), 1, 2),
        (units.unit(1, pcm=units.SILENCE), 1, 1),
        (units.unit(1, frame=None), 1, 1),
    ):
        with pytest.raises(UnitRefused):
            session.step(unit, epoch=epoch, sequence=sequence)
    assert model.calls == before


def test_the_last_sixteen_are_answered_from_memory_without_a_second_call() -> None:
    model = ModelDouble(script={4: Said("Once only.", ends=True)})
    session = opened(model)
    replies = fed(session, 20)
    before = list(model.calls)
    assert [session.step(units.unit(n), epoch=1, sequence=n) for n in range(4, 20)] == replies[4:]
    with pytest.raises(UnitRefused):
        session.step(units.unit(3), epoch=1, sequence=3)
    assert model.calls == before
    assert native(model) == [(call, n) for n in range(20) for call in NATIVE]


# --- speaking


def test_a_response_opens_once_and_is_named_until_its_turn_ends() -> None:
    model = ModelDouble(
        script={1: Said("Sales rose"), 2: Said("by 5%.", ends=True), 4: Said("Costs", ends=True)}
    )
    session = opened(model)
    replies = fed(session, 5)
    assert [reply.generation_id for reply in replies] == [None, "1-1", "1-1", None, "1-2"]
    assert [reply.text for reply in replies] == ["", "Sales rose", "by 5%.", "", "Costs"]
    assert [reply.is_end_of_turn for reply in replies] == [False, False, True, False, True]
    assert [reply.decision is Decision.SPEAK for reply in replies] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert [reply.tokens for reply in replies] == [0, 2, 3, 0, 2]


def test_a_response_leaves_cache_and_draws_to_the_model() -> None:
    """Fed by hand, without our books, the double's cache and draws are the same."""
    script = {1: Said("Sales rose"), 3: Said("again.", ends=True)}
    model, bare = ModelDouble(script=script), doubles.DuplexDouble(ModelDouble(script=script))
    engine = doubles.engine(model)
    session = engine.open(units.context())
    for n in range(5):
        session.step(units.unit(n), epoch=1, sequence=n)
        bare.streaming_prefill(np.zeros(16_000, np.float32), [object()], 2, True)
        bare.streaming_generate(max_new_speak_tokens_per_chunk=20)
    ours = engine._loaded.duplex.decoder
    assert ours.cache[ours.preserved :] == bare.decoder.cache
    assert ours.generated_tokens == bare.decoder.generated_tokens[-512:]


def test_nothing_is_kept_of_a_unit_that_nobody_reads() -> None:
    engine = doubles.engine(ModelDouble(script={n: Said("on and on") for n in range(200)}))
    session = engine.open(units.context())
    duplex = engine._loaded.duplex
    for n in range(200):
        session.step(units.unit(n), epoch=1, sequence=n)
        assert duplex.total_hidden == duplex.total_ids == duplex.prefill_schema_tokens == []
    assert len(duplex.decoder.generated_tokens) == 512


def test_control_tokens_in_a_text_are_not_public() -> None:
    model = ModelDouble(script={0: Said("Sales<|turn_eos|> </unit>rose", ends=True)})
    assert fed(opened(model), 1)[0].text == "Sales rose"


# --- the window


def test_the_window_is_read_from_the_cache_and_the_units_in_it() -> None:
    """79 tokens a unit cross 8,000 at unit 101 and fall to 75 units (native contract)."""
    model = ModelDouble()
    engine = doubles.engine(model)
    session = engine.open(units.context(prompt="x" * 66))
    decoder = engine._loaded.duplex.decoder
    context_tokens = decoder.get_cache_length()
    assert context_tokens == 75
    cached, starts = [], []
    for n in range(110):
        reply = session.step(units.unit(n), epoch=1, sequence=n)
        cached.append(reply.cached_tokens)
        starts.append(reply.window_start_sequence)
        assert decoder._unit_history[0]["unit_id"] == reply.window_start_sequence
    assert cached[0] == context_tokens + 79
    assert starts[99] == 0
    crossed = next(n for n, start in enumerate(starts) if start > 0)
    assert crossed == 101 - 1
    assert crossed + 1 - starts[crossed] == 75


def test_a_unit_that_the_model_never_closed_is_uncertain() -> None:
    model = ModelDouble()
    engine = doubles.engine(model)
    session = engine.open(units.context())
    decoder = engine._loaded.duplex.decoder
    model.after_generate[1] = lambda: decoder._unit_history.extend([{"length": 1}] * 2)
    session.step(units.unit(0), epoch=1, sequence=0)
    with pytest.raises(EpochUncertain):
        session.step(units.unit(1), epoch=1, sequence=1)


# --- faults


@pytest.mark.parametrize("switch", ["takes_no_audio", "raises_in_prefill", "raises_in_generate"])
def test_a_fault_inside_a_unit_makes_the_epoch_uncertain_and_only_a_reset_follows(
    switch: str,
) -> None:
    model = ModelDouble(**{switch: {1}})  # type: ignore[arg-type]
    session = opened(model)
    fed(session, 1)
    with pytest.raises(EpochUncertain, match="unit 1"):
        session.step(units.unit(1), epoch=1, sequence=1)
    with pytest.raises(EngineError, match="over"):
        session.step(units.unit(1), epoch=1, sequence=1)
    with pytest.raises(EngineError, match="over"):
        list(session.drain(epoch=1))
    called = len(model.calls)
    assert not session.close().is_audio_consumed
    assert model.names()[called:] == [
        "check_device",
        "reset_session",
        "_reset_streaming_state",
        "decoder.reset",
    ]


def test_an_early_return_that_nobody_asked_for_is_uncertain() -> None:
    """The model's break flag alone makes it answer as if it had listened; the unit is open."""
    model = ModelDouble()
    engine = doubles.engine(model)
    session = engine.open(units.context())
    duplex = engine._loaded.duplex
    model.between[0] = lambda: setattr(duplex, "is_broken_off", True)
    with pytest.raises(EpochUncertain):
        session.step(units.unit(0), epoch=1, sequence=0)


# --- the end


def test_the_last_source_samples_are_drained_by_one_zero_unit_without_a_picture() -> None:
    model = ModelDouble()
    session = opened(model)
    fed(session, 3)
    (reply,) = session.drain(epoch=1)
    assert (reply.drain, reply.sequence) == (1, 3)
    samples, frames, *_ = model.inputs
    assert (samples.any(), frames) == (np.False_, [])
    end = session.close()
    assert (end.is_audio_consumed, end.is_utterance_open) == (True, False)


def test_where_the_last_unit_ends_in_silence_of_ours_nothing_is_drained() -> None:
    session = opened(ModelDouble())
    last = units.unit(0, real_samples=15_920, synthetic_samples=80)
    session.step(last, epoch=1, sequence=0)
    assert list(session.drain(epoch=1)) == []
    assert session.close().is_audio_consumed


def test_an_open_utterance_is_finished_by_as_few_zero_units_as_it_takes() -> None:
    model = ModelDouble(script={1: Said("Sales"), 2: Said("rose"), 3: Said("again.", ends=True)})
    session = opened(model)
    fed(session, 2)
    drained = list(session.drain(epoch=1))
    assert [(reply.drain, reply.text) for reply in drained] == [(1, "rose"), (2, "again.")]
    assert not session.close().is_utterance_open


def test_eight_zero_units_are_the_most_and_what_is_open_then_is_said() -> None:
    model = ModelDouble(script={n: Said("on") for n in range(20)})
    session = opened(model)
    fed(session, 1)
    assert len(list(session.drain(epoch=1))) == DRAIN_UNITS_MAX
    end = session.close()
    assert (end.is_audio_consumed, end.is_utterance_open) == (True, True)


def test_nothing_is_drained_of_an_epoch_without_units() -> None:
    model = ModelDouble()
    session = opened(model)
    assert list(session.drain(epoch=1)) == []
    assert (native(model), session.close().is_audio_consumed) == ([], True)


# --- stop


Hooks = dict[int, Callable[[], None]]


@pytest.mark.parametrize(
    "point", ["before_prefill", "between", "during_generate", "after_generate"]
)
@pytest.mark.parametrize("speaks", [False, True])
def test_a_stop_inside_a_unit_discards_it_and_leaves_only_the_reset(
    point: str, speaks: bool
) -> None:
    script = {1: Said("Too late.", ends=True)} if speaks else {}
    model = ModelDouble(script=script)
    session = opened(model)

    def stop() -> None:
        stopper = threading.Thread(target=session.stop)
        stopper.start()
        stopper.join()

    hooks: Hooks = getattr(model, point)
    hooks[1] = stop
    fed(session, 1)
    with pytest.raises(SessionStopped):
        session.step(units.unit(1), epoch=1, sequence=1)
    with pytest.raises(SessionStopped):
        session.step(units.unit(1), epoch=1, sequence=1)
    with pytest.raises(SessionStopped):
        list(session.drain(epoch=1))
    calls = ["prefill"] if point in ("before_prefill", "between") else ["prefill", "generate"]
    assert [name for name, number in native(model) if number == 1] == calls
    assert not session.close().is_utterance_open
    assert model.names()[-3:] == ["reset_session", "_reset_streaming_state", "decoder.reset"]


def test_a_fault_after_a_stop_is_the_stop() -> None:
    model = ModelDouble(raises_in_generate={0})
    session = opened(model)
    model.during_generate[0] = session.stop
    with pytest.raises(SessionStopped):
        session.step(units.unit(0), epoch=1, sequence=0)


def test_a_stop_while_a_unit_is_decoded_feeds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ModelDouble()
    session = opened(model)
    decode = inputs.decode

    def slow(unit: Unit) -> inputs.NativeInputs:
        session.stop()
        return decode(unit)

    monkeypatch.setattr(inputs, "decode", slow)
    with pytest.raises(SessionStopped):
        session.step(units.unit(0), epoch=1, sequence=0)
    assert model.calls == []


def test_a_stop_between_two_drain_units_feeds_no_further_one() -> None:
    model = ModelDouble(script={n: Said("on") for n in range(20)})
    session = opened(model)
    fed(session, 1)
    drain = session.drain(epoch=1)
    next(drain)
    session.stop()
    with pytest.raises(SessionStopped):
        next(drain)
    assert native(model)[-1] == ("generate", 1)


def test_a_stop_sets_the_models_own_flag_at_once() -> None:
    engine = doubles.engine()
    session = engine.open(units.context())
    session.stop()
    assert engine._loaded.duplex.is_stopped
    session.stop()


def test_a_late_stop_does_not_reach_the_next_epoch() -> None:
    engine = doubles.engine()
    first = engine.open(units.context())
    first.close()
    second = engine.open(units.context(epoch=2))
    first.stop()
    assert not engine._loaded.duplex.is_stopped
    assert second.step(units.unit(), epoch=2, sequence=0).sequence == 0


def test_the_reset_waits_for_the_engines_own_thread() -> None:
    model = ModelDouble()
    session = opened(model)
    caught: list[BaseException] = []

    def close() -> None:
        try:
            session.close()
        except EngineError as error:
            caught.append(error)

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert (len(caught), model.calls) == (1, [])
    session.close()
    assert "reset_session" in model.names()
