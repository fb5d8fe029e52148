"""Seconds of nothing, so that an epoch's first half minute captures nothing any more."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from PIL import Image

from pipeline.clock import SAMPLES_PER_UNIT
from pipeline.engine.minicpm.context import prepare_text_context
from pipeline.engine.minicpm.loading import Loaded

SECONDS = 34
"""The audio encoder forgets after thirty seconds; some more show how it goes on."""

PICTURE_PX = (448, 252)
"""What a 16:9 recording is scaled to."""

CAP = 4
"""Draws of a second: one that speaks, and the penalty for what was just said."""


def warm(loaded: Loaded) -> None:
    """Let the model listen to silence, as in an epoch, and forget it."""
    duplex = loaded.duplex
    silence = np.zeros(SAMPLES_PER_UNIT, np.float32)
    picture = Image.new("RGB", PICTURE_PX)
    try:
        loaded.model.reset_session()
        prepare_text_context(duplex, "", threading.Event())
        for _ in range(SECONDS):
            _second(loaded, silence, picture)
    finally:
        loaded.model.reset_session()
        duplex._reset_streaming_state()
        duplex.decoder.reset()


def _second(loaded: Loaded, samples: Any, picture: Image.Image) -> None:
    loaded.duplex.streaming_prefill(
        audio_waveform=samples,
        frame_list=[picture],
        max_slice_nums=1,
        batch_vision_feed=loaded.decode.batch_vision_feed,
    )
    loaded.duplex.streaming_generate(
        max_new_speak_tokens_per_chunk=CAP, **loaded.decode.generate_arguments()
    )
