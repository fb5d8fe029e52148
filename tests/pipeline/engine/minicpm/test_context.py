"""The context goes in as the model's own preparation feeds it, in batches that a stop may cut."""

from __future__ import annotations

import threading

import pytest

from pipeline.engine.minicpm.context import prepare_text_context
from pipeline.errors import ContextTooLong, SessionStopped
from tests.pipeline.engine.minicpm.doubles import DuplexDouble, ModelDouble

FRAMED = 1 + len("system\n") + 1
"""Tokens around the text: the two markers and what follows the first."""


def made(**switches: object) -> tuple[ModelDouble, DuplexDouble]:
    model = ModelDouble(**switches)  # type: ignore[arg-type]
    duplex = DuplexDouble(model)
    model.calls.clear()
    return model, duplex


def test_the_order_is_that_of_the_models_own_preparation() -> None:
    model, duplex = made()
    duplex.set_session_stop()
    tokens = prepare_text_context(duplex, "watch", threading.Event())
    assert model.calls == [
        ("clear_break_event",),
        ("clear_session_stop",),
        ("_reset_streaming_state",),
        ("decoder.reset",),
        ("init_streaming_processor",),
        ("feed", tokens),
        ("register_system_prompt", tokens),
    ]
    assert not duplex.is_stopped
    assert duplex.decoder.preserved == tokens == len("watch") + FRAMED


def test_the_tokens_are_those_of_one_by_one_in_batches_of_at_most_256() -> None:
    model, duplex = made()
    text = "x" * 600
    prepare_text_context(duplex, text, threading.Event())
    assert [details[0] for name, *details in model.calls if name == "feed"] == [256, 256, 97]
    encode = duplex.tokenizer.encode
    assert duplex.decoder.cache == [
        *encode("<|im_start|>system\n" + text, add_special_tokens=False),
        *encode("<|im_end|>", add_special_tokens=False),
    ]


@pytest.mark.parametrize("batches", [0, 1, 2, 3])
def test_a_stop_is_seen_before_every_batch_and_before_the_boundary(batches: int) -> None:
    stop = threading.Event()
    fed: list[int] = []

    def feed() -> None:
        fed.append(1)
        if len(fed) == batches:
            stop.set()

    model, duplex = made(on_feed=feed)
    if batches == 0:
        stop.set()
    with pytest.raises(SessionStopped):
        prepare_text_context(duplex, "x" * 600, stop)
    assert len(fed) == batches
    assert "register_system_prompt" not in model.names()


def test_4000_tokens_are_accepted_and_one_more_is_refused_with_count_and_limit() -> None:
    model, duplex = made()
    assert prepare_text_context(duplex, "x" * (4000 - FRAMED), threading.Event()) == 4000
    model.calls.clear()
    with pytest.raises(ContextTooLong, match=r"4001.*4000"):
        prepare_text_context(duplex, "x" * (4001 - FRAMED), threading.Event())
    assert model.calls == []
