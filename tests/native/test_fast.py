"""The fast decoder says what the official one says, unit by unit."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.native import conftest

if TYPE_CHECKING:
    from tests.native.harness import Native

IS_LONG = os.environ.get("OMNAI_TEST_LONG") == "1"
SECONDS = 3_000 if IS_LONG else 50
HIGH, LOW = 900, 500

FRAMES = (None, (448, 252), (448, 448), (300, 200), (1280, 720))
CAPS = (6, 9, 20)
RARE = (("listen", 0.2), ("chunk_eos", 0.1), ("turn_eos", 0.06))
"""What random weights hardly ever choose, and how often it is made sure of, for both alike."""

_FOREIGN = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(3600)]


@pytest.fixture(params=["tiny", pytest.param("snapshot", marks=_FOREIGN)])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Native, Native]]:
    """The same weights with the official decoder and with the fast one."""
    natives = []
    for kind in (request.param, f"{request.param}-fast"):
        for library in ("torch", "transformers"):
            pytest.importorskip(library, reason=conftest.NEEDS_TORCH)
        if kind.startswith("snapshot") and not os.environ.get(conftest.SNAPSHOT):
            pytest.skip(f"{conftest.SNAPSHOT} names no folder")
        if kind not in conftest._loaded:
            conftest._loaded[kind] = conftest.load(kind)
        natives.append(conftest._loaded[kind])
        natives[-1].restore()
    yield natives[0], natives[1]
    for native in natives:
        native.restore()


@contextmanager
def leaning(native: Native) -> Iterator[None]:
    """As the weights decide, but for a rare decision now and then."""
    decoder, chance = native.decoder, random.Random(0)
    decode = decoder.decode

    def leaned(logits: Any, **sampling: Any) -> Any:
        drawn = chance.random()
        for name, share in RARE:
            if 0 <= drawn < share:
                logits = logits.clone()
                logits[0, native.token(f"<|{name}|>")] += 1e4
            drawn -= share
        return decode(logits=logits, **sampling)

    decoder.decode = leaned
    try:
        yield
    finally:
        del decoder.decode


def course(native: Native, *, seconds: int, seed: int, mode: str) -> Iterator[tuple[Any, ...]]:
    """What a recording of any content does to a decoder; what it said and holds after each unit."""
    from tests.native.harness import noise, picture

    chance = random.Random(seed)
    native.begin(f"watch {seed}", seed=seed)
    for nth in range(seconds):
        what = chance.random()
        if what < 0.02:  # a new epoch
            native.begin("and again " * chance.randint(1, 40), seed=seed + nth)
        size = chance.choice(FRAMES)
        frame = None if size is None else picture(nth, width_px=size[0], height_px=size[1])
        samples = noise(nth) * (0 if what > 0.9 else 1)  # silence, as of a drain
        slices = chance.randint(1, 2)
        cap = chance.choice(CAPS)
        assert native.prefill(samples, frame, slices)["success"] is True
        if 0.02 < what < 0.05:  # stopped between the calls: the engine resets, and opens another
            native.duplex.set_session_stop()
            assert native.generate()["end_of_turn"] is True
            native.restore()
            native.begin("after a stop", seed=nth)
            continue
        made = native.generate(max_new_speak_tokens_per_chunk=cap, decode_mode=mode)
        decoder = native.decoder
        yield (
            *(made[name] for name in ("is_listen", "text", "end_of_turn", "n_tokens")),
            tuple(native.duplex.total_ids),
            tuple(decoder.generated_tokens),
            decoder.get_cache_length(),
            tuple(unit["length"] for unit in decoder._unit_history),
        )
        native.duplex.total_ids.clear()
        native.duplex.total_hidden.clear()


@pytest.mark.parametrize(("mode", "seed"), [("greedy", 1), ("sampling", 2), ("sampling", 3)])
def test_it_says_the_same_unit_by_unit(pair: tuple[Native, Native], mode: str, seed: int) -> None:
    official, fast = pair
    seen = []
    with (
        official.narrow(high=HIGH, low=LOW),
        fast.narrow(high=HIGH, low=LOW),
        leaning(official),
        leaning(fast),
    ):
        theirs = course(official, seconds=SECONDS, seed=seed, mode=mode)
        ours = list(course(fast, seconds=SECONDS, seed=seed, mode=mode))
        for nth, said in enumerate(theirs):
            assert ours[nth] == said
            seen.append(said)
    assert len(ours) == len(seen)
    assert fast.decoder._early.used > 0
    assert fast.decoder._early.forgotten > 0
    for nth in (0, 2):  # listening, speaking; turns that ended and that did not
        assert {said[nth] for said in seen} == {True, False}
    lengths = [said[-2] for said in seen]
    assert any(later < earlier for earlier, later in itertools.pairwise(lengths))
    for (keys, values), (keys_then, values_then) in zip(
        fast.cache(), official.cache(), strict=True
    ):
        np.testing.assert_allclose(keys, keys_then, rtol=1e-3, atol=2e-3)
        np.testing.assert_allclose(values, values_then, rtol=1e-3, atol=2e-3)


def test_a_listening_second_is_one_pass_and_a_spoken_one_a_pass_a_token(
    pair: tuple[Native, Native],
) -> None:
    from tests.native.harness import picture

    native = pair[1]
    steps = native.decoder._steps
    native.begin()
    with native.watched() as record:
        native.second(0, frame=picture())
        passes = []
        for nth in range(3):
            before = steps.passes
            if nth == 1:
                native.will_speak(18)
            native.second(nth, frame=picture(nth))
            passes.append(steps.passes - before)
    assert passes == [1, 19, 1]
    assert record.feeds[:5] == [1, 66, 10, 1, 1]


def test_what_is_held_back_is_counted_and_computed_before_anything_falls_out(
    pair: tuple[Native, Native],
) -> None:
    native = pair[1]
    decoder = native.decoder
    protected = native.begin()
    some = decoder.embed_tokens([native.word()] * 5)
    with native.narrow(high=protected + 8, low=protected + 5):
        for nth in range(3):
            decoder.register_unit_start()
            decoder.feed(some)
            decoder.register_unit_end(input_type="audio", is_listen=True)
            if nth:
                assert decoder.get_cache_length() == protected + 10
                assert decoder._held == (protected + 10 if nth == 1 else 5)
                assert decoder.enforce_window()
                assert (decoder._held, decoder.get_cache_length()) == (0, protected + 5)
    # The last unit stood behind another one when it was computed: its values say so.
    behind = native.cache()[-1][1][:, -5:]
    native.begin()
    decoder.feed(some)
    assert not np.allclose(behind, native.cache()[-1][1][:, -5:], atol=1e-4)


def test_scores_read_late_are_those_of_their_own_place(pair: tuple[Native, Native]) -> None:
    read = []
    for native in pair:
        native.begin()
        decoder = native.decoder
        fed = [
            decoder.feed(decoder.embed_tokens([native.word(letter)] * 3), return_logits=True)
            for letter in "abc"
        ]
        read.append([logits[0].numpy() for logits, _ in fed])
        assert [tuple(states.shape)[:2] for _, states in fed] == [(1, 3)] * 3
    for theirs, ours in zip(*read, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_a_feed_of_any_length_is_taken(pair: tuple[Native, Native]) -> None:
    caches = []
    for native in pair:
        native.begin()
        decoder = native.decoder
        for count in (700, 1, 255, 2):
            decoder.feed(decoder.embed_tokens([native.word("b")] * count))
        caches.append(native.cache()[-1][0])
    assert caches[0].shape == caches[1].shape
    np.testing.assert_allclose(caches[1], caches[0], rtol=1e-3, atol=2e-3)


def test_a_cache_from_elsewhere_is_not_taken(pair: tuple[Native, Native]) -> None:
    with pytest.raises(ValueError, match="None"):
        pair[1].decoder.cache = object()


def test_an_epoch_after_one_that_was_no_number_is_clean(pair: tuple[Native, Native]) -> None:
    from tests.native.harness import noise

    native = pair[1]
    native.begin()
    bad = noise(0)
    bad[5] = np.nan
    native.prefill(bad)
    with pytest.raises(RuntimeError, match="probability tensor"):
        native.generate()
    native.restore()
    assert float(native.decoder._steps.cache.pairs.abs().sum()) == 0.0
    native.begin()
    with native.watched() as record:
        native.second(1)
    assert np.isfinite(record.logits[0]).all()


def test_a_session_that_is_told_what_comes_says_the_same(pair: tuple[Native, Native]) -> None:
    from tests import units

    fed = [units.unit(nth, frame=units.picture(nth)) for nth in range(5)]
    bad = units.unit(5, pcm=b"")
    said = []
    for native, is_told in ((pair[0], True), (pair[1], False), (pair[1], True)):
        session = native.engine().open(units.context(options=units.Options(seed=7)))
        replies = []
        for nth, unit in enumerate(fed):
            if is_told:
                session.expect((*fed, bad)[nth + 1])
            replies.append(session.step(unit, epoch=1, sequence=nth))
        session.close()
        said.append([(each.text, each.tokens, each.decision) for each in replies])
    assert said[0] == said[1] == said[2]
    ahead = pair[1].loaded.ahead
    assert ahead is not None
    assert ahead.decoded == 4
