"""Light is what the published tables say it is, and all of it that a screen can show is shown."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.media.tone import (
    BT709,
    BT2020,
    HLG,
    PQ,
    hdr_to_sdr,
    hlg_to_scene,
    nits_to_pq,
    pq_to_nits,
    to_bt709,
    tone_curve,
    wide_to_bt709,
)


def codes(*signals: float) -> np.ndarray:
    """One row of greys, or of one colour, in 16 bit."""
    values = np.array(signals)
    pixels = values.reshape(1, 1, 3) if values.size == 3 else np.repeat(values[None, :, None], 3, 2)
    return np.round(pixels * 65_535).astype(np.uint16)


@pytest.mark.parametrize(
    ("signal", "nits"),
    [
        (0.0, 0),
        (0.3800, 26),  # ITU-R BT.2408: an 18 % grey card
        (0.5081, 100),
        (0.5807, 203),  # BT.2408: HDR reference white, 58 %
        (0.7518, 1000),
        (0.9026, 4000),
        (1.0, 10_000),
    ],
)
def test_pq_gives_the_published_light(signal: float, nits: float) -> None:
    assert pq_to_nits(np.array([signal]))[0] == pytest.approx(nits, rel=1e-3, abs=1e-6)
    assert nits_to_pq(np.array([float(nits)]))[0] == pytest.approx(signal, abs=1e-4)


def test_hlg_gives_the_published_light() -> None:
    """BT.2100: half the signal is a twelfth of the light; both halves of the curve meet there."""
    light = hlg_to_scene(np.array([0.0, 0.5, 0.5 + 1e-9, 1.0]))
    assert light == pytest.approx([0, 1 / 12, 1 / 12, 1], abs=1e-6)


def test_the_primaries_of_bt_2020_become_those_of_bt_709_as_published() -> None:
    """The rounded matrix of ITU-R BT.2407, 2."""
    published = [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]]
    assert to_bt709(BT2020) == pytest.approx(np.array(published), abs=1e-4)
    assert to_bt709(BT709) == pytest.approx(np.eye(3), abs=1e-6)


@pytest.mark.parametrize("transfer", [PQ, HLG])
def test_a_grey_card_has_the_grey_of_an_sdr_picture_and_white_stays_bright(transfer: int) -> None:
    """BT.2408, table 1: grey card and reference white of both; BT.709 shows 18 % at 41 %."""
    card, white = (0.38, 0.58) if transfer == PQ else (0.38, 0.75)
    shown = hdr_to_sdr(
        codes(card, white, 0.0, 1.0), transfer=transfer, primaries=BT2020, peak_nits=0
    )[0, :, 0]
    assert shown[0] / 255 == pytest.approx(0.41, abs=0.025)
    assert 0.85 <= shown[1] / 255 <= 0.95
    assert tuple(shown[2:]) == (0, 255)


def test_hlg_is_brightened_by_its_luminance_and_not_by_each_colour() -> None:
    """BT.2100, table 5, by hand: signals 0.4, 0.5 and 0.3 are scene light E of .05333, .08333 and
    .03; Y = .2627·.05333 + .678·.08333 + .0593·.03 = .07229; 1000·Y^.2·E: 31.53, 49.26, 17.73 nits.
    In BT.709 (matrix above): 22.12, 51.73, 14.31; of 203, to the power of 1/2.4: .397, .566, .331.
    """
    shown = hdr_to_sdr(codes(0.4, 0.5, 0.3), transfer=HLG, primaries=BT2020, peak_nits=0)
    assert shown[0, 0] / 255 == pytest.approx([0.397, 0.566, 0.331], abs=0.004)


@pytest.mark.parametrize("peak_nits", [1000, 4000, 10_000])
def test_all_light_up_to_the_peak_is_told_apart(peak_nits: int) -> None:
    nits = np.geomspace(20, 0.3 * peak_nits, 10)
    greys = codes(*nits_to_pq(nits))
    shown = hdr_to_sdr(greys, transfer=PQ, primaries=BT2020, peak_nits=peak_nits)[0, :, 0]
    assert (np.diff(shown.astype(int)) > 0).all()
    assert shown[-1] < 255


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_a_bright_colour_keeps_its_hue(turn: int) -> None:
    """A lamp of 600 nits: dimmed as a whole, none of its colours cut off by itself."""
    lamp = np.roll(nits_to_pq(np.array([600.0, 150, 150])), turn)
    shown = hdr_to_sdr(codes(*lamp), transfer=PQ, primaries=BT709, peak_nits=0)[0, 0] / 255
    light = np.roll(shown**2.4, -turn)
    assert light[1] == pytest.approx(light[2], abs=1e-6)
    assert light[0] / light[1] == pytest.approx(4, rel=0.05)


def test_hlg_has_no_other_peak_than_its_own() -> None:
    """Its light is relative: what a file says of a mastering screen does not change it."""
    greys = codes(0.4, 0.7, 0.8, 0.9)
    plain, said = (
        hdr_to_sdr(greys, transfer=HLG, primaries=BT2020, peak_nits=peak) for peak in (0, 4000)
    )
    assert plain.tolist() == said.tolist()


def test_the_curve_changes_nothing_below_its_knee() -> None:
    """BT.2390, 5.4.1: KS = 1.5 · 0.5807 / 0.7518 − 0.5 = 0.6586 of PQ(1000), which is 87.9 nits."""
    given, shown = tone_curve(1000)
    assert shown[given < 87] == pytest.approx(given[given < 87], rel=1e-5)
    assert (np.diff(shown) >= 0).all()
    assert shown[-1] == pytest.approx(203, rel=1e-3)


def test_wider_primaries_of_sdr_keep_greys_and_colours_inside() -> None:
    greys = wide_to_bt709(codes(0.0, 0.25, 0.5, 1.0), primaries=BT2020)[0].astype(int)
    assert greys == pytest.approx(np.repeat([[0], [64], [128], [255]], 3, axis=1), abs=1)
    # BT.709 red in BT.2020 (BT.2087): linear .6274, .0691, .0164.
    red = np.array([0.6274, 0.0691, 0.0164]) ** (1 / 2.4)
    shown = wide_to_bt709(codes(*red), primaries=BT2020)[0, 0].astype(int)
    assert shown == pytest.approx([255, 0, 0], abs=8)
