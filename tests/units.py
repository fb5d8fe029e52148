"""Units and sessions by hand, for tests that need no file."""

from __future__ import annotations

import hashlib
import io
import math
from decimal import Decimal
from typing import Any

import numpy as np
from PIL import Image

from pipeline.records import Frame, Holding, Options, SessionContext, Unit

HOLDINGS = (
    Holding(
        id="H1",
        name="Alpha Corp",
        ticker="ALP",
        exchange="NYSE",
        currency="USD",
        asset_type="equity",
        weight_pct=Decimal(60),
    ),
    Holding(
        id="H2",
        name="Beta AG",
        ticker="BET",
        exchange="XETR",
        currency="EUR",
        asset_type="equity",
        weight_pct=Decimal(40),
    ),
)


def context(**changes: Any) -> SessionContext:
    """A session over two holdings."""
    given: dict[str, Any] = {
        "epoch": 1,
        "prompt": "watch",
        "holdings": HOLDINGS,
        "options": Options(),
    }
    return SessionContext(**(given | changes))


def tone(level: float = 0.25, hertz: float = 440.0) -> bytes:
    """One second of a sine wave."""
    at = np.arange(16_000) / 16_000
    return (level * np.sin(2 * math.pi * hertz * at)).astype("<f4").tobytes()


SILENCE = bytes(64_000)


def picture(grey: int, *, source_ms: int = 0, width_px: int = 64, height_px: int = 36) -> Frame:
    """A flat grey frame."""
    buffer = io.BytesIO()
    Image.new("RGB", (width_px, height_px), (grey, grey, grey)).save(buffer, "JPEG", quality=90)
    jpeg = buffer.getvalue()
    return Frame(
        source_ms=source_ms,
        width_px=width_px,
        height_px=height_px,
        jpeg=jpeg,
        sha256=hashlib.sha256(jpeg).hexdigest(),
    )


def unit(second: int = 0, **changes: Any) -> Unit:
    """A unit of real sound with a grey frame; name what differs."""
    given: dict[str, Any] = {
        "second": second,
        "start_ms": second * 1000,
        "end_ms": (second + 1) * 1000,
        "pcm": tone(),
        "real_samples": 16_000,
        "filled_samples": 0,
        "synthetic_samples": 0,
        "frame": picture(100, source_ms=second * 1000),
        "is_frame_held": False,
        "decode_ms": 1.0,
    }
    return Unit(**(given | changes))
