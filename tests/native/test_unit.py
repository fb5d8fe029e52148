"""What one unit does to the native decoder: feeds, samples, words and books."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipeline.engine.minicpm import history
from pipeline.engine.minicpm.turns import Turns

if TYPE_CHECKING:
    from tests.native.harness import Native


def test_a_listening_unit_is_five_feeds(native: Native) -> None:
    from tests.native.harness import noise, picture

    native.begin()
    with native.watched() as record:
        assert native.prefill(noise(0), picture())["success"] is True
        assert record.feeds == [1, 66, 10]
        made = native.generate()
    assert record.feeds == [1, 66, 10, 1, 1]
    assert (made["is_listen"], made["text"], made["end_of_turn"]) == (True, "", False)
    assert (made["n_tokens"], made["audio_waveform"] is None) == (0, False)


def test_a_unit_without_a_frame_is_thirteen_tokens(native: Native) -> None:
    begun = native.begin()
    with native.watched() as record:
        native.second(0)
    assert record.feeds == [1, 10, 1, 1]
    assert native.decoder.get_cache_length() == begun + 13


@pytest.mark.parametrize(
    ("width_px", "height_px", "slices", "tokens"),
    [(448, 448, 2, 66), (448, 252, 2, 66), (1280, 720, 1, 66), (1280, 720, 2, 198)],
)
def test_a_frame_costs_its_overview_and_its_slices(
    native: Native, width_px: int, height_px: int, slices: int, tokens: int
) -> None:
    from tests.native.harness import noise, picture

    native.begin()
    frame = picture(width_px=width_px, height_px=height_px)
    with native.watched() as record:
        native.prefill(noise(0), frame, slices)
    assert record.feeds == [1, tokens, 10]


def test_two_frames_in_a_unit_cost_twice(native: Native) -> None:
    from tests.native.harness import noise, picture

    native.begin()
    with native.watched() as record:
        native.duplex.streaming_prefill(
            audio_waveform=noise(0),
            frame_list=[picture(1), picture(2)],
            max_slice_nums=2,
            batch_vision_feed=True,
        )
    assert record.feeds == [1, 132, 10]


def test_without_the_batch_every_part_of_a_frame_is_a_feed(native: Native) -> None:
    from tests.native.harness import noise, picture

    native.begin()
    with native.watched() as record:
        native.duplex.streaming_prefill(
            audio_waveform=noise(0), frame_list=[picture()], max_slice_nums=2
        )
    assert record.feeds == [1, 1, 64, 1, 10]


def test_a_speaking_unit_has_at_most_eighteen_words_under_the_default_cap(native: Native) -> None:
    from tests.native.harness import noise

    native.begin()
    with native.watched() as record:
        native.will_speak(40)
        native.prefill(noise(0))
        made = native.generate()
    assert (made["is_listen"], made["n_tokens"], made["end_of_turn"]) == (False, 18, False)
    assert made["text"] == "a" * 18
    assert made["audio_waveform"] is None
    assert len(record.logits) == 19
    assert record.feeds == [1, 10] + [1] * 21


@pytest.mark.parametrize(("cap", "words"), [(8, 6), (64, 62)])
def test_a_cap_counts_the_speak_marker_and_the_chunks_end(
    native: Native, cap: int, words: int
) -> None:
    from tests.native.harness import noise

    native.begin()
    with native.watched():
        native.will_speak(80)
        native.prefill(noise(0))
        made = native.generate(max_new_speak_tokens_per_chunk=cap)
    assert (made["n_tokens"], made["text"]) == (words, "a" * words)


def test_a_listen_inside_a_turn_continues_it(native: Native) -> None:
    native.begin()
    with native.watched():
        native.will_speak(2)
        assert native.second(0)["text"] == "aa"
        assert native.duplex.current_turn_ended is False
        native.will_draw(native.token("<|listen|>"), native.token("<|chunk_eos|>"))
        made = native.second(1)
        assert (made["is_listen"], made["text"], made["end_of_turn"]) == (False, "", False)
        assert native.token("<|tts_bos|>") in native.duplex.total_ids
        native.will_speak(1, ends_turn=True)
        made = native.second(2)
        assert (made["text"], made["end_of_turn"]) == ("a", True)
        assert native.duplex.current_turn_ended is True
        assert native.second(3)["is_listen"] is True


def test_words_before_a_listen_that_follows_the_turns_end_are_only_in_the_windows_books(
    native: Native,
) -> None:
    native.begin()
    with native.watched():
        native.will_draw(native.token("<|speak|>"), native.word(), native.token("<|turn_eos|>"))
        made = native.second(0)
    assert (made["is_listen"], made["text"], made["end_of_turn"]) == (True, "", False)
    assert made["n_tokens"] == 2
    assert native.decoder._unit_history[-1]["generated_text"] == "a"


def test_the_model_may_speak_in_its_first_second(native: Native) -> None:
    native.begin()
    with native.watched():
        native.will_speak(1)
        assert native.second(0)["is_listen"] is False


def test_every_unit_leaves_eighty_samples_in_the_buffer(native: Native) -> None:
    native.begin()
    chunk_size = native.duplex.processor.get_streaming_chunk_size
    assert chunk_size() == 16_480
    with native.watched():
        for nth in range(3):
            native.second(nth)
            assert chunk_size() == 16_000
            assert len(native.duplex.audio_buffer) == 80
            assert native.duplex.audio_chunk_idx == nth + 1


def test_a_short_first_unit_is_padded_in_front(native: Native) -> None:
    from tests.native.harness import noise

    native.begin()
    samples = noise(0, 8_000)
    with native.watched():
        assert native.prefill(samples)["success"] is True
    assert list(native.duplex.audio_buffer) == list(samples[-80:])


def test_the_statistics_helper_raises_at_any_time(native: Native) -> None:
    native.begin()
    with native.watched():
        for nth in range(2):
            with pytest.raises(AttributeError):
                native.decoder.get_window_stats()
            native.second(nth)


def test_a_public_response_touches_neither_scores_nor_cache(native: Native) -> None:
    from tests.native.harness import noise

    native.begin()
    with native.watched() as record:
        native.prefill(noise(0))
        waiting, length = native.duplex.pending_logits, native.decoder.get_cache_length()
        turns = Turns(epoch=3)
        first = turns.begin_public_response()
        assert first == turns.begin_public_response()
        turns.take(is_open=False, has_ended=True)
        assert turns.begin_public_response() != first
        assert native.duplex.pending_logits is waiting
        assert (native.decoder.get_cache_length(), record.feeds) == (length, [1, 10])


def test_what_is_trimmed_changes_no_later_draw(native: Native) -> None:
    from tests.native.harness import noise

    drawn = []
    for is_trimming in (False, True):
        native.begin(seed=5)
        ids = []
        for nth in range(3):
            assert native.prefill(noise(nth))["success"] is True
            native.generate(max_new_speak_tokens_per_chunk=8)
            ids += list(native.decoder.generated_tokens)
            if is_trimming:
                history.trim(native.duplex)
        drawn.append(ids)
    assert drawn[0] == drawn[1]


def test_trimming_empties_the_books_and_keeps_the_repetition_window(native: Native) -> None:
    native.begin()
    with native.watched():
        native.will_speak(18)
        native.second(0)
    native.decoder.generated_tokens[:0] = range(600)
    spoken = native.decoder.generated_tokens[-512:]
    books = ("total_hidden", "total_ids", "res_ids", "prefill_schema_tokens")
    assert all(getattr(native.duplex, book) for book in books)
    history.trim(native.duplex)
    assert not any(getattr(native.duplex, book) for book in books)
    assert native.decoder.generated_tokens == spoken
