"""The product's own engine over a native-shaped double, for real worker processes.

The registry knows it only where OMNAI_TEST_ENGINE names it.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.engine.minicpm.engine import MinicpmoEngine
from pipeline.engine.minicpm.loading import ModelNotLoaded
from pipeline.engine.registry import TEST_ENGINE
from pipeline.records import EngineInfo
from tests.pipeline.engine.minicpm import doubles
from tests.pipeline.engine.minicpm.doubles import LOCK, ModelDouble, Said
from tests.worker import staged

NAME = "tests.worker.native_shaped:make"
REFUSING = "tests.worker.native_shaped:refuse"

SETTINGS = {
    "gpu": "GPU-11111111-aaaa-bbbb-cccc-000000000001",
    "device_name": "a double",
    "llm_device": "cuda:0",
    "llm_dtype": "torch.bfloat16",
    "llm_attention": "Qwen3Attention",
    "llm_attention_form": "sdpa",
    "basic_window_high_tokens": LOCK.decode.basic_window_high_tokens,
    "basic_window_low_tokens": LOCK.decode.basic_window_low_tokens,
    "generate_audio": LOCK.decode.generate_audio,
    "listen_top_k": LOCK.decode.listen_top_k,
}


class _Engine(MinicpmoEngine):
    def describe(self) -> EngineInfo:
        return replace(super().describe(), name=TEST_ENGINE)


def make() -> MinicpmoEngine:
    staged.write("load")
    model = ModelDouble(script={2: Said("It shows a chart.", ends=True)})
    return _Engine(replace(doubles.loaded(model), device="cuda:0", settings=SETTINGS))


def refuse() -> MinicpmoEngine:
    raise ModelNotLoaded("torch finds no CUDA device; a GPU and its driver would be accepted")
