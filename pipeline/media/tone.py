"""What light a picture's values stand for, and how much of it a BT.709 screen can show."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

LIGHT = npt.NDArray[np.float32]
PIXELS = npt.NDArray[np.uint8]
CODES = npt.NDArray[np.uint16]

PQ, HLG = 16, 18
"""Transfer characteristics of HDR (ITU-T H.273): SMPTE ST 2084 and ARIB STD-B67."""

BT709, BT2020, P3_THEATRE, P3 = 1, 9, 11, 12
"""Colour primaries (ITU-T H.273)."""

CHROMATICITIES = {
    BT709: ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)),
    BT2020: ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    P3: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
    # Its own white is that of film; a screen shows it as white.
    P3_THEATRE: ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
}
"""x and y of red, green and blue (ITU-R BT.709, BT.2020; SMPTE EG 432-1)."""

D65 = (0.3127, 0.3290)

WHITE_NITS = 203.0
"""HDR reference white (ITU-R BT.2408), shown as the white of an SDR screen: below the knee of the
tone curve a picture then looks as its SDR version does, an 18 % grey card (26 cd/m²) at 42 %."""

PEAK_NITS = 1000.0
"""Brightest light taken as given where the file says nothing brighter: the usual mastering screen,
and the nominal peak of HLG (ITU-R BT.2100)."""

PEAK_NITS_MAX = 10_000.0
"""The end of PQ's scale."""

HLG_SYSTEM_GAMMA = 1.2
"""Of a screen with PEAK_NITS (ITU-R BT.2100, table 5)."""

SCREEN_GAMMA = 2.4
"""Of an SDR screen (ITU-R BT.1886)."""

CODE_MAX = 65_535
CURVE_POINTS = 1024

ROOT_STEPS = 8191
"""Steps in the square root of light, each less than half a step of 8 bit on the screen."""


