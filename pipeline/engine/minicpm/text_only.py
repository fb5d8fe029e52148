"""Makes the duplex form of a model without its speech renderer."""

from __future__ import annotations

from typing import Any, cast

from pipeline.engine.minicpm.native import Duplex

INIT_TTS = "init_tts"


def text_only_duplex(model: Any, **settings: Any) -> Duplex:
    """`model.as_duplex(**settings)` with this instance's `init_tts` replaced for the one call.

    The constructor renders speech whatever it is asked for, and a model loaded without the speech
    module has nothing to render with. The method is restored whether or not the call succeeds.
    """
    own = vars(model)
    was_own, before = INIT_TTS in own, own.get(INIT_TTS)
    # A model written in torch intercepts plain attributes; a function is none of its parameters.
    setattr(model, INIT_TTS, _render_nothing)
    try:
        return cast(Duplex, model.as_duplex(**settings))
    finally:
        if was_own:
            setattr(model, INIT_TTS, before)
        else:
            delattr(model, INIT_TTS)


def _render_nothing(*_: object, **__: object) -> None:
    """Takes whatever the constructor passes."""
