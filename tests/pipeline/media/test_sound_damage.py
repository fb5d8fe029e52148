"""Spoiled packets are told with their time, and the sound on both sides of them stays in place."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from tests.clips import Clips, ffmpeg_pcm
from tests.pipeline.media.noise import PIECE, decoded_seconds, lags, noise_input
from tests.pipeline.media.remux import Edit, remux
from tests.pipeline.media.watched import Watched, watch

SECONDS = 6

CODECS = {
    "aac": ("-c:a", "aac", "-b:a", "96k"),
    "mp3": ("-c:a", "libmp3lame", "-b:a", "96k"),
    "ac3": ("-c:a", "ac3", "-b:a", "96k"),
    "mp2": ("-c:a", "mp2", "-b:a", "96k"),
    "opus": ("-c:a", "libopus", "-b:a", "64k"),
    "opus 2.5 ms": ("-c:a", "libopus", "-b:a", "128k", "-frame_duration", "2.5"),
    "vorbis": ("-c:a", "libvorbis"),
    "flac": ("-c:a", "flac", "-frame_size", "1152"),
    "alac": ("-c:a", "alac"),
}

SPOILED = [
    ("aac", "mkv", "noise"),
    ("aac", "mp4", "noise"),
    ("aac", "ts", "noise"),
    ("aac", "ts", "zeros"),
    ("mp3", "mkv", "noise"),
    ("mp3", "mp4", "zeros"),
    ("mp3", "ts", "stub"),
    ("mp3", "avi", "noise"),
    ("ac3", "mkv", "zeros"),
    ("ac3", "ts", "noise"),
    ("mp2", "mpg", "noise"),
    ("opus", "mkv", "zeros"),
    ("opus", "mp4", "stub"),
    ("opus 2.5 ms", "mkv", "lost"),
    ("opus 2.5 ms", "mp4", "lost"),
    ("vorbis", "mkv", "noise"),
    ("flac", "mkv", "noise"),
    ("flac", "mp4", "stub"),
    ("flac", "ogg", "zeros"),
    ("alac", "mp4", "noise"),
]
"""Codec, container, and what three packets in the middle are made of; of Opus' shortest, one is
lost."""

CAUSES = {"audio_decode_errors", "audio_packets_damaged", "audio_missing", "audio_overlaps"}


def clip(clips: Clips, codec: str, kind: str) -> tuple[Path, list[int]]:
    path = clips.make(f"a.{kind}", *noise_input(clips, SECONDS), *CODECS[codec])
    with av.open(str(path)) as container:
        sizes = [p.size for p in container.demux(container.streams.audio[0]) if p.size]
    return path, sizes


def told(watched: Watched) -> list[tuple[int, int]]:
    found = [
        (remark.start_ms, remark.end_ms)
        for remark in watched.end.remarks
        if remark.code in CAUSES and remark.start_ms is not None and remark.end_ms is not None
    ]
    return [(start, end) for start, end in found if start is not None and end is not None]


@pytest.mark.parametrize(("codec", "kind", "content"), SPOILED)
def test_what_is_spoiled_is_told_and_the_rest_stays_in_place(
    clips: Clips, codec: str, kind: str, content: str
) -> None:
    path, sizes = clip(clips, codec, kind)
    middle = len(sizes) // 2
    rng = np.random.default_rng(7)
    made = {"noise": rng.bytes, "zeros": bytes, "stub": lambda size: rng.bytes(3)}
    edits = {
        ("audio", middle + n): Edit(is_lost=True)
        if content == "lost"
        else Edit(content=made[content](sizes[middle + n]))
        for n in range(1 if content == "lost" else 3)
    }
    spoiled = remux(path, edits)
    watched = watch(spoiled)
    found = lags(ffmpeg_pcm(path), watched.sound)
    hit = range(2900 * 16 // PIECE, 3200 * 16 // PIECE + 1)
    assert {n: lag for n, lag in found.items() if n not in hit and abs(lag or 0) > 8} == {}
    assert None not in [lag for n, lag in found.items() if n not in hit]
    ranges = told(watched)
    assert ranges
    assert all(2850 <= start <= end <= 3300 for start, end in ranges)
    if (codec, content) == ("flac", "stub"):  # the decoder says nothing of these
        assert sum(remark.count for remark in watched.remarks("audio_packets_damaged")) == 3
    # As much as FFmpeg decodes is heard; what it decodes beyond its time cannot be.
    decoded = decoded_seconds(spoiled)
    overlapped = sum(
        (remark.end_ms or 0) - (remark.start_ms or 0)
        for remark in watched.remarks("audio_overlaps")
    )
    assert watched.end.real_samples / 16_000 == pytest.approx(
        decoded - overlapped / 1000, abs=0.0015
    )
    if content != "lost":
        filled_ms = watched.end.filled_samples / 16
        assert sum(end - start for start, end in ranges) == pytest.approx(
            filled_ms + overlapped, abs=60
        )


@pytest.mark.parametrize(
    ("codec", "kind"),
    [("aac", "mkv"), ("aac", "mp4"), ("aac", "ts"), ("mp3", "mkv"), ("flac", "mkv"), ("ac3", "ts")],
)
def test_bad_bytes_in_the_middle_of_a_file_cost_no_more_than_ffmpeg_loses(
    clips: Clips, codec: str, kind: str
) -> None:
    path, _ = clip(clips, codec, kind)
    content = bytearray(path.read_bytes())
    at = len(content) // 2
    content[at : at + 1500] = np.random.default_rng(3).bytes(1500)
    spoiled = clips.write(f"bytes.{kind}", bytes(content))
    watched = watch(spoiled)
    assert watched.end.real_samples / 16_000 == pytest.approx(decoded_seconds(spoiled), abs=0.0015)
    found = lags(ffmpeg_pcm(path), watched.sound)
    assert [abs(found[n] or 0) for n in (0, 1, 2, 3, 10, 11)] == [0] * 6
    filled_ms = watched.end.filled_samples / 16
    assert filled_ms > 20
    lost = [pair for pair in told(watched) if pair[0] >= 2500]
    assert max(end for _, end in lost) - min(start for start, _ in lost) >= filled_ms - 2


@pytest.mark.parametrize("size", [700, 9_000])
@pytest.mark.parametrize("content", ["zeros", "noise"])
def test_frames_of_a_flac_file_are_heard_up_to_the_damage(
    clips: Clips, size: int, content: str
) -> None:
    """FFmpeg hands the last ones out together with the damage.

    PyAV 17 then gives none of them; PyAV 18 gives all, a damaged one that can be decoded all the
    same among them, and no error: what is lost after it is a gap.
    """
    given_ms = 24 if int(av.__version__.split(".")[0]) >= 18 else 0
    path = clips.make("a.flac", *noise_input(clips, SECONDS), *CODECS["flac"])
    damaged = bytearray(path.read_bytes())
    at = len(damaged) // 2
    rng = np.random.default_rng(5)
    damaged[at : at + size] = bytes(size) if content == "zeros" else rng.bytes(size)
    with av.open(str(path)) as container:
        places = [(p.pos or 0, p.size, p.pts or 0) for p in container.demux() if p.size]
    whole = max(pts + 1152 for pos, length, pts in places if pos + length <= at) // 3
    first_behind = min(pts for pos, _, pts in places if pos >= at + size) // 3
    watched = watch(clips.write("damaged.flac", bytes(damaged)))
    expected, heard = ffmpeg_pcm(path), watched.sound
    assert np.abs(heard[: whole - 64] - expected[: whole - 64]).max() < 1e-3
    behind = slice(first_behind + 64, expected.size)
    assert np.abs(heard[behind] - expected[behind]).max() < 1e-3
    lost = told(watched)
    assert any(start <= whole / 16 + given_ms + 1 and end >= whole / 16 for start, end in lost)


@pytest.mark.parametrize(
    ("kind", "codec", "options"),
    [
        ("wav", "pcm_s16le", ()),
        ("wav", "pcm_s24le", ()),
        ("w64", "pcm_f32le", ()),
        ("mov", "pcm_s24be", ("-movflags", "+faststart")),
    ],
)
def test_a_file_that_is_cut_within_a_sample_is_heard_to_its_last_whole_one(
    clips: Clips, kind: str, codec: str, options: tuple[str, ...]
) -> None:
    path = clips.make(f"a.{kind}", *noise_input(clips, 2), "-ac", "2", "-c:a", codec, *options)
    cut = clips.write(f"cut.{kind}", path.read_bytes()[:-77])
    heard, expected = watch(cut).end.real_samples, ffmpeg_pcm(cut).size
    assert expected < ffmpeg_pcm(path).size
    assert abs(heard - expected) <= 1


def test_damage_is_told_where_it_is_though_nothing_in_the_file_has_a_time(clips: Clips) -> None:
    path = clips.make("a.aac", *noise_input(clips, SECONDS), *CODECS["aac"])
    content = bytearray(path.read_bytes())
    at = len(content) // 2
    content[at : at + 900] = np.random.default_rng(3).bytes(900)
    watched = watch(clips.write("bytes.aac", bytes(content)))
    (remark,) = watched.remarks("audio_decode_errors")
    assert remark.start_ms == pytest.approx(3000, abs=150)


def test_packets_marked_as_damaged_are_told_where_they_are(clips: Clips) -> None:
    path, _ = clip(clips, "aac", "ts")
    content = bytearray(path.read_bytes())
    at = len(content) // 2 // 188 * 188
    del content[at : at + 188]  # the continuity counters tell of it
    watched = watch(clips.write("hole.ts", bytes(content)))
    marked = watched.remarks("audio_packets_damaged") + watched.remarks("audio_decode_errors")
    assert marked
    for remark in marked:
        assert remark.start_ms is not None
        assert remark.end_ms is not None
        assert 2500 <= remark.start_ms <= remark.end_ms <= 3500


def test_what_a_decoder_holds_back_or_a_file_hides_is_no_damage(clips: Clips) -> None:
    """Priming, pre-skip and the first block of Vorbis give packets without sound."""
    for codec, kind in [("aac", "mp4"), ("mp3", "mp4"), ("opus", "mkv"), ("vorbis", "ogg")]:
        path, _ = clip(clips, codec, kind)
        watched = watch(path)
        assert not told(watched), (codec, kind)
