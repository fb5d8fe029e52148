"""Streams that the caller chooses: fed, explained, and refused where they cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import RecordingRefused
from pipeline.media.source import open_source
from pipeline.media.units import UnitMerger
from pipeline.media_child import MediaChild
from pipeline.records import MediaStream, Probe, Unit
from pipeline.settings import MediaLimits
from tests.clips import run_ffmpeg
from tests.pipeline.media.watched import pixels

COVER = 5


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pictures (dark and bright), three sounds (400, 500 and 600 Hz), one cover picture.

    The defaults are the dark picture (0) and the second sound (3).
    """
    folder = tmp_path_factory.mktemp("streams")
    cover = folder / "cover.png"
    run_ffmpeg("-f", "lavfi", "-i", "color=red:s=64x64", "-frames:v", "1", str(cover))
    path = folder / "clip.mp4"
    tones = [("-f", "lavfi", "-i", f"sine={hz}:d=2:r=48000") for hz in (400, 500, 600)]
    shades = [("-f", "lavfi", "-i", f"color={c}:s=64x48:r=5:d=2") for c in ("0x202020", "0xc0c0c0")]
    run_ffmpeg(
        *[part for one in (*shades, *tones) for part in one],
        *("-i", str(cover), "-map", "0", "-map", "1", "-map", "2", "-map", "3", "-map", "4"),
        *("-map", "5", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"),
        *("-c:v:2", "png", "-c:a", "aac", "-disposition:v:0", "default"),
        *("-disposition:v:1", "0", "-disposition:v:2", "attached_pic"),
        *("-disposition:a:0", "0", "-disposition:a:1", "default", str(path)),
    )
    return path


def watched(clip: Path, **wanted: int | None) -> tuple[Probe, Unit]:
    source = open_source(str(clip), start_s=0, limits=MediaLimits(), pulse=lambda: None, **wanted)
    events = list(UnitMerger(source, start_s=0, longest_edge_px=448).events())
    return source.probe, next(event for event in events if isinstance(event, Unit))


def heard_hz(unit: Unit) -> int:
    return int(np.abs(np.fft.rfft(np.frombuffer(unit.pcm, "<f4"))).argmax())


def shade(unit: Unit) -> float:
    assert unit.frame is not None
    return float(pixels(unit.frame).mean())


def by_index(probe: Probe) -> dict[int, MediaStream]:
    return {stream.index: stream for stream in probe.streams}


def test_the_streams_that_the_caller_chose_are_fed_and_the_probe_says_so(clip: Path) -> None:
    probe, unit = watched(clip)
    assert [s.index for s in probe.streams if s.is_chosen] == [0, 3]
    assert (heard_hz(unit), round(shade(unit), -1)) == (500, pytest.approx(30, abs=10))
    assert [s.index for s in probe.streams if s.is_usable] == [0, 1, 2, 3, 4]

    probe, unit = watched(clip, audio_index=4, video_index=1)
    assert (heard_hz(unit), round(shade(unit), -1)) == (600, pytest.approx(190, abs=10))
    streams = by_index(probe)
    assert [s.index for s in probe.streams if s.is_chosen] == [1, 4]
    assert streams[1].reason == streams[4].reason == "chosen by the caller"
    assert streams[0].reason == "another video stream, 1, was chosen"
    assert streams[3].reason == "another audio stream, 4, was chosen"
    assert streams[COVER].reason == "a cover picture"

    probe, unit = watched(clip, audio_index=2)
    assert heard_hz(unit) == 400
    assert [s.index for s in probe.streams if s.is_chosen] == [0, 2]
    assert by_index(probe)[0].reason == "marked as default"


@pytest.mark.parametrize(
    ("wanted", "accepted"),
    [
        ({"audio_index": 0}, "2, 3, 4"),
        ({"audio_index": 9}, "2, 3, 4"),
        ({"video_index": 3}, "0, 1"),
        ({"video_index": COVER}, "0, 1"),
    ],
)
def test_a_stream_that_cannot_be_fed_is_refused_with_those_that_can(
    clip: Path, wanted: dict[str, int], accepted: str
) -> None:
    with pytest.raises(RecordingRefused, match=f"accepted: {accepted}$") as caught:
        watched(clip, **wanted)
    assert caught.value.code == "stream_unknown"


def test_a_stream_without_packets_and_a_kind_that_is_not_there_are_refused(tmp_path: Path) -> None:
    sound = tmp_path / "sound.wav"
    run_ffmpeg("-f", "lavfi", "-i", "sine=400:d=1", str(sound))
    with pytest.raises(RecordingRefused, match="leave the choice to OmnAI"):
        watched(sound, video_index=0)


def test_a_lone_still_beside_sound_is_shown_where_the_caller_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "still.mkv"
    run_ffmpeg(
        *("-f", "lavfi", "-i", "color=0xc0c0c0:s=64x48:r=1:d=1", "-f", "lavfi"),
        *("-i", "sine=400:d=2", "-c:v", "mjpeg", "-frames:v", "1", "-c:a", "flac", str(path)),
    )
    probe, unit = watched(path)
    assert unit.frame is None
    assert by_index(probe)[0].reason == "a single still beside sound: a cover picture"
    probe, unit = watched(path, video_index=0)
    assert by_index(probe)[0].reason == "chosen by the caller"
    assert shade(unit) == pytest.approx(192, abs=10)


@pytest.mark.parametrize(
    ("marks", "chosen"),
    [
        (("comment", "0"), 1),
        (("0", "comment"), 0),
        (("comment+default", "default"), 1),
        (("comment+default", "0"), 0),  # what the file calls the default is taken
        (("comment", "comment"), 0),
    ],
)
def test_a_commentary_is_heard_only_where_nothing_else_is_as_much_the_default(
    tmp_path: Path, marks: tuple[str, str], chosen: int
) -> None:
    path = tmp_path / "two.mkv"
    run_ffmpeg(
        *("-f", "lavfi", "-i", "sine=400:d=1:r=48000", "-f", "lavfi", "-i", "sine=500:d=1:r=48000"),
        *("-map", "0", "-map", "1", "-c:a", "flac", "-disposition:a:0", marks[0]),
        *("-disposition:a:1", marks[1], "-default_mode", "passthrough", str(path)),
    )
    probe, unit = watched(path)
    assert [s.index for s in probe.streams if s.is_chosen] == [chosen]
    assert heard_hz(unit) == (400, 500)[chosen]


def test_the_choice_reaches_the_media_process_and_its_refusal_comes_back(clip: Path) -> None:
    with MediaChild(
        clip, limits=MediaLimits(), longest_edge_px=448, audio_stream=4, video_stream=1
    ) as media:
        probe, unit = next(iter(media)), next(iter(media))
    assert isinstance(probe, Probe)
    assert [s.index for s in probe.streams if s.is_chosen] == [1, 4]
    assert isinstance(unit, Unit)
    assert heard_hz(unit) == 600
    with (
        pytest.raises(RecordingRefused, match="no audio stream 7"),
        MediaChild(clip, limits=MediaLimits(), longest_edge_px=448, audio_stream=7) as media,
    ):
        next(iter(media))
