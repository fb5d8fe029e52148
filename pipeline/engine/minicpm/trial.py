"""Loads the model for a run by hand: on the GPU as a worker does, or on the CPU without one."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass

from pipeline.engine.minicpm.engine import MinicpmoEngine, make_engine
from pipeline.engine.minicpm.loading import CPU, load
from pipeline.engine.minicpm.lock import read_lock
from pipeline.engine.minicpm.witness import Construction, Witness, watched_construction
from pipeline.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """An engine and whoever watches its model."""

    engine: MinicpmoEngine
    witness: Witness
    construction: Construction


def load_for_trial(settings: Settings) -> Trial:
    """Raises what `make_engine` does.

    A host without NVIDIA's tools, for which no GPU was named, computes on the CPU in float32, and
    the log says so.
    """
    with watched_construction() as construction:
        if settings.gpu is None and shutil.which("nvidia-smi") is None:
            log.warning(
                "No GPU driver is here: the model runs on the CPU in float32, which says nothing"
                " of a GPU.",
                extra={"action": "trial_on_cpu"},
            )
            engine = MinicpmoEngine(
                load(
                    settings.model_folder,
                    read_lock(),
                    device=CPU,
                    allow_unverified=settings.model_allow_unverified,
                )
            )
        else:
            engine = make_engine(settings)
    return Trial(engine=engine, witness=Witness(engine._loaded), construction=construction)
