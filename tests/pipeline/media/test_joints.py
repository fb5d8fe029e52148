"""Joined parts keep sound and picture together; single wrong time stamps move nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.clips import AAC, H264, Clips, greys, tones
from tests.pipeline.media.agreement import out_of_step
from tests.pipeline.media.combinations import JUMP_S, Case, make
from tests.pipeline.media.test_offsets import ts_part
from tests.pipeline.media.transport import with_stray_time
from tests.pipeline.media.watched import Watched, check_grey, watch


def same_seconds(watched: Watched, expected: Watched) -> bool:
    size = min(watched.sound.size, expected.sound.size, 5 * 16_000)
    return (
        watched.seconds == expected.seconds
        and not watched.gaps
        and np.abs(watched.sound[:size] - expected.sound[:size]).max() < 1e-6
        and [frame.source_ms for frame in watched.own_frames.values()]
        == [frame.source_ms for frame in expected.own_frames.values()]
    )


@pytest.mark.parametrize(
    ("at", "by_s"),
    [(1, 3.0), (5, -3.0), (5, 0.8), (5, -0.7), (11, 25.0), (12, 2000.0), (24, 40.0), (11, -9000.0)],
)
def test_one_wrong_time_stamp_moves_nothing_though_it_dates_many_packets(
    clips: Clips, at: int, by_s: float
) -> None:
    """A PES packet of sound holds eleven frames here; all take their time from its stamp."""
    whole = clips.encoded("whole.ts", 6, *H264, "-g", "10", *AAC)
    odd = clips.write("odd.ts", with_stray_time(whole.read_bytes(), at=at, by_s=by_s))
    watched = watch(odd)
    assert same_seconds(watched, watch(whole))
    assert not watched.remarks("clock_reset")


@pytest.mark.parametrize("overlap_s", [0.1, 0.45])
def test_parts_that_overlap_by_less_than_a_jump_stay_where_their_times_put_them(
    clips: Clips, overlap_s: float
) -> None:
    parts = ts_part(clips, "p.ts", 4, 0, 10) + ts_part(clips, "p.ts", 4, 4, 14 - overlap_s)
    watched = watch(clips.write("overlap.ts", parts))
    assert not watched.remarks("clock_reset")
    assert watched.remarks("audio_overlaps")
    # Within the priming and the container's delay of the sound.
    assert watched.end.source_end_ms == pytest.approx(8000 - overlap_s * 1000, abs=70)


@pytest.mark.parametrize("overlap_s", [0.55, 2.0])
def test_parts_that_overlap_are_all_kept_and_stay_in_step(clips: Clips, overlap_s: float) -> None:
    """Around half a second one stream steps back by more than a jump and the other by less."""
    parts = ts_part(clips, "p.ts", 4, 0, 10) + ts_part(clips, "p.ts", 4, 4, 14 - overlap_s)
    watched = watch(clips.write("overlap.ts", parts))
    assert len(watched.remarks("clock_reset")) == 1
    # All of both parts and their priming: nothing is trimmed.
    assert watched.end.real_samples == pytest.approx(8 * 16_000, abs=1100)
    shown = [frame.source_ms for frame in watched.own_frames.values()]
    late_ms = [at % 1000 for at in shown]
    assert max(late_ms) - min(late_ms) < 60
    for second in range(8):
        check_grey(watched.unit(second).frame, second)


@pytest.mark.parametrize("late_s", [-3, 3])
@pytest.mark.parametrize(("container", "hole"), [("ts", ""), ("latm", "jump")])
def test_the_clock_of_26_hours_may_begin_anew_between_the_first_packets(
    clips: Clips, container: str, hole: str, late_s: float
) -> None:
    """Three seconds before the end of 33 bits; one stream begins after it."""
    case = Case(container=container, hole=hole, late_s=late_s, offset_s=95_440.7, rate_hz=16_000)
    path = make(clips, case)
    assert path is not None
    watched = watch(path)
    assert {3, 4, 5} <= {second - (JUMP_S if hole else 0) for second in watched.seconds}
    assert len(watched.units) <= 8
    assert len(watched.gaps) == (1 if hole else 0)
    assert not watched.remarks("clock_reset")
    jumped = JUMP_S if hole else 0
    assert not out_of_step(
        watched, tones=6, frame_s=0.1, moved=lambda at: at - jumped if at > JUMP_S else at
    )


def test_a_wrong_duration_is_no_jump_back(clips: Clips) -> None:
    """Where an edit list and lost pictures meet, FFmpeg gives a picture the hole as its length."""
    case = Case(container="mp4", video="h264", late_s=3, offset_s=-0.5, hole="both", fps="30")
    path = make(clips, case)
    assert path is not None
    watched = watch(path)
    assert not watched.remarks("picture_times_estimated")
    assert sorted(watched.own_frames) == [0, 1, 3, 4, 5]


def test_pictures_in_avi_are_not_late_by_a_reordering_that_is_not_there(clips: Clips) -> None:
    path = clips.make("plain.avi", *tones(4), *greys(4), *H264, "-c:a", "pcm_s16le")
    own = watch(path).own_frames
    assert own[0].source_ms == 0
    assert [own[second].source_ms for second in (1, 2, 3)] == [1000, 2000, 3000]


REORDERED = ("-c:v", "libx264", "-preset", "veryfast", "-b_strategy", "0", "-pix_fmt", "yuv420p")


@pytest.mark.parametrize(
    ("fps", "options"),
    [
        ("25", ("-bf", "2")),
        ("10", ("-bf", "3")),
        ("5", ("-bf", "3")),
        ("3", ("-bf", "8", "-x264-params", "b-pyramid=normal")),
        ("10", ("-bf", "3", "-x264-params", "open-gop=1:keyint=10:min-keyint=5")),
    ],
)
@pytest.mark.parametrize("lengths", [(4, 2), (2, 4)])
def test_pictures_out_of_order_are_no_jump_where_parts_have_presentation_times_only(
    clips: Clips, fps: str, options: tuple[str, ...], lengths: tuple[int, int]
) -> None:
    """Matroska has no decode times, and FFmpeg guesses them wrong behind a joint."""
    parts = [
        clips.make(
            "p.mkv", *tones(size), *greys(size, fps=fps), *REORDERED, *options, "-c:a", "flac"
        )
        for size in lengths
    ]
    joined = clips.write("joined.mkv", b"".join(part.read_bytes() for part in parts))
    watched = watch(joined)
    (reset,) = watched.remarks("clock_reset")
    assert reset.count == 1
    assert reset.start_ms == lengths[0] * 1000
    assert not watched.gaps
    assert watched.end.real_samples == 6 * 16_000
    expected = np.concatenate([watch(part).sound for part in parts])
    inside = np.abs(watched.sound - expected).reshape(6, -1)[:, 64:-64]  # a filter ends at each end
    assert inside.max() < 1e-6
    assert sorted(watched.own_frames) == [*range(6)]
    for second, frame in watched.own_frames.items():
        is_second = second >= lengths[0]
        part_s = (frame.source_ms + 1) // 1000 - lengths[0] * is_second
        check_grey(frame, part_s)
        assert frame.source_ms - second * 1000 < 1000 / float(fps)
    later = watch(joined, start_s=5)
    check_grey(later.own_frames[5], 5 - lengths[0])
