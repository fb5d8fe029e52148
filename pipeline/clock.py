"""Source time: exact positions in a recording, as fractions of a second and 16 kHz samples."""

from __future__ import annotations

from fractions import Fraction

SAMPLE_RATE_HZ = 16_000
"""The rate the model hears (docs: model interface, "Audio transport")."""

SAMPLES_PER_UNIT = SAMPLE_RATE_HZ
"""A unit is one source second."""


def milliseconds(seconds: Fraction) -> int:
    """Round a source time once, to the nearest millisecond (halves upward)."""
    return (seconds * 1000 + Fraction(1, 2)).__floor__()


def sample_index(seconds: Fraction) -> int:
    """The 16 kHz sample nearest to a source time (halves upward)."""
    return (seconds * SAMPLE_RATE_HZ + Fraction(1, 2)).__floor__()


def samples_to_milliseconds(samples: int) -> int:
    """Round a 16 kHz sample position to the nearest millisecond (halves upward)."""
    return (samples * 1000 + SAMPLE_RATE_HZ // 2) // SAMPLE_RATE_HZ


def clock_text(milliseconds: int, *, with_tenths: bool = False) -> str:
    """`1:02:03` or `2:03`; source times as people read them."""
    tenths, seconds = milliseconds // 100, milliseconds // 1000
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    text = f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
    return f"{text}.{tenths % 10}" if with_tenths else text
