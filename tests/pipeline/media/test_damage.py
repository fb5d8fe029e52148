"""A damaged file yields what FFmpeg reads of it, on both sides of the damage, at its own time."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from pipeline.errors import RecordingRefused
from tests.clips import Clips
from tests.pipeline.media.agreement import heard_elsewhere
from tests.pipeline.media.combinations import CONTAINERS, Case, make
from tests.pipeline.media.test_exactness import LONG_SETTING
from tests.pipeline.media.truth import Truth, decode_truth
from tests.pipeline.media.watched import watch

DAMAGES = ("zeroed", "overwritten", "cut_out", "put_in", "cut_off")

LOST_S = 0.15
"""Two builds of FFmpeg may give up a few packets more or less around the damage."""

WHOLE = [
    *(("faststart", "aac"), ("fragmented", "aac"), ("mov", "s16"), ("mkv", "aac"), ("mkv", "mp3")),
    *(("webm", "opus"), ("ts", "aac"), ("avi", "mp3"), ("flv", "aac"), ("asf", "wma2")),
    *(("ogg", "vorbis"), ("ps", "mp2"), ("3gp", "aac"), ("wav", "s16"), ("w64", "s16")),
    *(("aiff", "s16be"), ("caf", "s16be"), ("flac", "flac"), ("mp3", "mp3"), ("adts", "aac")),
    *(("amr", "amrnb"), ("ac3", "ac3"), ("m4a", "aac"), ("mka", "opus"), ("oga", "vorbis")),
    *(("oga", "opus"), ("wma", "wma2"), ("gif", None)),
]
SHORT = [
    *((("mkv", "aac"), "zeroed"), (("ts", "aac"), "overwritten"), (("faststart", "aac"), "zeroed")),
    *((("fragmented", "aac"), "cut_off"), (("mp3", "mp3"), "put_in"), (("flac", "flac"), "zeroed")),
    *((("avi", "mp3"), "overwritten"), (("ogg", "vorbis"), "cut_out"), (("wav", "s16"), "cut_off")),
]
IS_LONG = os.environ.get(LONG_SETTING) == "1"


@pytest.mark.parametrize(("kind", "damage"), SHORT, ids=str)
def test_what_can_be_read_of_a_damaged_file_is_fed(
    clips: Clips, kind: tuple[str, str | None], damage: str
) -> None:
    assert not wrong(clips, kind, damage, seed=1)


@pytest.mark.skipif(not IS_LONG, reason=f"takes many minutes: set {LONG_SETTING}=1 to run it")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_what_can_be_read_of_hundreds_of_damaged_files_is_fed(clips: Clips, seed: int) -> None:
    found = {
        (kind, damage): wrong(clips, kind, damage, seed=seed)
        for kind in WHOLE
        for damage in DAMAGES
    }
    assert not {name: faults for name, faults in found.items() if faults}


def wrong(clips: Clips, kind: tuple[str, str | None], damage: str, *, seed: int) -> list[str]:
    container, audio = kind
    held = CONTAINERS[container].video
    whole = make(
        clips,
        Case(
            container=container,
            video=held[0] if held else None,
            audio=audio,
            fps="25" if container == "ps" else "10",
            rate_hz=44_100 if container == "flv" else 48_000,
        ),
    )
    assert whole is not None
    source = random.Random(f"{seed} {kind} {damage}")
    path = clips.write(
        f"{container}-{damage}{whole.suffix}", damaged(whole.read_bytes(), damage, source)
    )
    return compared(path, decode_truth(path))


def damaged(content: bytes, damage: str, source: random.Random) -> bytes:
    at = int(len(content) * source.uniform(0.3, 0.7))
    size = max(int(len(content) * source.uniform(0.01, 0.08)), 200)
    before, after = content[:at], content[at:]
    match damage:
        case "zeroed":
            return before + bytes(size) + after[size:]
        case "overwritten":
            return before + source.randbytes(size) + after[size:]
        case "cut_out":
            return before + after[size:]
        case "put_in":
            return before + source.randbytes(size) + after
        case _:
            return before


def compared(path: Path, truth: Truth) -> list[str]:
    """What is less in our units than in FFmpeg's decode, or elsewhere."""
    heard_s = sum(heard.count for heard in truth.sounds) / truth.rate_hz
    try:
        watched = watch(path)
    except RecordingRefused as refused:
        is_nothing = heard_s < LOST_S and len(truth.pictures) < 2
        return [] if is_nothing else [f"{refused.code}, but FFmpeg reads {heard_s:.1f} s"]
    found = []
    real_s = watched.end.real_samples / 16_000
    if real_s < heard_s - LOST_S:
        found.append(f"{real_s:.2f} s of sound, FFmpeg reads {heard_s:.2f} s")
    seconds = {int(time - truth.origin) for time in truth.pictures}
    if len(seconds - set(watched.own_frames)) > 1:
        found.append(f"pictures in {sorted(watched.own_frames)}, FFmpeg's in {sorted(seconds)}")
    if truth.sounds and truth.is_whole:
        found += heard_elsewhere(watched, truth, tones=6, exact_s=0.002)
    return found
