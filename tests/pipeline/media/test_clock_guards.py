"""What is no jump of a clock, what one stream's jump means for the others, and what is no sound."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

from pipeline.media.audio import AudioPlacer
from pipeline.media.joints import APART_MAX, Place, StreamClock, join_parts
from pipeline.media.mixdown import Mixdown
from pipeline.media.packets import corrected_packets
from pipeline.media.remarks import RemarkBook
from pipeline.media.scanned import Scan, StreamScan
from pipeline.media.seconds import Seconds
from pipeline.media.sound import Sound, _Listener
from pipeline.media.turns import MPEG, Turns
from tests.clips import SAMPLES

MS = 1000
STEP = 40 * MS
MONO = np.ones(1, np.float32)


def followed(
    times: Iterable[int], *, shown: Iterable[int] | None = None, every: int = 1
) -> StreamClock:
    """A clock after packets of 40 ms at these times in µs; each `every`-th packet of the file."""
    clock = StreamClock(StreamScan())
    times = list(times)
    for ordinal, (time, at) in enumerate(zip(times, shown or times, strict=True)):
        place = Place(in_file=ordinal * every, ordinal=ordinal, shown=at)
        clock.see(place, time, STEP)
    clock.finish()
    return clock


def steps(count: int, *, start: int = 0) -> list[int]:
    return [start + n * STEP for n in range(count)]


# --- joints ------------------------------------------------------------------------------------


def test_a_decode_time_that_goes_back_where_presentation_does_not_is_a_guess() -> None:
    """As FFmpeg's for Matroska, which stores times of presentation only, after a hole."""
    times = steps(50) + steps(50, start=50 * STEP - 700 * MS)
    guessed = followed(times, shown=steps(100))
    assert (guessed.parts, list(guessed.steps), guessed.found.strays) == ([], [], set())
    assert guessed.found.runs == [(0, 100 * STEP)]
    jumped = followed(times)
    assert len(jumped.parts) == 1


@pytest.mark.parametrize(("apart", "is_moved"), [(APART_MAX - 10, True), (APART_MAX + 10, False)])
def test_a_small_step_back_is_a_new_part_only_beside_another_streams_jump(
    apart: int, is_moved: bool
) -> None:
    """One stream steps back by 600 ms and the other by 400, where the parts meet in the file."""
    video = followed(steps(50) + steps(50, start=50 * STEP - 600 * MS))
    audio = StreamClock(StreamScan())
    for ordinal, time in enumerate(steps(50) + steps(50, start=50 * STEP - 400 * MS)):
        in_file = 50 + apart if ordinal >= 50 else ordinal
        audio.see(Place(in_file=in_file, ordinal=ordinal, shown=time), time, STEP)
    assert (len(video.parts), len(audio.parts), len(audio.steps)) == (1, 0, 1)
    scan = Scan()
    join_parts(scan, {0: video, 1: audio})
    begin = 50 * STEP - 600 * MS  # the earlier of the two: both are moved alike
    assert scan.resets == [(50 * STEP, begin)]
    assert video.found.offsets == [(50, 600 * MS)]
    assert audio.found.offsets == ([(50, 600 * MS)] if is_moved else [])


@pytest.mark.parametrize("ordinals", [(70,), (40, 60, 90)])
def test_small_steps_back_are_no_new_part_where_the_stream_jumps_itself(
    ordinals: tuple[int, ...],
) -> None:
    """FFmpeg makes up times for pictures of MPEG streams that have none, and corrects itself."""
    times = steps(50) + steps(50)
    wavering = [time - 2 * STEP * (n in ordinals) for n, time in enumerate(times)]
    video, audio = followed(wavering, every=2), followed(times, every=2)
    assert len(video.steps) == len(ordinals)
    scan = Scan()
    join_parts(scan, {0: video, 1: audio})
    assert len(scan.resets) == 1
    assert video.found.offsets == audio.found.offsets == [(50, 50 * STEP)]


def test_of_several_small_steps_back_the_one_beside_the_jump_begins_the_part() -> None:
    video = followed(steps(50) + steps(50, start=50 * STEP - 600 * MS))
    audio_times = steps(50) + steps(50, start=50 * STEP - 400 * MS)
    audio = followed([time - 2 * STEP * (n in (30, 80)) for n, time in enumerate(audio_times)])
    assert len(audio.steps) == 3
    scan = Scan()
    join_parts(scan, {0: video, 1: audio})
    assert len(scan.resets) == 1
    assert audio.found.offsets == [(50, 600 * MS)]


def test_parts_shorter_than_streams_lie_apart_are_told_apart() -> None:
    """Pictures of the third part come before the sound of the second."""
    scan, times = Scan(), steps(30) * 3
    video, audio = StreamClock(StreamScan()), StreamClock(StreamScan())
    for clock, late in ((video, 0), (audio, 45)):
        for ordinal, time in enumerate(times):
            place = Place(in_file=ordinal + late, ordinal=ordinal, shown=time)
            clock.see(place, time, STEP)
    join_parts(scan, {0: video, 1: audio})
    assert scan.resets == [(30 * STEP, 0), (60 * STEP, 0)]
    assert video.found.offsets == audio.found.offsets == [(30, 30 * STEP), (60, 60 * STEP)]


