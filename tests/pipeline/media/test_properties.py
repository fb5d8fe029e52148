"""Every second lies in its unit, whatever codec, container, offset, rate, hole or cut there is."""

from __future__ import annotations

import os
from fractions import Fraction

import pytest

from tests.clips import Clips
from tests.pipeline.media.agreement import disagreements, out_of_step
from tests.pipeline.media.combinations import (
    CONTAINERS,
    JUMP_S,
    Case,
    every_codec,
    make,
    pairwise_cases,
)
from tests.pipeline.media.test_exactness import LONG_SETTING
from tests.pipeline.media.truth import decode_truth
from tests.pipeline.media.watched import watch

IS_LONG = os.environ.get(LONG_SETTING) == "1"

EXACT_S = 0.001
SPEECH_EXACT_S = 0.003
"""AMR keeps no waveform: where the tone lies is known to a few samples of 8 kHz."""

ROUNDED_S = 0.0015
IN_MILLISECONDS = ("mkv", "mka", "webm", "wmv", "wma", "flv")
"""Each packet's time is rounded; FFmpeg believes the one after a hole, and OmnAI all of a run."""

GUESSED_S = 0.01

TONES = 6

SHORT = [
    Case(container="mp4", hole="sound", late_s=0.35),
    Case(container="mp4", video="hevc", audio="opus", offset_s=-0.5, fps="30000/1001"),
    Case(
        container="mp4", video="h264", audio="ac3", fps="30", late_s=3, offset_s=-0.5, hole="both"
    ),
    Case(container="fragmented", video="h264", late_s=0.35, hole="picture", rate_hz=44_100),
    Case(container="negative_cts", fps="60", keys=250),
    Case(container="mov", video="mjpeg", audio="s24be", rate_hz=96_000, late_s=1.5, fps="15"),
    Case(container="mkv", video="vp9alt", audio="flac", rate_hz=11_025, hole="jump"),
    Case(container="mkv", video="mpeg4b", audio="vorbis", rate_hz=44_100, fps="12.5"),
    Case(container="mkv", video="mpeg4b", fps="1", late_s=1.5, offset_s=1.4, hole="both"),
    Case(container="mkv", video="dv", audio="s24", fps="25", offset_s=36_000, hole="vfr"),
    Case(container="live_mkv", audio="opus", hole="sound_packets", rate_hz=24_000),
    Case(container="webm", video="vp8", audio="opus60", late_s=-2, offset_s=1.4),
    Case(container="ts", video="mpeg2b", audio="mp2", fps="25", offset_s=95_440.7, hole="jump"),
    Case(container="ts_delay", offset_s=95_440.7, late_s=3),
    Case(
        container="ts",
        video="h264",
        audio="dts",
        rate_hz=96_000,
        fps="15",
        offset_s=95_440.7,
        hole="picture",
    ),
    Case(container="delayed", video="h264", rate_hz=8_000, fps="60", late_s=0.35, hole="both"),
    Case(container="latm", offset_s=95_440.7, late_s=3, hole="jump", rate_hz=16_000),
    Case(container="ts", video="hevc", audio="eac3", offset_s=36_000, fps="5"),
    Case(container="m2ts", audio="bluray", late_s=0.35),
    Case(container="avi", video="h264", audio="s16", fps="30000/1001"),
    Case(container="flv", video="h264b", rate_hz=44_100, hole="sound", late_s=1.5),
    Case(container="asf", video="h264", audio="wma2", rate_hz=22_050),
    Case(container="vob", video="h264b", audio="ac3", fps="15"),
    Case(container="ps", video="mpeg1", audio="mp2", fps="24000/1001", late_s=-0.48),
    Case(container="3gp", video="h263", audio="amrnb", rate_hz=8_000, late_s=0.35),
    Case(container="ogg", video="theora", audio="opus", late_s=0.35),
    Case(container="ogg", video="theora", audio="vorbis", fps="60", offset_s=1.4, keys=250),
    Case(container="rf64", video=None, audio="f32", rate_hz=96_000),
    Case(container="caf", video=None, audio="alac", rate_hz=22_050),
]
"""One of each kind that was wrong once, and of the formats that are unlike the others."""


