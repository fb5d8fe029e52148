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
    pytest.mark.parametrize("native", ["snapshot"], indirect=True),
]


def test_every_part_of_the_model_is_on_the_gpu_in_bfloat16(native: Native) -> None:
    settings = native.engine().describe().settings
    for name in ("llm", "vpm", "apm", "resampler", "audio_projection_layer"):
        assert str(settings[f"{name}_device"]).startswith("cuda")
        assert settings[f"{name}_dtype"] == "torch.bfloat16"
    assert str(settings["device_name"])


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