@pytest.mark.parametrize(
    ("first", "container", "expected"),
    [
        (MPEG.us - 2_000_000, MPEG.us - 3_000_000, MPEG.us - 3_000_000),
        (1_000_000, MPEG.us - 2_000_000, -2_000_000),
        (MPEG.us - 2_000_000, 1_000_000, MPEG.us + 1_000_000),
        (5, None, None),
    ],
)
def test_the_containers_own_start_is_on_the_clock_of_its_first_packet(
    first: int, container: int | None, expected: int | None
) -> None:
    turns = Turns(MPEG)
    turns.unwrapped(StreamScan(), 0, first)
    assert turns.start(container) == expected
    other = Turns(None)
    other.unwrapped(StreamScan(), 0, first)
    assert other.start(container) == container


def test_packets_get_the_turns_and_offsets_of_their_part_and_a_stray_gets_no_time() -> None:
    base = Fraction(1, 90_000)
    packets = [
        SimpleNamespace(
            pts=n * 3600, dts=n * 3600, time_base=base, size=1, stream=None, is_discard=False
        )
        for n in range(6)
    ]
    container: Any = SimpleNamespace(demux=lambda stream: iter(packets))
    found = StreamScan(offsets=[(2, 1_000_000)], turns=[(4, MPEG.ticks)], strays={1})
    stream: Any = object()
    made = corrected_packets(
        container, stream, found, first=0, pulse=lambda: None, on_error=lambda error: None
    )
    times = [packet.pts for packet in made]
    assert times == [0, None, *(n * 3600 + 90_000 for n in (2, 3)), *late(packets)]


@pytest.mark.parametrize(("pts", "offset_us"), [(2**63 - 10, 1), (-(2**63) + 10, -1)])
def test_a_time_that_no_packet_can_hold_is_left_out(pts: int, offset_us: int) -> None:
    packet = av.Packet(b"x")
    packet.time_base, packet.pts, packet.dts = Fraction(1, 90_000), pts, 7
    container: Any = SimpleNamespace(demux=lambda stream: iter([packet]))
    stream: Any = SimpleNamespace(type="audio")
    found = StreamScan(offsets=[(0, offset_us * 1_000_000)])
    (made,) = corrected_packets(
        container, stream, found, first=0, pulse=lambda: None, on_error=lambda error: None
    )
    assert made.pts is None
    assert made.dts == 7 + offset_us * 90_000


def late(packets: list[Any]) -> list[int]:
    return [n * 3600 + 90_000 + MPEG.ticks for n in range(4, len(packets))]


# --- sound -------------------------------------------------------------------------------------


class Lossy:
    """As much of a track as counts what is lost."""

    def __init__(self) -> None:
        self.time_base = Fraction(1, 48_000)
        self.context = SimpleNamespace(name="aac", sample_rate=48_000)
        self.declared_end = None
        self.lost: list[tuple[str, int]] = []

    def lose(self, code: str, message: str, *, count: int = 1, **times: object) -> None:
        self.lost.append((code, count))

    def reached(self, time: Fraction) -> None:
        pass


@pytest.mark.parametrize(("hole", "lost"), [(0, 0), (50, 0), (2048, 2048)])
def test_packets_that_gave_nothing_are_lost_only_where_a_hole_follows(hole: int, lost: int) -> None:
    """A decoder may hold two packets back and give their sound with the next ones."""
    track = Lossy()
    mixdown: Any = SimpleNamespace(
        read=lambda frame: np.zeros((1, 1024), np.float32),
        floats=lambda read: read,
        weights=MONO,
    )
    listener = _Listener(track, mixdown)  # type: ignore[arg-type]
    packet: Any = SimpleNamespace(
        is_corrupt=False, is_discard=False, size=9, has_sidedata=lambda kind: False
    )

    def take(ticks: int) -> None:
        listener.take(SimpleNamespace(pts=ticks, sample_rate=48_000))

    take(0)
    for _ in range(2):
        assert listener.frames(packet, []) == []
    take(1024 + hole)
    sound = listener.finish()
    assert sound is not None
    assert sound.lost_samples == lost
    assert track.lost == ([("packets_damaged", 2)] if lost else [])


def test_what_was_filled_is_silent_though_the_filter_rings_into_it() -> None:
    seconds = Seconds()
    seconds.mark_real(0, 6_000)
    seconds.mark_real(10_000, 16_000)
    given = [*seconds.write(0, np.full(16_000, 1.25, np.float32)), *seconds.finish()]
    (second,) = given
    assert (second.real_samples, second.real_start, second.real_end) == (12_000, 0, 16_000)
    assert not second.samples[6_000:10_000].any()
    assert (second.samples[:6_000] == 1.0).all()
    assert (second.samples[10_000:] == 1.0).all()


@pytest.mark.parametrize(("back_ms", "code"), [(400, "audio_overlaps"), (600, "clock_reset")])
def test_a_step_back_of_half_a_second_that_the_scan_did_not_see_is_continued(
    back_ms: int, code: str
) -> None:
    wave: SAMPLES = np.random.default_rng(3).uniform(-0.4, 0.4, 64_000).astype(np.float32)
    remarks = RemarkBook()
    placer = AudioPlacer(remarks, Mixdown())
    seconds = []
    for at in range(0, wave.size, 8_000):
        late = Fraction(back_ms, 1000) if at >= 32_000 else 0
        part = wave[None, at : at + 8_000]
        sound = Sound(start=Fraction(at, 16_000) - late, samples=part, rate_hz=16_000, weights=MONO)
        seconds += list(placer.place(sound))
    seconds += list(placer.finish())
    assert [remark.code for remark in remarks.remarks()] == [code]
    heard = np.concatenate([second.samples for second in seconds])
    is_continued = code == "clock_reset"
    assert sum(second.real_samples for second in seconds) == 64_000 - (
        0 if is_continued else back_ms * 16
    )
    assert np.array_equal(heard[:64_000], wave) is is_continued
