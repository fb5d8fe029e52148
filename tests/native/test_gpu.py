"""What only a GPU can show; run with `-m gpu` where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import units

if TYPE_CHECKING:
    from tests.native.harness import Native

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(3600),
]

official = pytest.mark.parametrize("native", ["snapshot"], indirect=True)
both = pytest.mark.parametrize("native", ["snapshot", "snapshot-fast"], indirect=True)

NEAR_TIE = 0.25
"""As a share of the scores' spread: nearer than this, rounding may choose another token."""

NEARER = 1.1
"""How many times as far from float32 as the official loop, fed singly or in batches, the fast
decoder may be: they round in different places."""


@official
def test_every_part_of_the_model_is_on_the_gpu_in_bfloat16(native: Native) -> None:
    settings = native.engine().describe().settings
    for name in ("llm", "vpm", "apm", "resampler", "audio_projection_layer"):
        assert str(settings[f"{name}_device"]).startswith("cuda")
        assert settings[f"{name}_dtype"] == "torch.bfloat16"
    assert str(settings["device_name"])


@both
def test_gpu_memory_stays_flat(native: Native) -> None:
    import torch

    from tests.native.harness import remembered_bytes

    session, held = native.engine().open(units.context()), []
    with native.watched() as record, native.narrow(high=1_200, low=600):
        for nth in range(120):
            if nth % 10 == 0:
                native.will_speak(16, ends_turn=True)
            session.step(units.unit(nth), epoch=1, sequence=nth)
            record.logits.clear()
            if nth % 30 == 29:
                held.append(torch.cuda.memory_allocated() - remembered_bytes(native))
    session.close()
    assert max(held[2:]) - max(held[:2]) < 32_000_000


@official
def test_other_tokens_are_near_ties_and_float32_is_no_farther(native: Native) -> None:
    from omnai.trial.feed import made_up
    from pipeline.engine.minicpm.fast.comparison import compare_reads
    from pipeline.engine.minicpm.fast.making import make_fast

    fast = make_fast(native.loaded.duplex, is_graphed=True)
    fast.put_in()
    try:
        agreed = compare_reads(native.loaded, fast, list(made_up(12)), count=12)
    finally:
        fast.take_out()
    for tie in agreed.fast.differ:
        assert tie.gap <= NEAR_TIE * agreed.spread, tie
    assert agreed.exact is not None
    farthest = max(agreed.exact.official.distance, agreed.exact.batched.distance)
    assert agreed.exact.fast.distance <= NEARER * farthest
