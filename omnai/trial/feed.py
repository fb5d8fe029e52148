"""Units for a run by hand: a recording's first ones, or made-up ones."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Generator, Iterator
from itertools import chain, islice, takewhile
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.clock import SAMPLE_RATE_HZ, SAMPLES_PER_UNIT
from pipeline.records import Frame, Options, Unit
from pipeline.settings import Settings

PICTURE_S = 5
"""How long a made-up picture stands, as a slide does."""

PICTURE_PX = (448, 252)
"""What a 16:9 recording is scaled to."""

TONE_LEVEL = 0.1


def first_seconds(path: Path, settings: Settings, *, seconds: int) -> Generator[Unit, None, None]:
    """The units of the first source seconds; ask for the first one before anything slow.

    Raises RecordingRefused, MediaStopped. Close it, so that the media process ends.
    """
    return _until(path, settings, lambda units: takewhile(lambda u: u.second < seconds, units))


def first_units(path: Path, settings: Settings, *, count: int) -> Generator[Unit, None, None]:
    """As `first_seconds`, by number: gaps are no units."""
    return _until(path, settings, lambda units: islice(units, count))


def made_up(count: int) -> Iterator[Unit]:
    """A tone that changes every second, and a picture that stands for some."""
    frame = None
    for second in range(count):
        if frame is None or second % PICTURE_S == 0:
            frame = _picture(second)
        yield Unit(
            second=second,
            start_ms=second * 1000,
            end_ms=(second + 1) * 1000,
            pcm=_tone(220.0 * 2 ** (second % 12 / 12)),
            real_samples=SAMPLES_PER_UNIT,
            filled_samples=0,
            synthetic_samples=0,
            frame=frame,
            is_frame_held=second % PICTURE_S != 0,
            decode_ms=0.0,
        )


def peeked(units: Iterator[Unit]) -> Iterator[Unit]:
    """The same, with the first one already fetched; what refuses the recording is raised here."""
    first = list(islice(units, 1))
    return chain(first, units)


def _until(
    path: Path, settings: Settings, cut: Callable[[Iterator[Unit]], Iterator[Unit]]
) -> Generator[Unit, None, None]:
    from pipeline.media_child import MediaChild

    with MediaChild(
        path, limits=settings.media, longest_edge_px=Options.frame_longest_edge_px
    ) as media:
        yield from cut(event for event in media if isinstance(event, Unit))


def _tone(hertz: float) -> bytes:
    at = np.arange(SAMPLES_PER_UNIT) / SAMPLE_RATE_HZ
    return bytes((TONE_LEVEL * np.sin(2 * math.pi * hertz * at)).astype("<f4").tobytes())


def _picture(second: int) -> Frame:
    """Coloured tiles, other ones at every call."""
    tiles = np.random.default_rng(second).integers(0, 256, (9, 16, 3), np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(tiles).resize(PICTURE_PX, Image.Resampling.NEAREST).save(encoded, "JPEG")
    jpeg = encoded.getvalue()
    return Frame(
        source_ms=second * 1000,
        width_px=PICTURE_PX[0],
        height_px=PICTURE_PX[1],
        jpeg=jpeg,
        sha256=hashlib.sha256(jpeg).hexdigest(),
    )
