"""A first run over the native-shaped double, as `omnai model smoke` would make it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeline.engine.minicpm import loading
from pipeline.engine.minicpm.engine import MinicpmoEngine
from pipeline.engine.minicpm.trial import Trial
from pipeline.engine.minicpm.witness import Witness, watched_construction
from tests.pipeline.engine.minicpm import doubles
from tests.pipeline.engine.minicpm.doubles import LOCK, ModelDouble, Said

SCRIPT = {
    2: Said("The picture changed."),
    3: Said("It shows a chart.", ends=True),
    6: Said("A tone is heard.", ends=True),
}
"""Two turns, the first of which takes two units; the rest listens."""


def trial(model: ModelDouble | None = None, **settings: Any) -> Trial:
    """Loaded as the product loads, by its own constructor."""
    model = model or ModelDouble(script=dict(SCRIPT))
    with watched_construction() as construction:
        duplex = loading.text_only_duplex(model, **loading.duplex_settings(LOCK.decode))
    loaded = replace(doubles.loaded(model), duplex=duplex)
    found = {**loaded.settings, "verified_files": 11, "unverified_files": None, **settings}
    loaded = replace(loaded, settings=found)
    return Trial(engine=MinicpmoEngine(loaded), witness=Witness(loaded), construction=construction)
