"""The rules of the source clock hold for any offset, hole, rate and container."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.clips import H264, Clips, greys, lag_samples, tones
from tests.pipeline.media.remux import Edit, remux
from tests.pipeline.media.test_offsets import packets_between
from tests.pipeline.media.watched import Watched, check_grey, samples, watch


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    suffix=st.sampled_from(["mkv", "mp4", "mov"]),
    rate_hz=st.sampled_from([8_000, 22_050, 44_100, 48_000]),
    sound_late_s=st.sampled_from([0, 0.5, 1.25, 2]),
    picture_late_s=st.sampled_from([0, 0, 0.7, 3]),
    hole_s=st.tuples(st.sampled_from([0.5, 2.0, 3.4]), st.sampled_from([0, 0.05, 0.9, 2.2])),
    fps=st.sampled_from(["2", "10", "30000/1001"]),
)
def test_any_clip_keeps_the_rules_and_its_seconds(
    clips: Clips,
    suffix: str,
    rate_hz: int,
    sound_late_s: float,
    picture_late_s: float,
    hole_s: tuple[float, float],
    fps: str,
) -> None:
    path = generated(clips, suffix, rate_hz, sound_late_s, picture_late_s, fps)
    start_s, length_s = hole_s[0] + sound_late_s, hole_s[1]
    lost = packets_between(path, start_s, start_s + length_s) if length_s else []
    watched = watch(remux(path, {("audio", n): Edit(is_lost=True) for n in lost}))
    # The origin is where the earlier of the two begins: both are late by what is left of it.
    origin_s = min(sound_late_s, picture_late_s) if watched.probe.origin_ms else 0
    check_sound(watched, sound_late_s - origin_s, (start_s - origin_s, length_s))
    check_pictures(watched, picture_late_s - origin_s, 2 if fps == "2" else 10)


def generated(
    clips: Clips, suffix: str, rate_hz: int, sound_late_s: float, picture_late_s: float, fps: str
) -> Path:
    name = f"g-{rate_hz}-{sound_late_s}-{picture_late_s}-{fps.replace('/', '_')}.{suffix}"
    return clips.make(
        name,
        *("-itsoffset", str(sound_late_s), *tones(5, rate_hz=rate_hz)),
        *("-itsoffset", str(picture_late_s), *greys(5, fps=fps)),
        *(*H264, "-g", "10", "-c:a", "alac" if suffix == "mov" else "flac", "-strict", "-2"),
    )


def check_sound(watched: Watched, late_s: float, hole: tuple[float, float]) -> None:
    """Each tone sounds where it was put, unless the hole lies in it."""
    whole = np.concatenate([samples(unit) for unit in watched.units])
    for second in range(5):
        at = late_s + second
        if hole[1] and hole[0] - 0.6 < at + 0.5 and at < hole[0] + hole[1] + 0.6:
            continue
        first = round(at * 16_000)
        heard = whole[first : first + 16_000]
        if heard.size == 16_000:
            assert abs(lag_samples(heard, second)) <= 32
    real_s = watched.end.real_samples / 16_000
    assert real_s == pytest.approx(5 - hole[1], abs=0.7 if hole[1] else 0.01)


def check_pictures(watched: Watched, late_s: float, fps: int) -> None:
    for second, frame in watched.own_frames.items():
        shown = frame.source_ms / 1000 - late_s
        assert second == frame.source_ms // 1000
        # Within a picture of a change of second, either grey is right.
        if abs(shown - round(shown)) > 0.002 or fps != 10:
            check_grey(frame, int(shown + 0.002))
