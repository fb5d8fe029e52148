"""Small recordings that differ."""

from __future__ import annotations

import io
import math
import struct
import wave


def sound(hz: int, seconds: float = 1.0) -> bytes:
    """A recording of a tone."""
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        times = (n / 8000 for n in range(int(8000 * seconds)))
        levels = (int(9000 * math.sin(2 * math.pi * hz * at)) for at in times)
        file.writeframes(b"".join(struct.pack("<h", level) for level in levels))
    return written.getvalue()
