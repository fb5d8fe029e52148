"""The pass over a drawn token that is begun before it is fed: used, or as if it had never been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.native import conftest

torch = pytest.importorskip("torch", reason=conftest.NEEDS_TORCH)
pytest.importorskip("transformers", reason=conftest.NEEDS_TORCH)

from pipeline.engine.minicpm.fast.decoder import fast_decoder  # noqa: E402
from pipeline.engine.minicpm.fast.network import Network  # noqa: E402
from pipeline.engine.minicpm.fast.sampling import Sampler  # noqa: E402
from pipeline.engine.minicpm.fast.steps import WIDTHS, PlainSteps, SizedSteps, Steps  # noqa: E402
from tests.native import harness  # noqa: E402

WORDS = 6
PROTECTED = 9
CAPACITY = 1_024


@pytest.fixture(params=["plain", "sized"])
def decoder(request: pytest.FixtureRequest) -> Any:
    """As on the CPU, and as on a GPU but called instead of captured."""
    loaded = harness.load_double()
    official = loaded.duplex.decoder
    network = Network(loaded.model.llm, is_fused=request.param == "sized")  # type: ignore[attr-defined]
    cache = network.new_cache(CAPACITY)
    steps: Steps = (
        PlainSteps(network, cache)
        if request.param == "plain"
        else SizedSteps(network, cache, is_graphed=False)
    )
    config = official._window_config
    config.basic_window_high_tokens, config.basic_window_low_tokens = 75, 50
    official.set_window_enabled(True)
    return fast_decoder(official, steps, Sampler(official, is_graphed=False))


def drawn(decoder: Any, scores: Any, wanted: int, mode: str = "sampling") -> int:
    steered = scores.clone()
    steered[0, wanted] += 1e4
    return int(decoder.decode(logits=steered, mode=mode, top_k=100))


def fed(decoder: Any, *tokens: int) -> Any:
    embeds = [decoder.embed_token(token) for token in tokens]
    whole = embeds[0] if len(embeds) == 1 else torch.cat(embeds)
    return decoder.feed(whole, return_logits=True)[0]


def unit(decoder: Any, words: int) -> tuple[Any, int]:
    """A unit that is not ended: it says so many words, the last of which is not fed."""
    decoder.register_unit_start()
    scores = fed(decoder, *range(20, 31))
    token = 0
    for nth in range(words):
        token = drawn(decoder, scores, 40 + nth)
        assert token == 40 + nth
        if nth < words - 1:
            scores = fed(decoder, token)
    return scores, token


def close(decoder: Any) -> None:
    fed(decoder, 3)
    decoder.register_unit_end(input_type="omni", is_listen=False)
    decoder.enforce_window()


def begun(decoder: Any, *, is_on: bool, units: int = 4) -> tuple[Any, int]:
    """Some units that say seven words and fall out, then one of five that has not fed its last."""
    decoder.reset()
    decoder._early.is_on = is_on
    torch.manual_seed(0)
    fed(decoder, *range(1, PROTECTED + 1))
    decoder.register_system_prompt()
    for _ in range(units):
        unit(decoder, WORDS + 1)
        close(decoder)
    return unit(decoder, WORDS - 1)


def feeds_it(decoder: Any, scores: Any, token: int) -> Any:
    return fed(decoder, token)


def feeds_another(decoder: Any, scores: Any, token: int) -> Any:
    return fed(decoder, token + 1)


def feeds_more(decoder: Any, scores: Any, token: int) -> Any:
    return fed(decoder, token, token)


def feeds_its_row_and_the_next(decoder: Any, scores: Any, token: int) -> Any:
    rows = decoder._steps.network.embeddings[token : token + 2]
    return decoder.feed(rows, return_logits=True)[0]


def feeds_a_copy(decoder: Any, scores: Any, token: int) -> Any:
    return decoder.feed(decoder.embed_token(token).clone(), return_logits=True)[0]


def draws_again(decoder: Any, scores: Any, token: int) -> Any:
    return fed(decoder, drawn(decoder, scores, token + 3))


def draws_officially(decoder: Any, scores: Any, token: int) -> Any:
    decoder.decode(logits=scores, mode="greedy", listen_top_k=0)
    return fed(decoder, token)


def reads_the_scores_again(decoder: Any, scores: Any, token: int) -> Any:
    before = scores.tensor.clone()
    after = fed(decoder, token)
    assert not torch.equal(after.tensor, before)
    assert torch.equal(scores.tensor, before)
    return after


def ends_the_unit(decoder: Any, scores: Any, token: int) -> Any:
    close(decoder)
    return unit(decoder, 1)[0]


def falls_at_once(decoder: Any, scores: Any, token: int) -> Any:
    """Without a feed before it."""
    assert decoder._dropped_at == PROTECTED  # one fell before, and nothing need be settled
    assert decoder._drop_tokens_from_cache(decoder._unit_history.pop(0)["length"])
    return fed(decoder, token)


def looks_at_the_cache(decoder: Any, scores: Any, token: int) -> Any:
    assert decoder.cache.key_cache[0].shape[2] == decoder.get_cache_length()
    return fed(decoder, token)


def is_reset(decoder: Any, scores: Any, token: int) -> Any:
    decoder.reset()
    return fed(decoder, token)


USED: tuple[Callable[..., Any], ...] = (feeds_it, reads_the_scores_again)
FORGOTTEN: tuple[Callable[..., Any], ...] = (
    *(feeds_another, feeds_more, feeds_its_row_and_the_next, feeds_a_copy),
    *(draws_again, draws_officially),
    *(ends_the_unit, falls_at_once, looks_at_the_cache),
)


@pytest.mark.parametrize("way", [*USED, *FORGOTTEN, is_reset], ids=lambda way: way.__name__)
def test_whatever_comes_is_answered_as_without_it(decoder: Any, way: Callable[..., Any]) -> None:
    seen: list[Any] = []
    tensors: list[list[Any]] = []
    for is_on in (False, True):
        early = decoder._early
        scores, token = begun(decoder, is_on=is_on)
        assert (early._made is not None) is is_on
        used, forgotten = early.used, early.forgotten
        assert decoder.get_cache_length() == PROTECTED + sum(
            each["length"] for each in decoder._unit_history
        ) + 11 + (WORDS - 2)
        scores = way(decoder, scores, token)
        assert early._made is None
        if is_on:
            assert early.used - used == (way in USED)
            assert early.forgotten - forgotten == (way in FORGOTTEN)
        read = [scores.clone()]
        for nth in range(3):
            scores = fed(decoder, drawn(decoder, scores, 60 + nth))
            read.append(scores.clone())
        close(decoder)
        kept = [pair.clone() for pair in decoder.cache.key_cache + decoder.cache.value_cache]
        seen.append(
            (
                decoder.get_cache_length(),
                tuple(each["length"] for each in decoder._unit_history),
                tuple(decoder.generated_tokens),
                float(torch.rand(1)),
            )
        )
        tensors.append([*read, *kept])
    assert seen[0] == seen[1]
    assert all(map(torch.equal, *tensors))


def test_nothing_is_left_where_a_forgotten_pass_wrote(decoder: Any) -> None:
    """What was no number there would be one more in every sum, however little it weighs."""
    begun(decoder, is_on=True)
    cache = decoder._steps.cache
    assert float(cache.pairs[:, cache.length].abs().sum()) > 0
    decoder._early.forget()
    assert float(cache.pairs[:, cache.length].abs().sum()) == 0


def test_it_is_begun_inside_speech_only(decoder: Any) -> None:
    early, steps = decoder._early, decoder._steps
    begun(decoder, is_on=True)
    used, forgotten = early.used, early.forgotten
    counts = []
    for words in (1, WORDS + 1, 1, WORDS + 1, 1):
        close(decoder)
        before = steps.passes
        _, token = unit(decoder, words)
        fed(decoder, token)
        counts.append((steps.passes - before, early.used - used))
        used = early.used
    # The first draw follows on many tokens; after the last one no unit went on.
    assert counts == [(1, 0), (WORDS + 1, WORDS - 1), (1, 0), (WORDS + 1, WORDS - 1), (1, 0)]
    # The word that the unit before them had drawn was not fed.
    assert early.forgotten == forgotten + 1


def test_it_is_not_begun_again_in_a_unit_that_fed_another_token(decoder: Any) -> None:
    _, token = begun(decoder, is_on=True)
    scores = fed(decoder, token + 1)
    drawn(decoder, scores, 70)
    assert decoder._early._made is None
    close(decoder)
    unit(decoder, 3)
    assert decoder._early._made is not None


def test_it_is_not_begun_after_a_turn_has_ended(decoder: Any) -> None:
    _, token = begun(decoder, is_on=True)
    decoder._early._turn_end = token
    drawn(decoder, fed(decoder, token), 70)
    assert decoder._early._made is None


def test_it_is_not_begun_where_something_waits(decoder: Any) -> None:
    early = decoder._early
    _, token = begun(decoder, is_on=True)
    scores = fed(decoder, token).clone()
    decoder.feed(decoder.embed_token(5))
    drawn(decoder, scores, 70)
    assert (early._made, decoder._held) == (None, 1)
    _, token = begun(decoder, is_on=True)
    scores = fed(decoder, token).clone()
    decoder._drop_tokens_from_cache(decoder._unit_history.pop(0)["length"])
    drawn(decoder, scores, 70)
    assert early._made is None


def test_it_is_not_begun_where_the_cache_ends(decoder: Any) -> None:
    early, cache = decoder._early, decoder._steps.cache
    _, token = begun(decoder, is_on=True)
    fed(decoder, token)
    while cache.length + decoder._held < CAPACITY:  # in passes without padding
        left = CAPACITY - cache.length
        width = next(width for width in reversed(WIDTHS) if width <= left)
        scores = fed(decoder, *[5] * width).tensor
    early._is_speaking, early._draws, early._draws_most = True, 1, 9
    drawn(decoder, scores, 70)
    assert early._made is None
    assert cache.capacity == cache.length == CAPACITY
    fed(decoder, 70).clone()
    assert decoder.get_cache_length() == CAPACITY + 1


@pytest.mark.parametrize("mode", ["greedy", "sampling"])
def test_a_draw_hands_its_token_on_unless_a_chunk_ends(decoder: Any, mode: str) -> None:
    sampler = decoder._sampler
    handed: list[Any] = []
    scores = torch.randn((1, decoder._steps.network.vocabulary))
    for wanted in (44, decoder.chunk_eos_id):
        steered = scores.clone()
        steered[0, wanted] += 1e4
        after = []
        for begin in (None, handed.append):
            torch.manual_seed(1)
            assert sampler.draw(steered, [], begin=begin, mode=mode) == wanted
            after.append(float(torch.rand(1)))
        assert after[0] == after[1]
    assert [each.tolist() for each in handed] == [[44]]


def test_scores_that_are_no_numbers_begin_nothing(decoder: Any) -> None:
    scores, token = begun(decoder, is_on=True)
    scores = fed(decoder, token).clone()
    scores[0, 9] = float("nan")
    passes = decoder._steps.passes
    with pytest.raises(RuntimeError, match="probability tensor"):
        decoder.decode(logits=scores, mode="sampling")
    assert (decoder._early._made, decoder._steps.passes) == (None, passes)
