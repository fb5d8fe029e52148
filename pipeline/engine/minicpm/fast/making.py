"""Makes the fast form of a loaded duplex, which can be put in and taken out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.engine.minicpm.fast.ahead import Ahead
from pipeline.engine.minicpm.fast.decoder import fast_decoder
from pipeline.engine.minicpm.fast.hearing import Hearing
from pipeline.engine.minicpm.fast.looking import Looking
from pipeline.engine.minicpm.fast.network import Network
from pipeline.engine.minicpm.fast.pixels import Pixels
from pipeline.engine.minicpm.fast.sampling import Sampler
from pipeline.engine.minicpm.fast.seeing import Seeing
from pipeline.engine.minicpm.fast.steps import PlainSteps, SizedSteps, Steps

PICTURES = "process_image"
SPECTRUM = "process_audio_streaming"
SEEN = "get_vision_embedding"
HEARD = "get_audio_embedding_streaming"

SPARE_TOKENS = 1_024
"""Beyond the window's high mark: a unit of the largest frame, and the padding of a pass."""


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """A call that goes elsewhere while the fast form is in."""

    owner: Any
    name: str
    call: Any


@dataclass(frozen=True, kw_only=True)
class Fast:
    """Both decoders of one duplex. Between two sessions either may be used."""

    duplex: Any
    official: Any
    decoder: Any
    steps: Steps
    stand_ins: tuple[StandIn, ...]
    ahead: Ahead

    def put_in(self) -> None:
        self.official.reset()
        self.duplex.decoder = self.decoder
        for each in self.stand_ins:
            setattr(each.owner, each.name, each.call)

    def take_out(self) -> None:
        self.decoder.reset()
        self.duplex.decoder = self.official
        for each in self.stand_ins:
            vars(each.owner).pop(each.name, None)


def make_fast(duplex: Any, *, is_graphed: bool) -> Fast:
    """Raises NotFast. On a GPU every size is captured now: a few seconds."""
    official, model = duplex.decoder, duplex.model
    network = Network(model.llm)
    cache = network.new_cache(official._window_config.basic_window_high_tokens + SPARE_TOKENS)
    steps: Steps = PlainSteps(network, cache)
    sampler = Sampler(official, is_graphed=is_graphed)
    processor, encoders = getattr(duplex, "processor", None), []
    pixels = Pixels(processor, duplex.device) if _has(processor, PICTURES) else None
    seeing = None
    if is_graphed:
        sized = SizedSteps(network, cache, is_graphed=True)
        sized.warm()
        steps = sized
        if _has(model, SEEN):
            seeing = Seeing(model, is_graphed=True)
            encoders.append(StandIn(owner=model, name=SEEN, call=seeing))
        if _has(model, HEARD):
            hearing = Hearing(model, is_graphed=True)
            encoders.append(StandIn(owner=model, name=HEARD, call=hearing))
    ahead = Ahead(duplex, None if pixels is None else Looking(pixels, seeing))
    if pixels is not None:
        encoders.append(StandIn(owner=processor, name=PICTURES, call=pixels))
    if _has(processor, SPECTRUM):
        encoders.append(StandIn(owner=processor, name=SPECTRUM, call=ahead.process_audio_streaming))
    return Fast(
        duplex=duplex,
        official=official,
        decoder=fast_decoder(official, steps, sampler),
        steps=steps,
        stand_ins=tuple(encoders),
        ahead=ahead,
    )


def _has(owner: Any, name: str) -> bool:
    """What a model has not is left out."""
    return callable(getattr(owner, name, None))