@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.label)
def test_each_second_of_a_combination_lies_in_its_unit(clips: Clips, case: Case) -> None:
    assert not wrong(clips, case)


@pytest.mark.skipif(
    not IS_LONG, reason=f"takes many minutes: set {LONG_SETTING}=1 to run hundreds of clips"
)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_each_second_of_every_pair_of_properties_lies_in_its_unit(clips: Clips, seed: int) -> None:
    cases = [*(every_codec() if seed == 0 else ()), *pairwise_cases(seed=seed, most=150)]
    found = {case.label: wrong(clips, case) for case in cases}
    assert not {label: faults for label, faults in found.items() if faults}


STARTS = [
    Case(container="mkv", video="h264b", audio="aac", fps="1", keys=3),
    Case(container="ts", video="hevc", audio="ac3", offset_s=95_442.0, late_s=0.35),
    Case(container="mp4", audio="opus", hole="picture", late_s=-0.48),
    Case(container="ogg", video="theora", audio="vorbis"),
    Case(container="flv", rate_hz=44_100, hole="sound"),
    Case(container="mkv", video="vp9alt", audio="flac", hole="jump", keys=30),
    Case(container="avi", video="mpeg4", audio="mp3"),
]


@pytest.mark.parametrize("case", STARTS, ids=lambda case: case.label)
def test_an_epoch_from_a_later_second_has_the_same_units(clips: Clips, case: Case) -> None:
    path = make(clips, case)
    assert path is not None
    whole = {unit.second: unit for unit in watch(path).units}
    for start_s in (2, 4):
        tail = watch(path, start_s=start_s)
        assert tail.seconds == [second for second in whole if second >= start_s]
        for unit in tail.units:
            same = whole[unit.second]
            assert unit.pcm == same.pcm
            assert unit.real_samples == same.real_samples
            assert unit.filled_samples == same.filled_samples
            assert (unit.frame is None) == (same.frame is None)
            if unit.frame is not None and same.frame is not None:
                assert unit.frame.source_ms == same.frame.source_ms
                assert unit.frame.sha256 == same.frame.sha256


def is_written_otherwise(case: Case) -> bool:
    """Whether FFmpeg's writer does not keep the times that the clip was given."""
    if case.container == "ogg":  # a page has one time, and those of FLAC count from 0
        has_holes = case.hole in ("sound", "sound_packets", "both")
        return has_holes or (case.audio == "flac" and case.late_s > 0)
    return case.offset_s < 0 and CONTAINERS[case.container].suffix in ("mkv", "mka")


def exactness(case: Case) -> float:
    if case.audio == "amrnb":
        return SPEECH_EXACT_S
    return ROUNDED_S if CONTAINERS[case.container].suffix in IN_MILLISECONDS else EXACT_S


def wrong(clips: Clips, case: Case) -> list[str]:
    """What is wrong with the units of the clip, by its construction and by FFmpeg."""
    path = make(clips, case)
    if path is None or (case.hole == "jump" and case.fps == "1"):
        return []  # at such steps the decode times that are written jump before the others
    watched = watch(path)
    frame_s = float((12 if case.hole == "vfr" else 1) / Fraction(case.fps))
    unsure = (2, 4.2) if case.hole in ("picture", "both") else None
    jumped = JUMP_S if case.hole == "jump" else 0
    found = []
    if not is_written_otherwise(case):
        found += out_of_step(
            watched,
            tones=TONES,
            frame_s=frame_s,
            unsure=unsure,
            moved=lambda at: at - jumped if at > JUMP_S else at,
        )
    is_guessed = case.offset_s < 0 and CONTAINERS[case.container].suffix in ("mkv", "mka")
    if is_guessed:  # FFmpeg reads times before 0 some ms late, those of pictures not at all
        unsure, frame_s = (0, 0), -case.offset_s
    truth = decode_truth(path)
    if truth.is_whole:
        found += disagreements(
            watched,
            truth,
            tones=TONES,
            exact_s=GUESSED_S if is_guessed else exactness(case),
            # Which picture can be shown again after a hole differs by what was left undecoded.
            frame_s=0 if unsure is None else frame_s,
        )
    else:  # FFmpeg's command goes astray at some wraps of 33 bits
        assert case.offset_s > 90_000
    return found
