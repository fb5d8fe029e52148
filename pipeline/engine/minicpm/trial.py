"""Loads the model for a run by hand: on the GPU as a worker does, or on the CPU without one."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.engine.minicpm.engine import MinicpmoEngine, make_engine
from pipeline.engine.minicpm.fast.choice import OFFICIAL, with_decoder
from pipeline.engine.minicpm.loading import CPU, load
from pipeline.engine.minicpm.lock import read_lock
from pipeline.engine.minicpm.witness import Construction, Witness, watched_construction
from pipeline.errors import EngineError
from pipeline.records import Unit
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.engine.minicpm.fast.comparison import Comparison

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
            loaded = load(
                settings.model_folder,
                read_lock(),
                device=CPU,
                allow_unverified=settings.model_allow_unverified,
            )
            engine = MinicpmoEngine(with_decoder(loaded, settings.decoder))
        else:
            engine = make_engine(settings)
    return Trial(engine=engine, witness=Witness(engine._loaded), construction=construction)


class NotCompared(EngineError):
    """The two decoders cannot be compared on this machine."""

    code = "decoders_not_compared"


def compare_decoders(
    settings: Settings, units: Sequence[Unit], *, count: int, say: Callable[[str], None]
) -> Comparison:
    """Load the model as for a trial and time both its decoders; `say` hears of each figure.

    Raises NotCompared where the fast one was not shown to say the same, and what `make_engine`
    does.
    """
    # Late: this loads torch.
    from pipeline.engine.minicpm.fast.comparison import compare
    from pipeline.engine.minicpm.fast.refusal import NotFast

    loaded = load_for_trial(replace(settings, decoder=OFFICIAL)).engine._loaded
    try:
        return compare(loaded, units, count=count, say=say)
    except NotFast as error:
        raise NotCompared(f"the fast decoder stays out: {error}") from error
