"""A whole epoch through the engine's public door."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pipeline.engine.session import DRAIN_UNITS_MAX
from pipeline.records import Decision, Options, Reply, Unit
from tests import units

if TYPE_CHECKING:
    from tests.native.harness import Native


def sounding(second: int, **changes: object) -> Unit:
    """A unit like no other."""
    from tests.native.harness import noise

    frame = units.picture(20 + second % 200, source_ms=second * 1000)
    return units.unit(second, pcm=noise(second).astype("<f4").tobytes(), frame=frame, **changes)


def test_an_epoch_listens_speaks_and_ends_a_turn(native: Native) -> None:
    session = native.engine().open(units.context())
    replies: list[Reply] = []
    with native.watched():
        native.will_draw(native.token("<|listen|>"))
        native.will_speak(2)
        native.will_speak(1, ends_turn=True)
        native.will_draw(native.token("<|listen|>"))
        native.will_speak(1, ends_turn=True)
        for nth in range(5):
            replies.append(session.step(sounding(nth), epoch=1, sequence=nth))
        assert list(session.drain(epoch=1))
    end = session.close()
    assert [reply.text for reply in replies] == ["", "aa", "a", "", "a"]
    spoken = [nth for nth, reply in enumerate(replies) if reply.decision is Decision.SPEAK]
    assert spoken == [1, 2, 4]
    assert [reply.is_end_of_turn for reply in replies] == [False, False, True, False, True]
    first, again = replies[1].generation_id, replies[4].generation_id
    assert first == replies[2].generation_id != again
    assert [reply.generation_id for reply in replies] == [None, first, first, None, again]
    assert [reply.window_start_sequence for reply in replies] == [0] * 5
    assert (end.is_audio_consumed, end.is_utterance_open) == (True, False)


@pytest.mark.parametrize(("slices", "tokens"), [(1, 66), (2, 198)])
def test_the_most_slices_of_a_job_reach_the_model(native: Native, slices: int, tokens: int) -> None:
    options = Options(max_slice_nums=slices)
    session = native.engine().open(units.context(options=options))
    large = units.picture(90, width_px=1280, height_px=720)
    with native.watched() as record:
        session.step(units.unit(frame=large), epoch=1, sequence=0)
    session.close()
    assert record.feeds == [1, tokens, 10, 1, 1]


def test_every_unit_says_where_its_time_went(native: Native) -> None:
    session = native.engine().open(units.context())
    with native.watched():
        reply = session.step(sounding(0), epoch=1, sequence=0)
    session.close()
    clocks = reply.clocks
    assert clocks is not None
    assert min(clocks.prepare_ms, clocks.prefill_ms, clocks.generate_ms) > 0
    assert clocks.prefill_ms + clocks.generate_ms <= reply.inference_ms
    assert {"prefill_cost_all", "generate_cost_all"} <= set(clocks.upstream_ms)
    assert min(clocks.upstream_ms.values()) >= 0


def test_the_last_samples_are_drained_by_one_second_of_silence(native: Native) -> None:
    session = native.engine().open(units.context())
    with native.watched() as record:
        for nth in range(2):
            session.step(sounding(nth), epoch=1, sequence=nth)
        assert len(native.duplex.audio_buffer) == 80
        record.feeds.clear()
        drained = list(session.drain(epoch=1))
        assert record.feeds == [1, 10, 1, 1]  # and no picture
        assert not native.duplex.audio_buffer.any()
    assert [(reply.sequence, reply.drain) for reply in drained] == [(2, 1)]
    assert session.close().is_audio_consumed


def test_a_tiny_last_fragment_needs_no_drain_for_its_padding(native: Native) -> None:
    session = native.engine().open(units.context())
    with native.watched():
        session.step(sounding(0), epoch=1, sequence=0)
        last = sounding(1, real_samples=1, synthetic_samples=15_999)
        session.step(last, epoch=1, sequence=1)
        assert list(session.drain(epoch=1)) == []
    assert session.close().is_audio_consumed


def test_an_open_utterance_gets_at_most_eight_drain_units(native: Native) -> None:
    session = native.engine().open(units.context())
    with native.watched():
        for _ in range(20):
            native.will_speak(1)
        session.step(sounding(0), epoch=1, sequence=0)
        drained = list(session.drain(epoch=1))
    end = session.close()
    assert [reply.drain for reply in drained] == list(range(1, DRAIN_UNITS_MAX + 1))
    assert all(reply.decision is Decision.SPEAK for reply in drained)
    assert (end.is_audio_consumed, end.is_utterance_open) == (True, True)


def test_a_turn_that_ends_in_the_drain_ends_the_drain(native: Native) -> None:
    session = native.engine().open(units.context())
    with native.watched():
        native.will_speak(1)
        native.will_speak(1)
        native.will_speak(1, ends_turn=True)
        session.step(sounding(0), epoch=1, sequence=0)
        drained = list(session.drain(epoch=1))
    assert [reply.is_end_of_turn for reply in drained] == [False, True]
    assert session.close().is_utterance_open is False


def test_an_exact_repeat_is_answered_without_a_second_call(native: Native) -> None:
    session = native.engine().open(units.context())
    with native.watched() as record:
        reply = session.step(sounding(0), epoch=1, sequence=0)
        fed = len(record.feeds)
        assert session.step(sounding(0), epoch=1, sequence=0) is reply
        assert len(record.feeds) == fed
    session.close()


def test_the_same_seed_and_units_give_the_same_words(native: Native) -> None:
    engine = native.engine()
    said = []
    for epoch, seed in ((1, 11), (2, 11)):
        options = Options(seed=seed, output_max_tokens_per_unit=8)
        session = engine.open(units.context(epoch=epoch, options=options))
        said.append(
            [
                (reply.decision, reply.text, reply.tokens, reply.is_end_of_turn)
                for reply in (
                    session.step(sounding(nth), epoch=epoch, sequence=nth) for nth in range(4)
                )
            ]
        )
        session.close()
    assert said[0] == said[1]


def test_no_control_token_is_public_text(native: Native) -> None:
    session = native.engine().open(units.context())
    with native.watched():
        controls = ("<|speak|>", "<|tts_bos|>", "<unit>", "<|im_start|>", "</image>")
        native.will_draw(*(native.token(token) for token in controls))
        native.will_draw(*(native.word(letter) for letter in "<unit>a"))  # spelled, not meant
        native.will_draw(native.token("<|chunk_eos|>"))
        reply = session.step(sounding(0), epoch=1, sequence=0)
    session.close()
    assert reply.text == "a"


def test_memory_stays_flat(native: Native) -> None:
    """10,000 units of the tiny network with OMNAI_TEST_LONG=1, listening and speaking."""
    from tests.native.harness import live_tensor_bytes, remembered_bytes

    is_long = native.is_double and os.environ.get("OMNAI_TEST_LONG") == "1"
    count = 10_000 if is_long else 120 if native.is_double else 60
    decoder, duplex, held = native.decoder, native.duplex, []
    session = native.engine().open(units.context())
    with native.watched() as record, native.narrow(high=600, low=300):
        for nth in range(count):
            if nth % 6 == 0:
                native.will_speak(16, ends_turn=True)
            reply = session.step(sounding(nth), epoch=1, sequence=nth)
            assert reply.cached_tokens is not None
            assert reply.cached_tokens <= 600
            assert duplex.total_hidden == duplex.total_ids == duplex.res_ids == []
            assert duplex.prefill_schema_tokens == []
            assert max(len(decoder.generated_tokens), len(decoder._unit_history)) <= 512
            assert len(duplex.audio_buffer) == 80
            record.feeds.clear()
            record.logits.clear()
            if nth % (count // 2) == count // 2 - 1:
                held.append(live_tensor_bytes() - remembered_bytes(native))
    session.close()
    assert len(held) == 2
    assert held[1] - held[0] < 1_000_000
