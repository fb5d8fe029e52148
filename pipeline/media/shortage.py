"""Whether memory is why a picture could not be decoded."""

from __future__ import annotations

import mmap
from typing import Any

BITS_PER_PIXEL = 12
"""Of 8-bit 4:2:0, where a decoder has not said what its pictures are."""


def is_memory_short(decoder: Any) -> bool:
    """Whether this process may not have memory for one more picture of this decoder's size.

    Decoders on several threads say that data is invalid where they were refused memory: the thread
    that was refused has no caller to tell.
    """
    bits = BITS_PER_PIXEL if decoder.format is None else decoder.format.padded_bits_per_pixel
    size = decoder.width * decoder.height * bits // 8
    if not size:
        return False
    try:
        mmap.mmap(-1, size).close()
    except (OSError, MemoryError):
        return True
    return False
