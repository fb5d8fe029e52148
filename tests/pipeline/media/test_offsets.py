"""Late starts, cuts, holes, jumps and stills: every second stays where the source has it."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from tests.clips import AAC, H264, H264_BFRAMES, Clips, ffmpeg_pcm, greys, lag_samples, tones
from tests.pipeline.media.remux import Edit, remux
from tests.pipeline.media.transport import with_stray_time
from tests.pipeline.media.watched import check_grey, check_tone, samples, watch

FLAC = ("-c:a", "flac")
G10 = ("-g", "10")

PRIMING = 700
"""Two AAC packets of 1024 samples at 48 kHz, where no container says that they are priming."""


# --- late starts and cuts ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["late.mp4", "late.mkv", "late.mov"])
def test_sound_that_begins_two_seconds_late_is_heard_two_seconds_late(
    clips: Clips, name: str
) -> None:
    late = (*greys(6), "-itsoffset", "2", *tones(4, first=2))
    watched = watch(clips.make(name, *late, *H264_BFRAMES, *AAC))
    assert watched.seconds[:6] == list(range(6))
    for second in (0, 1):
        unit = watched.unit(second)
        check_grey(unit.frame, second)
        assert unit.filled_samples > 16_000 - 400
        assert np.abs(samples(unit)).max() < 0.05
    for second in range(2, 6):
        check_tone(watched.unit(second), second)
        check_grey(watched.unit(second).frame, second)


@pytest.mark.parametrize("name", ["late-picture.mp4", "late-picture.mkv"])
def test_pictures_that_begin_three_seconds_late_are_seen_three_seconds_late(
    clips: Clips, name: str
) -> None:
    late = (*tones(6), "-itsoffset", "3", *greys(3, first=3))
    watched = watch(clips.make(name, *late, *H264, *AAC))
    for second in range(6):
        check_tone(watched.unit(second), second)
    assert sorted(watched.own_frames) == [3, 4, 5]
    for second in (3, 4, 5):
        frame = watched.own_frames[second]
        check_grey(frame, second)
        assert frame.source_ms == second * 1000


def test_an_edit_list_hides_what_lies_before_the_cut(clips: Clips) -> None:
    whole = clips.encoded("whole.mp4", 8, *H264, *AAC, "-g", "30")
    cut = clips.make("cut.mp4", "-ss", "2", "-i", str(whole), "-c", "copy")
    watched = watch(cut)
    # The cut lies at second 2 and the key picture before it at 0: time 0 is the cut.
    for second in range(5):
        check_grey(watched.unit(second).frame, second + 2)
        check_tone(watched.unit(second), second + 2, lag_max=PRIMING)


# --- joined parts and jumps --------------------------------------------------------------------


def ts_part(clips: Clips, name: str, seconds: int, first: int, offset_s: float) -> bytes:
    path = clips.make(
        name,
        *tones(seconds, first=first),
        *greys(seconds, first=first),
        *(*H264, *G10, *AAC, "-output_ts_offset", str(offset_s)),
    )
    return path.read_bytes()


def test_parts_whose_clock_jumps_back_are_played_one_after_the_other(clips: Clips) -> None:
    parts = ts_part(clips, "p.ts", 4, 0, 10) + ts_part(clips, "p.ts", 4, 4, 0)
    watched = watch(clips.write("joined.ts", parts))
    assert watched.seconds[:8] == list(range(8))
    assert not watched.gaps
    assert len(watched.remarks("clock_reset")) == 1
    for second in range(8):
        unit = watched.unit(second)
        assert unit.frame is not None
        check_grey(unit.frame, second, tolerance=14)  # at the joint a unit may hold the one before
    # Sound and picture keep together through the joint: the grey changes where the tone does.
    for second in (1, 2, 5, 6):
        frame = watched.unit(second).frame
        assert frame is not None
        late_ms = frame.source_ms - second * 1000
        heard_ms = lag_samples(samples(watched.unit(second)), second, reach=2400) / 16
        assert 0 <= late_ms < 150
        assert heard_ms == pytest.approx(late_ms, abs=30)


def test_an_hour_that_is_missing_is_one_gap_and_the_index_jumps(clips: Clips) -> None:
    parts = ts_part(clips, "p.ts", 4, 0, 0) + ts_part(clips, "p.ts", 4, 4, 3604)
    watched = watch(clips.write("jump.ts", parts))
    assert watched.seconds[:4] == [0, 1, 2, 3]
    # The second part's sound begins with 21 ms of priming: its first packet lies in 3603.
    assert [second for second in watched.seconds if second > 10][:5] == list(range(3603, 3608))
    (gap,) = watched.gaps
    assert gap.start_ms == pytest.approx(4000, abs=150)
    assert gap.end_ms == pytest.approx(3_604_000, abs=50)
    for second in range(4):
        check_grey(watched.unit(3604 + second).frame, 4 + second)
        check_tone(watched.unit(3604 + second), 4 + second, lag_max=PRIMING)
    assert len(watched.units) <= 11


@pytest.mark.parametrize("by_s", [2000.0, 20_000.0, -3.0])
def test_a_lone_time_stamp_far_off_moves_nothing(clips: Clips, by_s: float) -> None:
    whole = clips.encoded("whole.ts", 6, *H264, *G10, *AAC)
    odd = clips.write("odd.ts", with_stray_time(whole.read_bytes(), at=25, by_s=by_s))
    expected, watched = watch(whole), watch(odd)
    assert watched.seconds == expected.seconds
    assert not watched.gaps
    assert not watched.remarks("clock_reset")
    size = 5 * 16_000
    assert np.abs(watched.sound[:size] - expected.sound[:size]).max() < 1e-6
    for second in range(6):
        check_grey(watched.unit(second).frame, second)


# --- holes -------------------------------------------------------------------------------------


def test_single_lost_packets_are_filled_and_shift_nothing(clips: Clips) -> None:
    whole = clips.encoded("lossy.mp4", 6, *H264, *AAC)
    ordinals = range(9, count_packets(whole, "audio"), 20)
    watched = watch(remux(whole, {("audio", n): Edit(is_lost=True) for n in ordinals}))
    expected = ffmpeg_pcm(whole)
    size = min(expected.size, watched.sound.size)
    is_off = np.abs(watched.sound[:size] - expected[:size]) > 1e-3
    # A packet overlaps with its neighbours: three packets of 1024 samples at 48 kHz may differ.
    packet = 1024 / 3
    for ordinal in ordinals:
        at = (ordinal - 1) * packet  # the first packet is the encoder's priming
        is_off[int(at - packet) : int(at + 2 * packet) + 32] = False
    assert not is_off.any()
    filled = sum(unit.filled_samples for unit in watched.units)
    assert filled == pytest.approx(len(ordinals) * packet, abs=len(ordinals))


@pytest.mark.parametrize("codec", ["aac", "flac", "libopus"])
def test_five_seconds_without_sound_are_filled_and_shift_nothing(clips: Clips, codec: str) -> None:
    whole = clips.encoded("whole12.mkv", 12, *H264, *G10, "-c:a", codec, "-ac", "1")
    hole = {("audio", range_s): Edit(is_lost=True) for range_s in packets_between(whole, 3, 8)}
    watched = watch(remux(whole, hole))
    assert watched.seconds[:12] == list(range(12))
    assert not watched.gaps
    for second in (0, 1, 2, 9, 10, 11):
        check_tone(watched.unit(second), second)
    # The hole takes up to one packet of second 8 with it.
    check_tone(watched.unit(8), 8, lag_max=320)
    for second in (4, 5, 6):
        assert watched.unit(second).filled_samples == 16_000
        assert not samples(watched.unit(second)).any()
    for second in range(12):
        check_grey(watched.unit(second).frame, second)


def test_half_a_minute_without_anything_is_a_gap(clips: Clips) -> None:
    whole = clips.encoded("whole50.mkv", 50, *H264, *G10, *FLAC)
    hole = {("audio", n): Edit(is_lost=True) for n in packets_between(whole, 5, 40)}
    hole |= {("video", n): Edit(is_lost=True) for n in packets_between(whole, 5, 40, kind="video")}
    watched = watch(remux(whole, hole))
    assert watched.seconds == [*range(6), *range(40, 50)]  # a packet of second 4 reaches into 5
    (gap,) = watched.gaps
    assert gap.start_ms == pytest.approx(5000, abs=100)
    assert gap.end_ms == pytest.approx(40_000, abs=100)
    for second in (4, 41, 49):
        check_tone(watched.unit(second), second)
    assert not watched.held_frames


def test_half_a_minute_without_sound_is_filled_while_pictures_run(clips: Clips) -> None:
    whole = clips.encoded("whole50.mkv", 50, *H264, *G10, *FLAC)
    hole = {("audio", n): Edit(is_lost=True) for n in packets_between(whole, 5, 40)}
    watched = watch(remux(whole, hole))
    assert watched.seconds == list(range(50))
    assert not watched.gaps
    assert [watched.unit(s).filled_samples for s in range(6, 39)] == [16_000] * 33
    check_tone(watched.unit(4), 4)
    check_tone(watched.unit(41), 41)
    assert sorted(watched.own_frames) == list(range(50))


def test_half_a_minute_without_pictures_is_no_gap_while_sound_runs(clips: Clips) -> None:
    whole = clips.encoded("whole50.mkv", 50, *H264, *G10, *FLAC)
    hole = {("video", n): Edit(is_lost=True) for n in packets_between(whole, 5, 44, kind="video")}
    watched = watch(remux(whole, hole))
    assert watched.seconds == list(range(50))
    assert not watched.gaps
    assert sorted(watched.own_frames) == [0, 1, 2, 3, 4, *range(44, 50)]


# --- pictures that stand still -----------------------------------------------------------------


def test_a_slide_of_65_seconds_is_shown_again_with_its_own_time(clips: Clips) -> None:
    picture = "color=black:s=64x48:r=5:d=0.6,format=yuv420p"
    path = clips.make(
        "slide.mkv",
        *("-f", "lavfi", "-i", "sine=f=440:r=16000:d=65"),
        *("-f", "lavfi", "-i", f"{picture},geq=lum='if(lt(N,2),20,120)':cb=128:cr=128"),
        *(*H264, *FLAC),
    )
    watched = watch(path)
    assert watched.seconds == list(range(65))
    assert sorted(watched.own_frames) == [0]
    check_grey(watched.own_frames[0], 0)
    assert sorted(watched.held_frames) == [30, 60]
    for frame in watched.held_frames.values():
        assert frame.source_ms == 400  # the last picture shown, not the first of its second
        check_grey(frame, 10)
    assert not watched.gaps


@pytest.mark.parametrize(("fps", "bframes"), [("1", "0"), ("10", "0"), ("1", "2"), ("5", "2")])
@pytest.mark.parametrize("damaged", ["before", "after"])
def test_no_picture_is_held_over_a_hole_beside_damage(
    clips: Clips, damaged: str, fps: str, bframes: str
) -> None:
    whole = clips.make(
        f"damage{fps}-{bframes}.mkv",
        *("-f", "lavfi", "-i", "sine=f=440:r=16000:d=64"),
        *greys(64, fps=fps),
        *("-c:v", "libx264", "-preset", "veryfast", "-g", "8", "-bf", bframes, *FLAC),
    )
    rate = int(fps)
    hole = {("video", n): Edit(is_lost=True) for n in range(8 * rate, 56 * rate)}
    assert watch(remux(whole, hole)).held_frames
    at = 8 * rate - 1 if damaged == "before" else 56 * rate
    watched = watch(remux(whole, hole | {("video", at): Edit(content=b"\0\0\0\2\x65\xff")}))
    assert watched.remarks("video_decode_errors")
    assert not watched.held_frames
    assert watched.seconds == list(range(64))


@pytest.mark.parametrize("suffix", ["mkv", "mp4", "ts"])
@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("fps", ["1", "2"])
def test_reordered_pictures_at_a_low_rate_are_no_jump_of_the_clock(
    clips: Clips, fps: str, codec: str, suffix: str
) -> None:
    """Reordering puts seconds between decoding and presentation; a copy has no decode times."""
    whole = clips.make(
        f"low{fps}{codec}.{suffix}",
        *(*tones(12), *greys(12, fps=fps), "-c:v", codec, "-preset", "veryfast", "-bf", "3"),
        *("-g", "8", *AAC),
    )
    for path in (whole, remux(whole, {}, suffix=".mkv")):
        watched = watch(path)
        assert not watched.remarks("clock_reset")
        assert sorted(watched.own_frames) == list(range(12))
        for second, frame in watched.own_frames.items():
            check_grey(frame, second)


def test_variable_frame_rate_keeps_each_picture_at_its_time(clips: Clips) -> None:
    kept = {0, 1, 30, 31, 52}
    lost = {("video", n): Edit(is_lost=True) for n in range(60) if n not in kept}
    intra = clips.encoded("intra.mkv", 6, *H264, *FLAC, "-g", "1")
    watched = watch(remux(intra, lost))
    found = {second: frame.source_ms for second, frame in watched.own_frames.items()}
    assert found == {0: 0, 3: 3000, 5: 5200}
    for second in found:
        check_grey(watched.own_frames[second], second)
    for second in range(6):
        check_tone(watched.unit(second), second)


# --- starting in the middle --------------------------------------------------------------------


@pytest.mark.parametrize("start_s", [1, 3, 5])
@pytest.mark.parametrize(
    ("name", "codecs"),
    [
        ("s.mp4", (*H264_BFRAMES, *AAC, "-g", "15")),
        ("s.mkv", (*H264_BFRAMES, *FLAC, "-g", "100")),
        ("s.ts", (*H264_BFRAMES, *AAC, "-g", "15")),
        ("s.webm", ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "25")),
    ],
)
def test_a_start_in_the_middle_gives_the_tail_of_the_whole(
    clips: Clips, name: str, codecs: tuple[str, ...], start_s: int
) -> None:
    path = clips.encoded(name, 8, *codecs)
    whole, tail = watch(path), watch(path, start_s=start_s)
    assert [u.second for u in tail.units] == [u.second for u in whole.units][start_s:]
    for unit in tail.units:
        same = whole.unit(unit.second)
        assert unit.pcm == same.pcm
        assert (unit.real_samples, unit.filled_samples) == (same.real_samples, same.filled_samples)
        assert unit.frame is not None or same.frame is None
        if unit.frame is not None and same.frame is not None:
            assert unit.frame.source_ms == same.frame.source_ms
            assert unit.frame.sha256 == same.frame.sha256


def count_packets(path: Path, kind: str) -> int:
    with av.open(str(path)) as container:
        return sum(1 for packet in container.demux() if packet.stream.type == kind and packet.size)


def packets_between(path: Path, start_s: float, end_s: float, *, kind: str = "audio") -> list[int]:
    """Ordinals of the packets that begin in this stretch."""
    with av.open(str(path)) as container:
        packets = [p for p in container.demux() if p.stream.type == kind and p.size]
        return [
            n
            for n, packet in enumerate(packets)
            if packet.pts is not None
            and packet.time_base is not None
            and start_s <= packet.pts * packet.time_base < end_s
        ]