def pq_to_nits(signal: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """cd/m² of PQ values of 0–1 (ITU-R BT.2100, table 4)."""
    root = np.power(np.clip(signal, 0, 1), 1 / _M2)
    light = np.maximum(root - _C1, 0) / (_C2 - _C3 * root)
    return np.asarray(PEAK_NITS_MAX * np.power(light, 1 / _M1))


def nits_to_pq(nits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The inverse of pq_to_nits."""
    light = np.power(np.clip(nits, 0, PEAK_NITS_MAX) / PEAK_NITS_MAX, _M1)
    return np.asarray(np.power((_C1 + _C2 * light) / (1 + _C3 * light), _M2))


_M1, _M2 = 2610 / 16384, 2523 / 4096 * 128
_C1, _C2, _C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32


def hlg_to_scene(signal: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scene light of 0–1 of HLG values of 0–1 (ITU-R BT.2100, table 5)."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.asarray(np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12))


def tone_curve(peak_nits: float) -> tuple[LIGHT, LIGHT]:
    """Light of a source that reaches `peak_nits`, and what of it WHITE_NITS can show, in cd/m².

    The knee and spline of ITU-R BT.2390, 5.4.1, without a lift of black.
    """
    source = np.linspace(0, 1, CURVE_POINTS)
    top = nits_to_pq(np.array(peak_nits))
    target = float(nits_to_pq(np.array(WHITE_NITS)) / top)
    knee = 1.5 * target - 0.5
    t = np.clip((source - knee) / (1 - knee), 0, 1)
    spline = (
        (2 * t**3 - 3 * t**2 + 1) * knee
        + (t**3 - 2 * t**2 + t) * (1 - knee)
        + (3 * t**2 - 2 * t**3) * target
    )
    shown = np.where(source < knee, source, spline)
    return (
        pq_to_nits(source * top).astype(np.float32),
        pq_to_nits(shown * top).astype(np.float32),
    )


def hdr_to_sdr(codes: CODES, *, transfer: int, primaries: int, peak_nits: float) -> PIXELS:
    """SDR BT.709 for RGB of PQ or HLG, [height, width, 3] of 16 bit.

    All three colours of a pixel are dimmed by what the curve takes from the brightest, so that no
    hue changes and none is cut off.
    """
    light = _screen_light(codes, transfer, primaries)
    peak_nits = PEAK_NITS if transfer == HLG else min(max(peak_nits, PEAK_NITS), PEAK_NITS_MAX)
    red, green, blue = light[..., 0], light[..., 1], light[..., 2]
    brightest = np.maximum(np.maximum(red, green), blue)
    roots = np.sqrt(np.minimum(brightest * np.float32(1 / peak_nits), 1)) * np.float32(ROOT_STEPS)
    light *= _dimming(round(peak_nits))[(roots + np.float32(0.5)).astype(np.uint16)][..., None]
    return _to_bt709(light * np.float32(1 / WHITE_NITS), primaries)


def wide_to_bt709(codes: CODES, *, primaries: int) -> PIXELS:
    """BT.709 for SDR values of wider primaries (ITU-R BT.2087, BT.2407: hard clip)."""
    return _to_bt709(_sdr_light()[codes], primaries)


@cache
def to_bt709(primaries: int) -> LIGHT:
    """3 × 3 from linear RGB of these primaries to that of BT.709."""
    return np.asarray(np.linalg.inv(_to_xyz(BT709)) @ _to_xyz(primaries), np.float32)


def _to_bt709(light: LIGHT, primaries: int) -> PIXELS:
    """`light` is 1 at the screen's white."""
    linear = light if primaries == BT709 else light @ to_bt709(primaries).T
    roots = np.sqrt(np.clip(linear, 0, 1, out=linear), out=linear)
    roots *= ROOT_STEPS
    return np.asarray(_screen_values()[(roots + np.float32(0.5)).astype(np.uint16)])


def _to_xyz(primaries: int) -> npt.NDArray[np.float64]:
    def xyz(x: float, y: float) -> tuple[float, float, float]:
        return x / y, 1.0, (1 - x - y) / y

    columns = np.array([xyz(*point) for point in CHROMATICITIES[primaries]]).T
    return np.asarray(columns * np.linalg.solve(columns, np.array(xyz(*D65))))


def _screen_light(codes: CODES, transfer: int, primaries: int) -> LIGHT:
    """cd/m² on the screen that the picture was made for."""
    if transfer == PQ:
        return _pq_light()[codes]
    scene = _hlg_light()[codes]
    luminance = scene @ np.asarray(_to_xyz(primaries)[1], np.float32)
    gain = np.power(np.maximum(luminance, 1e-9), np.float32(HLG_SYSTEM_GAMMA - 1))
    return np.asarray(scene * (PEAK_NITS * gain)[..., None], np.float32)


def _codes() -> npt.NDArray[np.float64]:
    return np.arange(CODE_MAX + 1) / CODE_MAX


@cache
def _pq_light() -> LIGHT:
    return pq_to_nits(_codes()).astype(np.float32)


@cache
def _hlg_light() -> LIGHT:
    return hlg_to_scene(_codes()).astype(np.float32)


@cache
def _screen_values() -> PIXELS:
    roots = np.arange(ROOT_STEPS + 1) / ROOT_STEPS
    return np.round(255 * np.power(roots, 2 / SCREEN_GAMMA)).astype(np.uint8)


@cache
def _sdr_light() -> LIGHT:
    return np.asarray(np.power(_codes(), SCREEN_GAMMA), np.float32)


@lru_cache(maxsize=4)  # a file may name another peak with every picture
def _dimming(peak_nits: int) -> LIGHT:
    """What the curve leaves of light, over the square root of light; 1 below its knee."""
    given, shown = tone_curve(peak_nits)
    light = np.square(np.arange(ROOT_STEPS + 1) / ROOT_STEPS) * peak_nits
    light[0] = light[1]
    return np.asarray(np.interp(light, given, shown) / light, np.float32)
