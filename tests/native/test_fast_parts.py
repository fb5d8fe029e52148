"""What the fast decoder is made of, each part by itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.native import conftest

torch = pytest.importorskip("torch", reason=conftest.NEEDS_TORCH)
pytest.importorskip("transformers", reason=conftest.NEEDS_TORCH)

from pipeline.engine.minicpm.fast import check as checking  # noqa: E402
from pipeline.engine.minicpm.fast import steps as sizes  # noqa: E402
from pipeline.engine.minicpm.fast.choice import FAST, OFFICIAL, with_decoder  # noqa: E402
from pipeline.engine.minicpm.fast.decoder import fast_decoder  # noqa: E402
from pipeline.engine.minicpm.fast.making import make_fast  # noqa: E402
from pipeline.engine.minicpm.fast.network import Network  # noqa: E402
from pipeline.engine.minicpm.fast.refusal import NotFast  # noqa: E402
from pipeline.engine.minicpm.fast.sampling import Sampler  # noqa: E402
from pipeline.engine.minicpm.fast.scores import Scores  # noqa: E402
from pipeline.engine.minicpm.fast.steps import PlainSteps, SizedSteps  # noqa: E402
from tests.native import harness  # noqa: E402

if TYPE_CHECKING:
    from pipeline.engine.minicpm.loading import Loaded


@pytest.fixture
def loaded() -> Loaded:
    return harness.load_double()


def sized(loaded: Loaded, *, capacity: int = 2_048) -> Any:
    """The steps of a GPU, called instead of captured."""
    network = Network(loaded.model.llm, is_fused=True)  # type: ignore[attr-defined]
    steps = SizedSteps(network, network.new_cache(capacity), is_graphed=False)
    return fast_decoder(loaded.duplex.decoder, steps, None)


def test_padded_passes_over_a_cache_in_parts_say_the_same(loaded: Loaded) -> None:
    official = harness.Native(harness.load_double(), kind="tiny")
    loaded.duplex.decoder = sized(loaded)
    ours = harness.Native(loaded, kind="tiny")
    said = []
    for native in (official, ours):
        native.begin(seed=4)
        with native.narrow(high=900, low=500):
            for nth in range(12):
                native.prefill(harness.noise(nth), harness.picture(nth) if nth % 3 else None)
                native.generate()
        said.append((native.duplex.total_ids, native.decoder.get_cache_length()))
    assert said[0] == said[1]


def test_a_cache_grows_where_a_window_asks_for_more(loaded: Loaded) -> None:
    decoder = sized(loaded, capacity=1_024)
    embeds = decoder.embed_tokens([1, 2, 3] * 500)
    decoder.feed(embeds)
    grown = decoder.cache.key_cache[1]
    assert decoder._steps.cache.capacity == 2_048
    plain = sized(loaded, capacity=4_096)
    plain.feed(embeds)
    torch.testing.assert_close(grown, plain.cache.key_cache[1], rtol=1e-4, atol=1e-4)


def test_scores_that_are_kept_outlive_the_next_pass(loaded: Loaded) -> None:
    decoder = sized(loaded)
    first, _ = decoder.feed(decoder.embed_tokens([1]), return_logits=True)
    then = first.tensor.clone()
    second, _ = decoder.feed(decoder.embed_tokens([2]), return_logits=True)
    assert not torch.equal(second.tensor, then)
    assert torch.equal(first.tensor, then)


def test_every_size_that_a_gpu_captures_is_made_of_whole_parts() -> None:
    assert sizes.WIDTHS[-1] == sizes.TOKENS_MAX
    for width in sizes.WIDTHS:
        assert all(reach % sizes.part_tokens(width, reach) == 0 for reach in sizes.REACHES)


def test_dropped_tokens_leave_keys_where_one_drop_after_another_does(loaded: Loaded) -> None:
    official = loaded.duplex.decoder
    ours = sized(harness.load_double())
    for decoder in (official, ours):
        decoder.feed(decoder.embed_tokens(list(range(60))))
        decoder._system_preserve_length = 7
        for length in (5, 11, 3):
            assert decoder._drop_tokens_from_cache(length)
    assert ours.get_cache_length() == official.get_cache_length() == 41
    for kind in ("key_cache", "value_cache"):
        for mine, theirs in zip(
            getattr(ours.cache, kind), getattr(official.cache, kind), strict=True
        ):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    assert not ours._drop_tokens_from_cache(100)
    assert not ours._drop_tokens_from_cache(0)


def test_scores_stand_in_for_the_tensor_wherever_they_are_read() -> None:
    made = []
    scores = Scores(lambda scores: made.append(1) or torch.arange(6.0)[None])
    assert made == []
    assert scores.shape == (1, 6)
    assert int(torch.argmax(scores)) == 5
    assert float(scores[0, 2]) == 2.0
    assert float(scores.clone().sum()) == 15.0
    assert made == [1]
    with pytest.raises(AttributeError):
        _ = scores.__nothing__  # type: ignore[attr-defined]


# --- sampling


class Official:
    """Draws as the public code does, one word of it after another."""

    def __init__(self, vocabulary: int) -> None:
        self.chunk_eos_id, self.turn_eos_id, self.listen_id = 3, 4, 5
        self.forbidden_token_ids = [7, 8, 3]
        self.generated_tokens: list[int] = []
        self.m = torch.nn.Module()
        self.m.lm_head = torch.nn.Linear(1, vocabulary)

    def decode(
        self,
        logits: Any,
        mode: str = "sampling",
        temperature: float = 0.7,
        top_k: int = 20,
        top_p: float = 0.8,
        listen_top_k: int | None = None,
        listen_prob_scale: float = 1.0,
        text_repetition_penalty: float = 1.05,
        text_repetition_window_size: int = 512,
        length_penalty: float = 1.1,
    ) -> int:
        logits = logits.clone()
        first = _one_of(torch.softmax(logits[0], dim=-1), logits[0], mode)
        if first == self.chunk_eos_id:
            return first
        logits[:, self.forbidden_token_ids] = float("-inf")
        for token in set(self.generated_tokens[-text_repetition_window_size:]):
            logits[0, token] /= text_repetition_penalty
        end = logits[0, self.turn_eos_id]
        logits[0, self.turn_eos_id] = end / length_penalty if end > 0 else end * length_penalty
        if listen_prob_scale != 1.0:
            logits[0, self.listen_id] *= listen_prob_scale
        if mode == "sampling":
            logits = logits / temperature
            logits[logits < torch.topk(logits, top_k)[0][..., -1, None]] = float("-inf")
            ordered, places = torch.sort(logits, descending=True)
            beyond = torch.cumsum(torch.softmax(ordered, dim=-1), dim=-1) > top_p
            beyond[..., 1:] = beyond[..., :-1].clone()
            beyond[..., 0] = False
            logits[0, places[beyond]] = float("-inf")
        token = _one_of(torch.softmax(logits, dim=-1)[0], logits[0], mode)
        self.generated_tokens.append(token)
        return token


def _one_of(shares: Any, scores: Any, mode: str) -> int:
    if mode == "greedy":
        return int(torch.argmax(scores))
    return int(torch.multinomial(shares, num_samples=1))


ASKED = (
    {"mode": "greedy"},
    {"top_k": 100},
    {"top_k": 5, "top_p": 0.3},
    {"text_repetition_penalty": 1.5, "text_repetition_window_size": 4},
    {"text_repetition_penalty": 1.0, "listen_prob_scale": 0.5},
    {"temperature": 1.6, "top_k": 300, "top_p": 0.95},
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: "-".join(asked))
def test_a_draw_is_the_official_one(asked: dict[str, Any], dtype: Any) -> None:
    official = Official(400)
    sampler = Sampler(official, is_graphed=False)
    assert sampler.knows(asked)
    chooser = torch.Generator().manual_seed(3)
    seen = set()
    for nth in range(40):
        scores = (torch.randn((1, 400), generator=chooser) * 2).to(dtype)
        if nth % 8 == 5:
            scores[0, official.chunk_eos_id] += 30
        before = list(official.generated_tokens)
        torch.manual_seed(nth)
        theirs, after = official.decode(scores, **asked), torch.rand(1)
        torch.manual_seed(nth)
        assert sampler.draw(scores, before, **asked) == theirs
        assert torch.equal(torch.rand(1), after)  # as many random numbers were taken
        seen.add(theirs)
    assert official.chunk_eos_id in seen
    assert len(seen) > 20
    assert not seen & {7, 8}


@pytest.mark.parametrize(
    "asked", [{"listen_top_k": 3}, {"mode": "beam"}, {"something_new": 1}], ids=str
)
def test_a_draw_of_another_kind_is_left_to_the_official_code(asked: dict[str, Any]) -> None:
    assert not Sampler(Official(400), is_graphed=False).knows(asked)


def test_scores_that_are_no_numbers_are_refused_as_torch_does() -> None:
    sampler = Sampler(Official(400), is_graphed=False)
    scores = torch.zeros((1, 400))
    scores[0, 9] = float("nan")
    with pytest.raises(RuntimeError, match="probability tensor"):
        sampler.draw(scores, [])


# --- the choice


def test_the_official_decoder_stays_where_it_is_asked_for(loaded: Loaded) -> None:
    official = loaded.duplex.decoder
    made = with_decoder(loaded, OFFICIAL)
    assert made.duplex.decoder is official
    assert made.settings["decoder"] == OFFICIAL


def test_the_fast_decoder_runs_where_it_says_the_same(loaded: Loaded) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    made = with_decoder(loaded, FAST)
    assert made.settings["decoder"] == FAST
    assert made.settings["decoder_distance"] <= checking.EXACT_MAX  # type: ignore[operator]
    assert made.duplex.decoder.get_cache_length() == 0
    assert torch.equal(torch.rand(1), wanted)  # the check left the generator as it was


def test_a_sampler_that_draws_otherwise_stays_out_alone(loaded: Loaded) -> None:
    official = loaded.duplex.decoder
    fast = make_fast(loaded.duplex, is_graphed=False)
    fast.decoder._sampler = Sampler(official, is_graphed=False)
    fast.decoder._sampler._forbidden = torch.arange(250)
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    assert checking.check(fast, is_exact=True).worst <= checking.EXACT_MAX
    assert fast.decoder._sampler is None
    assert torch.equal(torch.rand(1), wanted)
    assert official.generated_tokens == fast.decoder.generated_tokens == []


def _scaled(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded.model.llm.config.rope_scaling = {"type": "linear"}  # type: ignore[attr-defined]


def _windowed(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded.duplex.decoder._window_config.sliding_window_mode = "context"


def _off_by_a_little(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Network.scores
    monkeypatch.setattr(
        Network, "scores", lambda self, states: real(self, states) * (1 + torch.rand(1) / 50)
    )


def _forgetful(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.engine.minicpm.fast.cache import Cache

    real = Cache.drop
    monkeypatch.setattr(Cache, "drop", lambda self, first, tokens: real(self, first - 1, tokens))


def _failing(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, tokens: int) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(PlainSteps, "_run", fail)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_scaled, "scaled"),
        (_windowed, "window"),
        (_off_by_a_little, "spread"),
        (_forgetful, "spread"),
        (_failing, "out of memory"),
    ],
)
def test_the_official_decoder_runs_where_the_fast_one_does_not_say_the_same(
    loaded: Loaded,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spoil: Any,
    why: str,
) -> None:
    official = loaded.duplex.decoder
    spoil(loaded, monkeypatch)
    with caplog.at_level(logging.WARNING):
        made = with_decoder(loaded, FAST)
    assert made.duplex.decoder is official
    assert made.settings["decoder"] == OFFICIAL
    assert why in str(made.settings["decoder_refused"])
    (entry,) = [each for each in caplog.records if getattr(each, "action", "") != ""]
    assert entry.action == "decoder_official"  # type: ignore[attr-defined]
    assert why in entry.reason  # type: ignore[attr-defined]
    monkeypatch.undo()
    loaded.duplex.decoder._window_config.sliding_window_mode = "basic"
    native = harness.Native(made, kind="tiny")
    native.begin()
    with native.watched():
        native.second(0)


def test_a_check_in_a_shorter_format_compares_the_loop_with_itself() -> None:
    near = checking.Distances(fast=0.03, official=0.02, worst=0.5)
    assert near.is_near(is_exact=False)
    assert not near.is_near(is_exact=True)
    far = checking.Distances(fast=0.05, official=0.02, worst=0.5)
    assert not far.is_near(is_exact=False)


def test_a_model_of_another_make_is_refused(loaded: Loaded) -> None:
    class Other(type(loaded.model.llm)):  # type: ignore[misc, name-defined]
        pass

    loaded.model.llm.__class__ = Other  # type: ignore[attr-defined]
    with pytest.raises(NotFast, match="Other"):
        Network(loaded.model.llm)  # type: ignore[attr-defined]


def test_joined_matrices_are_the_models_own_memory(loaded: Loaded) -> None:
    llm = loaded.model.llm  # type: ignore[attr-defined]
    before = [weight.clone() for weight in llm.parameters()]
    network = Network(llm)
    for was, now in zip(before, llm.parameters(), strict=True):
        assert torch.equal(was, now)
    attention = llm.model.layers[0].self_attn
    joined = network._layers[0].queries_keys_values
    assert attention.k_proj.weight.untyped_storage().data_ptr() == joined.data_ptr()
    assert np.prod(joined.shape) == sum(
        weight.numel()
        for weight in (
            each.weight for each in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
    )
