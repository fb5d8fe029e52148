"""Which decoder a loaded model runs with, and why."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from pipeline.engine.minicpm.fast.refusal import NotFast
from pipeline.engine.minicpm.loading import CPU, Loaded, Setting

OFFICIAL = "official"
FAST = "fast"

_REFUSALS = (NotFast, RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError)
"""What a model of another make, or a device without room, answers with."""

log = logging.getLogger(__name__)


def with_decoder(loaded: Loaded, wanted: str) -> Loaded:
    """The same model with the decoder that was asked for, and with what was found in its settings.

    `fast` is taken only where it was just shown to say the same; else the model stays as it was
    loaded and the log says why.
    """
    if wanted == OFFICIAL:
        return _told(loaded, decoder=OFFICIAL)
    # Late: they load torch, which a model on this machine has loaded already.
    from pipeline.engine.minicpm.fast.check import check
    from pipeline.engine.minicpm.fast.making import Fast, make_fast
    from pipeline.engine.minicpm.fast.warming import warm

    began = time.monotonic()
    fast: Fast | None = None
    try:
        fast = make_fast(loaded.duplex, is_graphed=loaded.device != CPU)
        distances = check(fast, is_exact=loaded.device == CPU)
        fast.put_in()
        if loaded.device != CPU:
            warm(loaded)
    except _REFUSALS as error:
        if fast is not None:
            fast.take_out()
        reason = str(error) or type(error).__name__
        log.warning(
            "The official decoder runs: the fast one was not shown to say the same here.",
            extra={"action": "decoder_official", "reason": reason},
        )
        loaded.check_device()
        return _told(loaded, decoder=OFFICIAL, decoder_refused=reason)
    seconds = round(time.monotonic() - began, 1)
    log.info(
        "The fast decoder runs: it was shown to say the same here.",
        extra={"action": "decoder_fast", "seconds": seconds},
    )
    return _told(
        replace(loaded, ahead=fast.ahead),
        decoder=FAST,
        decoder_distance=round(distances.fast, 5),
        decoder_distance_official=round(distances.official, 5),
        decoder_sampling=OFFICIAL if fast.decoder._sampler is None else FAST,
    )


def _told(loaded: Loaded, **found: Setting) -> Loaded:
    return replace(loaded, settings={**loaded.settings, **found})
