"""Holds the units of a clip against its construction and against FFmpeg's own decode."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor

import numpy as np

from tests.clips import SAMPLES, TONE, grey, rgb
from tests.pipeline.media.truth import Truth
from tests.pipeline.media.watched import Watched, pixels, samples

EDGE_S = Fraction(1, 1000)
"""What rounding may carry a packet into a second."""

HOLES_ROUNDED = 32
"""Each stretch of real samples ends at a whole sample of 16 kHz."""


def ideal_sweep(second: int, rate_hz: int) -> SAMPLES:
    """The half second of sound that belongs to a source second: 400 + 250·k Hz, 200 Hz upward.

    One shift alone fits a sweep; a steady tone fits itself again after each whole wave.
    """
    t = np.arange(rate_hz // 2) / rate_hz
    wave = TONE * np.sin(2 * np.pi * ((400 + 250 * second) * t + 200 * t**2))
    return wave.astype(np.float32)


def tone_place(line: SAMPLES, second: int, rate_hz: int) -> tuple[float, float]:
    """Where the second's tone begins in `line`, in seconds, and how much of it is there (to 1)."""
    ideal = ideal_sweep(second, rate_hz)
    size = 1 << (line.size + ideal.size).bit_length()
    crossed = np.fft.irfft(np.fft.rfft(line, size) * np.conj(np.fft.rfft(ideal, size)), size)
    crossed = np.concatenate([crossed[-ideal.size :], crossed[: line.size]])
    at = int(crossed.argmax())
    share = float(crossed[at] / np.square(ideal).sum())
    return (at - ideal.size) / rate_hz, share


def timeline(watched: Watched) -> SAMPLES:
    last = watched.units[-1].second
    line = np.zeros((last + 1) * 16_000, np.float32)
    for unit in watched.units:
        line[unit.second * 16_000 :][:16_000] = samples(unit)
    return line


def disagreements(
    watched: Watched, truth: Truth, *, tones: int, exact_s: float = 0.001, frame_s: float = 0
) -> list[str]:
    """What differs between the units and the truth; empty where nothing does.

    Tones may lie `exact_s` off, pictures `frame_s`.
    """
    found = [*_seconds(watched, truth), *_counts(watched, truth)]
    found += heard_elsewhere(watched, truth, tones=tones, exact_s=exact_s)
    found += _pictures(watched, truth, frame_s)
    return found


def _seconds(watched: Watched, truth: Truth) -> list[str]:
    expected: list[int] = []
    for start, end in truth.content:
        first = int(start)
        is_entered = end - int(end) > EDGE_S or end in _picture_times(truth)
        last = int(end) if is_entered else int(end) - 1
        expected += [s for s in range(first, last + 1) if not expected or s > expected[-1]]
    if truth.content and truth.content[0][0] < 30:
        expected = [*range(expected[0]), *expected]
    given = watched.seconds
    # Where a stretch ends on the edge of a second, rounding decides; and the last packet's padding
    # differs from build to build.
    unsure = {round(end) for _, end in truth.content if abs(end - round(end)) <= EDGE_S}
    if set(given) ^ set(expected) <= {*unsure, max(*given, *expected)}:
        return []
    return [f"units {_ranges(given)}, expected {_ranges(expected)}"]


def _picture_times(truth: Truth) -> set[Fraction]:
    return {time - truth.origin for time in truth.pictures}


def _counts(watched: Watched, truth: Truth) -> list[str]:
    expected = sum(heard.count for heard in truth.sounds) * 16_000 / truth.rate_hz
    packet = max((heard.count for heard in truth.sounds), default=0) * 16_000 / truth.rate_hz
    real = watched.end.real_samples
    # Two builds of FFmpeg differ by up to one packet of padding at the end.
    if abs(real - expected) <= packet + HOLES_ROUNDED:
        return []
    return [f"{real} real samples, {expected:.0f} decoded by FFmpeg"]


def heard_elsewhere(watched: Watched, truth: Truth, *, tones: int, exact_s: float) -> list[str]:
    """Tones that FFmpeg decodes whole and that the units have at another time, or in part."""
    if not truth.sounds:
        return [] if watched.end.real_samples == 0 else ["sound where there is none"]
    ours, theirs = timeline(watched), truth.placed()
    found = []
    for second in range(tones):
        expected, share = tone_place(theirs, second, truth.rate_hz)
        if not 0.93 <= share <= 1.1:  # not whole, or the loud noise of a packet that is damaged
            continue
        given, given_share = tone_place(ours, second, 16_000)
        if abs(given - expected) > exact_s + 1 / truth.rate_hz:
            found.append(f"tone {second} at {given:.4f} s, expected {expected:.4f} s")
        elif abs(given_share - share) > 0.1:
            found.append(f"tone {second} is heard to {given_share:.2f}, expected {share:.2f}")
    return found


def _pictures(watched: Watched, truth: Truth, frame_s: float) -> list[str]:
    firsts: dict[int, Fraction] = {}
    for time in sorted(_picture_times(truth)):
        firsts.setdefault(int(time), time)
    own = watched.own_frames
    found = []
    if sorted(own) != sorted(firsts):
        found.append(f"pictures in {_ranges(sorted(own))}, expected {_ranges(sorted(firsts))}")
    for second, frame in own.items():
        if second in firsts and abs(frame.source_ms - firsts[second] * 1000) > 1 + frame_s * 1000:
            found.append(
                f"picture {second} at {frame.source_ms} ms, expected {float(firsts[second]):.4f} s"
            )
    return found


def out_of_step(
    watched: Watched,
    *,
    tones: int,
    frame_s: float,
    unsure: tuple[float, float] | None = None,
    moved: Callable[[float], float] = lambda at: at,
) -> list[str]:
    """Where sound and pictures do not keep together by what they say of their second.

    `moved` gives the second that the clip wrote to a source time; pictures of the `unsure` stretch
    may show what was before, where packets that they are predicted from were taken out.
    """
    line = timeline(watched)
    places = {second: tone_place(line, second, 16_000) for second in range(tones)}
    shifts = {second: moved(at) - second for second, (at, share) in places.items() if share > 0.93}
    found = []
    if shifts and max(shifts.values()) - min(shifts.values()) > 0.002:
        found.append(f"tones lie late by {_rounded(shifts)} s")
    if not shifts and watched.end.real_samples:
        return found  # no tone is plain enough to hold the pictures against
    late = sorted(shifts.values())[len(shifts) // 2] if shifts else 0.0
    for second, frame in watched.own_frames.items():
        at = max(moved(frame.source_ms / 1000) - late, 0)  # no picture is of an earlier second
        if unsure is not None and unsure[0] <= at < unsure[1]:
            continue
        shown = shown_second(watched, second)
        if not floor(at - frame_s - 0.002) - 0.25 <= shown <= floor(at + frame_s + 0.002) + 0.25:
            found.append(f"the picture at {at:.3f} s shows second {shown:.2f}")
    return found


def shown_second(watched: Watched, second: int) -> float:
    """Which second's grey the unit's own picture shows, as a number with a fraction."""
    shown = float(pixels(watched.own_frames[second]).mean())
    return (shown - rgb(grey(0))) / (rgb(grey(1)) - rgb(grey(0)))


def _rounded(shifts: dict[int, float]) -> dict[int, float]:
    return {second: round(shift, 4) for second, shift in shifts.items()}


def _ranges(seconds: list[int]) -> str:
    parts: list[list[int]] = []
    for second in seconds:
        if parts and second == parts[-1][1] + 1:
            parts[-1][1] = second
        else:
            parts.append([second, second])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in parts)
