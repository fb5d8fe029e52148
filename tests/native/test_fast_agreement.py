"""Decoders that are fed the same tokens are compared at every read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnai.trial.feed import made_up
from tests.native import conftest

torch = pytest.importorskip("torch", reason=conftest.NEEDS_TORCH)
pytest.importorskip("transformers", reason=conftest.NEEDS_TORCH)

from pipeline.engine.minicpm.fast import comparison as comparing  # noqa: E402
from pipeline.engine.minicpm.fast.agreement import Agreement, _against, agree  # noqa: E402
from pipeline.engine.minicpm.fast.calls import Fed, Noted, replayed  # noqa: E402
from pipeline.engine.minicpm.fast.comparison import compare_reads  # noqa: E402
from pipeline.engine.minicpm.fast.making import Fast, make_fast  # noqa: E402
from pipeline.engine.minicpm.loading import Loaded  # noqa: E402
from tests.native import harness  # noqa: E402
from tests.native.decoder import Decoder  # noqa: E402

UNITS = 10
READS = 5 * 1 + 5 * 19
"""Of a second that listens, and of one that speaks until its cap."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Loaded, Fast]:
    monkeypatch.setattr(comparing, "CONTEXT", "Say in one sentence what is shown or said. ")
    loaded = harness.load_double()
    fast = make_fast(loaded.duplex, is_graphed=False)
    fast.put_in()
    return loaded, fast


def measured(made: tuple[Loaded, Fast]) -> Agreement:
    loaded, fast = made
    return compare_reads(loaded, fast, list(made_up(3)), count=UNITS)


def test_in_float32_every_read_says_the_same_token(
    made: tuple[Loaded, Fast], monkeypatch: pytest.MonkeyPatch
) -> None:
    fell: list[bool] = []
    enforce = Decoder.enforce_window
    monkeypatch.setattr(Decoder, "enforce_window", lambda self: fell.append(enforce(self)))
    agreed = measured(made)
    assert agreed.reads == READS
    assert (agreed.fast.differ, agreed.batched.differ) == ((), ())
    assert agreed.fast.worst < 1e-4
    assert fell.count(True) == 5 * 1  # as it was recorded, and each time it was asked again
    assert agreed.exact is not None
    for each in (agreed.exact.official, agreed.exact.batched, agreed.exact.fast):
        assert (each.differ, each.worst < 1e-4) == ((), True)
    for decoder in (made[1].official, made[1].decoder):
        assert decoder.get_cache_length() == 0
    assert made[0].duplex.decoder is made[1].decoder
    assert "feed" not in vars(made[1].decoder)


def test_another_network_is_seen(made: tuple[Loaded, Fast]) -> None:
    layers = made[1].steps.network._layers
    layers[0] = replace(layers[0], down=layers[0].down * 2)
    agreed = measured(made)
    assert agreed.fast.distance > 100 * agreed.batched.distance
    assert len(agreed.fast.differ) > 0


def test_in_a_shorter_format_both_are_measured_against_float32(made: tuple[Loaded, Fast]) -> None:
    loaded, fast = made
    calls = comparing._Course(
        loaded, comparing.FAST, list(made_up(3)), lambda: 0, lambda text: None, fast.ahead
    ).record(4)
    fast.take_out()
    loaded.model.llm.to(torch.bfloat16)  # type: ignore[attr-defined]
    agreed = agree(make_fast(loaded.duplex, is_graphed=False), calls)
    assert agreed.exact is not None
    for each in (agreed.exact.official, agreed.exact.batched, agreed.exact.fast):
        assert 1e-3 < each.distance < 0.1
    for tie in agreed.exact.fast.differ:
        assert tie.gap < 0.1 * agreed.spread


def test_margins_can_be_checked_by_hand() -> None:
    theirs = torch.tensor([[1.0, 3.0, 2.75], [4.0, 0.0, 1.0]])
    ours = torch.tensor([[1.0, 2.5, 3.0], [4.0, 0.0, 1.5]])
    found = _against(ours, theirs, 0.5)
    (tie,) = found.differ
    assert (tie.read, tie.token, tie.other) == (0, 1, 2)
    assert (tie.margin, tie.gap, tie.other_margin) == (0.25, 0.25, 0.5)
    # Of the squares 0.25, 0.0625 and 0.25 over six places.
    assert found.distance == pytest.approx((0.5625 / 6) ** 0.5 / 0.5)
    assert found.worst == 1.0


class Counting:
    """A decoder that scores how often and how much it was fed."""

    def __init__(self) -> None:
        self.m = torch.nn.Linear(1, 1)
        self.fed: list[int] = []
        self.ends: list[int] = []

    def reset(self) -> None:
        self.fed = []

    def feed(self, embeds: torch.Tensor, return_logits: bool = False) -> object:
        self.fed.append(len(embeds))
        return (torch.tensor([[len(self.fed), sum(self.fed)]]), None) if return_logits else None

    def register_unit_end(self, *, input_type: str) -> None:
        self.ends.append(sum(self.fed))


def test_batches_end_at_what_is_read_and_at_the_units_end() -> None:
    def fed(tokens: int, *, is_read: bool = False) -> Fed:
        return Fed(embeds=torch.zeros(tokens, 1), is_read=is_read)

    end = Noted(name="register_unit_end", named={"input_type": "omni"})
    calls = [
        fed(1),
        fed(66),
        fed(10, is_read=True),
        fed(1),
        fed(1),
        end,
        fed(1),
        fed(9, is_read=True),
    ]
    decoder = Counting()
    assert replayed(decoder, calls).tolist() == [[3, 77], [7, 89]]
    assert replayed(decoder, calls, is_batched=True).tolist() == [[1, 77], [3, 89]]
    assert decoder.ends == [79, 79]
