"""How an epoch's text reaches the native decoder."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pipeline.engine.minicpm.context import BATCH_TOKENS, prepare_text_context
from pipeline.engine.minicpm.text_only import text_only_duplex
from pipeline.errors import ContextTooLong, SessionStopped

if TYPE_CHECKING:
    from tests.native.harness import Native

SENTENCE = "Objective: margins — and anything <new> about Ünïcode.\n"


def long_text(native: Native) -> str:
    """More than one batch, less than two, by the tokenizer at hand."""
    each = len(native.duplex.tokenizer.encode(SENTENCE, add_special_tokens=False))
    return SENTENCE * (BATCH_TOKENS // each + 2)


def one_by_one(native: Native, text: str) -> None:
    """As the native classes do it themselves."""
    native.model.reset_session()
    native.duplex.prepare(text)


def test_the_context_is_the_native_one_in_batches(native: Native) -> None:
    text = long_text(native)
    fed: dict[str, list[int]] = {"native": [], "ours": []}
    embed_token, embed_tokens = native.decoder.embed_token, native.decoder.embed_tokens
    native.decoder.embed_token = lambda token: (fed["native"].append(token), embed_token(token))[1]
    native.decoder.embed_tokens = lambda ids: (fed["ours"].extend(ids), embed_tokens(ids))[1]
    try:
        with native.watched() as record:
            one_by_one(native, text)
            assert record.feeds == [1] * len(record.feeds)
            protected = native.decoder._system_preserve_length
            record.feeds.clear()
            tokens = native.begin(text)
            assert max(record.feeds) == BATCH_TOKENS
            assert record.tokens == tokens
    finally:
        del native.decoder.embed_token, native.decoder.embed_tokens
    # A decoder may look single tokens up through the plural form.
    assert fed["ours"][-tokens:] == (fed["native"] or fed["ours"][:-tokens])
    assert native.decoder._system_preserve_length == protected == tokens
    assert native.decoder.get_cache_length() == tokens
    assert native.decoder._unit_history == []


def test_batches_leave_the_same_cache_as_single_tokens(native: Native) -> None:
    text = long_text(native)
    one_by_one(native, text)
    singly = native.cache()
    native.begin(text)
    batched = native.cache()
    assert len(singly) == len(batched)
    if native.is_exact:
        for (keys, values), (keys_then, values_then) in zip(batched, singly, strict=True):
            np.testing.assert_allclose(keys, keys_then, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(values, values_then, rtol=1e-4, atol=1e-4)
        return
    # In bfloat16 sums differ by their order; what no attention has touched yet does not.
    keys, keys_then = batched[0][0], singly[0][0]
    assert np.corrcoef(keys.ravel(), keys_then.ravel())[0, 1] > 0.999


def test_both_ways_lead_to_the_same_scores(native: Native) -> None:
    scores, text = [], long_text(native)
    for begin in (lambda: one_by_one(native, text), lambda: native.begin(text)):
        begin()
        with native.watched() as record:
            native.second(0)
            native.second(1)
        scores.append(record.logits)
    for ours, theirs in zip(*scores, strict=True):
        if native.is_exact:
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
        else:
            assert np.corrcoef(ours, theirs)[0, 1] > 0.99


def test_the_reset_comes_before_the_first_token_in_the_native_order(
    native: Native, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def noted(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **named: Any) -> Any:
            if calls[-1:] != [name]:
                calls.append(name)
            return real(*args, **named)

        monkeypatch.setattr(owner, name, call)

    noted(native.duplex, "clear_break_event")
    noted(native.duplex, "clear_session_stop")
    noted(native.duplex, "_reset_streaming_state")
    noted(native.decoder, "reset")
    noted(native.model, "init_streaming_processor")
    noted(native.decoder, "feed")
    noted(native.decoder, "register_system_prompt")
    native.duplex.prepare("watch")
    theirs, calls[:] = calls.copy(), []
    prepare_text_context(native.duplex, "watch", threading.Event())
    assert calls == theirs
    assert calls[-2:] == ["feed", "register_system_prompt"]


def test_a_stop_is_seen_between_two_batches(native: Native) -> None:
    stop = threading.Event()
    with native.watched() as record:
        record.before_feed = lambda nth: stop.set()
        with pytest.raises(SessionStopped):
            prepare_text_context(native.duplex, long_text(native), stop)
    assert record.feeds == [BATCH_TOKENS]
    assert native.decoder._system_preserve_length == 0


def test_a_context_over_the_limit_is_refused_with_count_and_limit_and_nothing_is_fed(
    native: Native,
) -> None:
    with native.watched() as record, pytest.raises(ContextTooLong) as refused:
        native.begin("a b " * 4_000)
    assert record.feeds == []
    assert refused.value.limit == 4_000
    assert refused.value.tokens > 4_000


def test_a_context_clears_the_flags_of_an_earlier_stop(native: Native) -> None:
    native.duplex.set_session_stop()
    native.begin()
    assert not native.duplex.is_session_stop_set()
    assert not native.duplex.is_break_set()
    with native.watched():
        native.second(0)


def test_the_speech_renderer_is_skipped_for_the_one_call_and_restored(native: Native) -> None:
    asked: list[dict[str, Any]] = []
    before = type(native.model).init_tts
    native.model.init_tts = lambda **settings: asked.append(settings)
    try:
        mine = native.model.init_tts
        text_only_duplex(native.model, generate_audio=False)
        assert asked == []
        assert native.model.init_tts is mine
        native.model.as_duplex(generate_audio=False)
        assert list(asked[0]) == ["enable_float16", "n_timesteps"]
    finally:
        del native.model.init_tts
    assert type(native.model).init_tts is before


def test_the_renderer_is_restored_when_the_constructor_raises(native: Native) -> None:
    seen: list[Any] = []

    def failing(**settings: Any) -> Any:
        seen.append(native.model.init_tts)
        raise RuntimeError("no memory left")

    before = native.model.init_tts
    native.model.as_duplex = failing
    try:
        with pytest.raises(RuntimeError, match="no memory left"):
            text_only_duplex(native.model)
    finally:
        del native.model.as_duplex
    assert seen != [before]
    assert native.model.init_tts == before
    assert "init_tts" not in vars(native.model)
