"""Clips in every combination of codec, container, offset, rate and hole that FFmpeg can write."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.clips import TONE, Clips

LENGTH_S = 6
"""Long enough for two seconds before and after every hole."""

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")

VIDEO: dict[str, tuple[str, ...]] = {
    "h264": X264,
    "h264b": (
        *("-c:v", "libx264", "-preset", "veryfast", "-bf", "3", "-b_strategy", "0"),
        *("-pix_fmt", "yuv420p"),
    ),
    "hevc": ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "bframes=3:log-level=0"),
    "mpeg1": ("-c:v", "mpeg1video", "-q:v", "2", "-bf", "2"),
    "mpeg2": ("-c:v", "mpeg2video", "-q:v", "2"),
    "mpeg2b": ("-c:v", "mpeg2video", "-q:v", "2", "-bf", "2"),
    "mpeg4": ("-c:v", "mpeg4", "-q:v", "3"),
    "mpeg4b": ("-c:v", "mpeg4", "-q:v", "3", "-bf", "2"),
    "vp8": ("-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "300k"),
    "vp9": ("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8"),
    "vp9alt": (
        *("-c:v", "libvpx-vp9", "-deadline", "good", "-cpu-used", "5"),
        *("-auto-alt-ref", "1", "-lag-in-frames", "16"),
    ),
    "av1": ("-c:v", "libsvtav1", "-preset", "12", "-svtav1-params", "lp=1"),
    "mjpeg": ("-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj420p"),
    "prores": ("-c:v", "prores_ks", "-profile:v", "0", "-pix_fmt", "yuv422p10le"),
    "raw": ("-c:v", "rawvideo", "-pix_fmt", "yuv420p"),
    "rawmov": ("-c:v", "rawvideo", "-pix_fmt", "uyvy422"),
    "ffv1": ("-c:v", "ffv1"),
    "huffyuv": ("-c:v", "huffyuv", "-pix_fmt", "yuv422p"),
    "flv1": ("-c:v", "flv"),
    "wmv1": ("-c:v", "wmv1", "-q:v", "3"),
    "wmv2": ("-c:v", "wmv2", "-q:v", "3"),
    "msmpeg4": ("-c:v", "msmpeg4", "-q:v", "3"),
    "theora": ("-c:v", "libtheora", "-q:v", "8"),
    "h263": ("-c:v", "h263", "-q:v", "3", "-s", "128x96"),
    "png": ("-c:v", "png", "-pix_fmt", "rgb24"),
    "gif": ("-c:v", "gif"),
    "dnxhd": ("-c:v", "dnxhd", "-profile:v", "dnxhr_lb", "-s", "256x128", "-pix_fmt", "yuv422p"),
    "dv": ("-c:v", "dvvideo", "-s", "720x576", "-pix_fmt", "yuv420p"),
}

AUDIO: dict[str, tuple[str, ...]] = {
    "aac": ("-c:a", "aac", "-b:a", "96k"),
    "mp3": ("-c:a", "libmp3lame", "-b:a", "96k"),
    "mp2": ("-c:a", "mp2", "-b:a", "128k"),
    "opus": ("-c:a", "libopus", "-b:a", "64k"),
    "opus60": ("-c:a", "libopus", "-b:a", "64k", "-frame_duration", "60"),
    "opus2.5": ("-c:a", "libopus", "-b:a", "96k", "-frame_duration", "2.5"),
    "vorbis": ("-c:a", "libvorbis", "-q:a", "5"),
    "flac": ("-c:a", "flac"),
    "alac": ("-c:a", "alac"),
    "ac3": ("-c:a", "ac3", "-b:a", "128k"),
    "eac3": ("-c:a", "eac3", "-b:a", "128k"),
    "dts": ("-c:a", "dca", "-strict", "-2", "-b:a", "768k", "-ar", "48000", "-ac", "2"),
    "u8": ("-c:a", "pcm_u8"),
    "s16": ("-c:a", "pcm_s16le"),
    "s16be": ("-c:a", "pcm_s16be"),
    "s24": ("-c:a", "pcm_s24le"),
    "s24be": ("-c:a", "pcm_s24be"),
    "s32": ("-c:a", "pcm_s32le"),
    "f32": ("-c:a", "pcm_f32le"),
    "f32be": ("-c:a", "pcm_f32be"),
    "f64": ("-c:a", "pcm_f64le"),
    "mulaw": ("-c:a", "pcm_mulaw"),
    "alaw": ("-c:a", "pcm_alaw"),
    "adpcm_ms": ("-c:a", "adpcm_ms"),
    "ima_wav": ("-c:a", "adpcm_ima_wav"),
    "ima_qt": ("-c:a", "adpcm_ima_qt"),
    "wma1": ("-c:a", "wmav1", "-b:a", "96k"),
    "wma2": ("-c:a", "wmav2", "-b:a", "96k"),
    "amrnb": ("-c:a", "libopencore_amrnb", "-b:a", "12.2k", "-ar", "8000", "-ac", "1"),
    "tta": ("-c:a", "tta"),
    "wavpack": ("-c:a", "wavpack"),
    "truehd": ("-c:a", "truehd", "-strict", "-2"),
    "s302m": ("-c:a", "s302m", "-strict", "-2", "-ar", "48000", "-ac", "2"),
    "bluray": ("-c:a", "pcm_bluray", "-ar", "48000", "-ac", "2"),
    "speex": ("-c:a", "libspeex"),
}


@dataclass(frozen=True, kw_only=True)
class Container:
    """What one container holds, and how FFmpeg is told to write it."""

    suffix: str
    video: tuple[str, ...]
    audio: tuple[str, ...]
    options: tuple[str, ...] = ()
    is_offset_kept: bool = True
    """Whether it has a place for a start other than 0 and for holes."""


_PCM = ("u8", "s16", "s24", "s32", "f32", "f64", "mulaw", "alaw")

CONTAINERS: dict[str, Container] = {
    "mp4": Container(
        suffix="mp4",
        video=("h264", "h264b", "hevc", "mpeg4b", "mpeg2b", "vp9", "vp9alt", "av1", "mjpeg"),
        audio=("aac", "mp3", "ac3", "eac3", "alac", "flac", "opus", "vorbis", "dts", "s16", "f32"),
    ),
    "faststart": Container(
        suffix="mp4",
        video=("h264b", "hevc"),
        audio=("aac", "opus"),
        options=("-movflags", "+faststart", "-video_track_timescale", "1000000"),
    ),
    "fragmented": Container(
        suffix="mp4",
        video=("h264", "h264b", "hevc", "av1", "vp9"),
        audio=("aac", "opus", "flac", "ac3"),
        options=("-movflags", "frag_keyframe+empty_moov+default_base_moof"),
    ),
    "delayed": Container(
        suffix="mp4",
        video=("h264", "h264b"),
        audio=("aac", "opus"),
        options=("-movflags", "frag_keyframe+delay_moov", "-frag_duration", "700000"),
    ),
    "negative_cts": Container(
        suffix="mp4",
        video=("h264b", "hevc"),
        audio=("aac", "mp3"),
        options=("-movflags", "+negative_cts_offsets"),
    ),
    "mov": Container(
        suffix="mov",
        video=("h264b", "hevc", "prores", "mjpeg", "rawmov", "mpeg4", "png", "dnxhd"),
        audio=("aac", "s16", "s16be", "s24", "s24be", "f32", "f32be", "alac", "ima_qt", "mulaw"),
    ),
    "mkv": Container(
        suffix="mkv",
        video=(
            *("h264", "h264b", "hevc", "mpeg2b", "mpeg4b", "vp8", "vp9alt", "av1"),
            *("mjpeg", "prores", "raw", "ffv1", "huffyuv", "theora", "wmv2", "dv"),
        ),
        audio=(
            *("aac", "mp3", "mp2", "opus", "opus60", "opus2.5", "vorbis", "flac", "alac", "ac3"),
            *("eac3", "dts", "s16", "s24", "f32", "mulaw", "wma2", "tta", "wavpack", "truehd"),
        ),
    ),
    "live_mkv": Container(
        suffix="mkv",
        video=("h264b", "vp8"),
        audio=("aac", "opus"),
        options=("-live", "1", "-cluster_time_limit", "500"),
    ),
    "webm": Container(
        suffix="webm", video=("vp8", "vp9", "vp9alt", "av1"), audio=("opus", "vorbis", "opus60")
    ),
    "ts": Container(
        suffix="ts",
        video=("h264", "h264b", "hevc", "mpeg2b", "mpeg1", "mpeg4"),
        audio=("aac", "mp3", "mp2", "ac3", "eac3", "opus", "dts", "s302m"),
        options=("-muxdelay", "0", "-muxpreload", "0"),
    ),
    "ts_delay": Container(suffix="ts", video=("h264b", "mpeg2b"), audio=("aac", "mp2"), options=()),
    "latm": Container(
        suffix="ts",
        video=("h264b",),
        audio=("aac",),
        options=("-mpegts_flags", "latm", "-pes_payload_size", "0"),
    ),
    "m2ts": Container(
        suffix="m2ts",
        video=("h264b", "mpeg2b"),
        audio=("ac3", "bluray", "aac"),
        options=("-mpegts_m2ts_mode", "1"),
    ),
    "avi": Container(
        suffix="avi",
        video=("h264", "mpeg4", "mjpeg", "raw", "huffyuv", "ffv1", "msmpeg4", "dv"),
        audio=("mp3", "s16", "ac3", "aac", "adpcm_ms", "mp2", "u8"),
        is_offset_kept=False,
    ),
    "flv": Container(
        suffix="flv",
        video=("h264", "h264b", "flv1", "hevc", "av1"),
        audio=("aac", "mp3", "s16"),
        options=("-ar", "44100"),
    ),
    "asf": Container(
        suffix="wmv",
        video=("wmv1", "wmv2", "msmpeg4", "h264"),
        audio=("wma1", "wma2", "mp3", "aac", "s16"),
    ),
    "ogg": Container(suffix="ogv", video=("theora",), audio=("vorbis", "opus", "flac", "opus60")),
    "ps": Container(suffix="mpg", video=("mpeg1", "mpeg2", "mpeg2b"), audio=("mp2", "mp3")),
    "vob": Container(
        suffix="vob", video=("mpeg2b", "h264b"), audio=("ac3", "mp2", "dts"), options=("-f", "vob")
    ),
    "3gp": Container(suffix="3gp", video=("h263", "mpeg4", "h264"), audio=("aac", "amrnb")),
    "wav": Container(
        suffix="wav",
        video=(),
        audio=(*_PCM, "adpcm_ms", "ima_wav", "mp3", "ac3"),
        is_offset_kept=False,
    ),
    "rf64": Container(
        suffix="wav",
        video=(),
        audio=("s16", "s24", "f32"),
        options=("-rf64", "always"),
        is_offset_kept=False,
    ),
    "w64": Container(
        suffix="w64", video=(), audio=("u8", "s16", "s24", "f32", "mulaw"), is_offset_kept=False
    ),
    "aiff": Container(
        suffix="aiff", video=(), audio=("s16be", "s24be", "f32be", "mulaw"), is_offset_kept=False
    ),
    "caf": Container(
        suffix="caf",
        video=(),
        audio=("s16be", "s24be", "f32", "alac", "opus", "mulaw"),
        is_offset_kept=False,
    ),
    "flac": Container(suffix="flac", video=(), audio=("flac",), is_offset_kept=False),
    "mp3": Container(suffix="mp3", video=(), audio=("mp3",), is_offset_kept=False),
    "mp3bare": Container(
        suffix="mp3",
        video=(),
        audio=("mp3",),
        options=("-write_xing", "0", "-id3v2_version", "0"),
        is_offset_kept=False,
    ),
    "adts": Container(suffix="aac", video=(), audio=("aac",), is_offset_kept=False),
    "amr": Container(suffix="amr", video=(), audio=("amrnb",), is_offset_kept=False),
    "ac3": Container(suffix="ac3", video=(), audio=("ac3",), is_offset_kept=False),
    "eac3": Container(suffix="eac3", video=(), audio=("eac3",), is_offset_kept=False),
    "m4a": Container(suffix="m4a", video=(), audio=("aac", "alac")),
    "mka": Container(suffix="mka", video=(), audio=("flac", "opus", "mp3", "aac", "vorbis")),
    "oga": Container(
        suffix="ogg", video=(), audio=("vorbis", "opus", "flac", "opus2.5"), is_offset_kept=False
    ),
    "wma": Container(suffix="wma", video=(), audio=("wma1", "wma2")),
    "gif": Container(suffix="gif", video=("gif",), audio=(), is_offset_kept=False),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One clip; source second k of it sweeps from 400 + 250·k Hz, and shows the grey 20 + 10·k."""

    container: str
    video: str | None = "h264b"
    audio: str | None = "aac"
    rate_hz: int = 48_000
    fps: str = "10"
    late_s: float = 0
    """By how much the sound begins later than the pictures; earlier where negative."""
    offset_s: float = 0
    """What the container says of the beginning."""
    hole: str = ""
    keys: int = 10
    """Pictures from one key picture to the next."""

    @property
    def label(self) -> str:
        return " ".join(
            str(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )


HOLES: dict[str, tuple[str, str]] = {
    "": ("", ""),
    "sound": ("between(t,2.5,3.6)", ""),
    "picture": ("", "between(t,2.5,3.6)"),
    "both": ("between(t,2.5,3.6)", "between(t,2.5,3.6)"),
    "sound_packets": ("eq(mod(n,20),9)", ""),
    "sound_end": ("gt(t,3.3)", ""),
    "picture_end": ("", "gt(t,3.3)"),
    "jump": ("", ""),
    "vfr": ("", ""),
}
"""Packets left out of the sound and of the pictures, by their time."""

JUMP_S = 45
"""More than a pause: the index jumps over it."""

RATES = (8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000)
FPS = ("1", "5", "10", "12.5", "15", "24000/1001", "25", "30000/1001", "30", "50", "60")
LATES = (0, 0.35, 1.5, 3, -0.48, -2)
OFFSETS = (0, 36_000, 95_440.7, -0.5, 1.4)

HOUR_S = 3600

MPEG_FPS = {"24000/1001", "25", "30000/1001", "30", "50", "60"}
MP3_RATES = {44_100, 22_050, 11_025}


def valid(case: Case) -> bool:
    """Whether FFmpeg can write it, and it says something."""
    container = CONTAINERS[case.container]
    if case.video not in (*container.video, None) or case.audio not in (*container.audio, None):
        return False
    if case.video is None and case.audio is None:
        return False
    if case.late_s and None in (case.video, case.audio):
        return False
    if not container.is_offset_kept and (case.late_s or case.offset_s or case.hole):
        return False
    if case.video in ("mpeg1", "mpeg2", "mpeg2b") and case.fps not in MPEG_FPS:
        return False
    if case.video == "dv" and case.fps != "25":
        return False
    if case.container == "flv" and case.rate_hz != 44_100:
        return False
    if case.audio in ("wma1", "wma2") and case.rate_hz > 48_000:
        return False
    if case.video is None and case.hole in ("picture", "picture_end", "vfr"):
        return False
    if case.audio is None and case.hole in ("sound", "sound_packets", "sound_end"):
        return False
    if case.offset_s < 0 and case.container not in ("mp4", "faststart", "mov", "mkv", "mka", "m4a"):
        return False
    is_counted = case.container == "mov" or case.audio in ("s16", "f32")
    if is_counted and container.suffix in ("mov", "mp4") and case.hole[:5] in ("sound", "both"):
        return False  # FFmpeg's writer closes holes between samples of a constant length
    if case.container == "fragmented" and case.late_s < 0:
        return False  # FFmpeg's writer dates the first picture 0
    if case.container == "ogg" and case.offset_s > HOUR_S:
        return False  # its headers stay at 0
    if case.container in ("ps", "vob") and (case.hole == "vfr" or case.video == "h264b"):
        return case.hole == ""  # not every picture has a time
    if case.hole in ("picture", "both") and case.keys > 10:
        return False  # what follows could not be decoded
    return not (case.container in ("ps", "vob") and (case.offset_s > 90_000 or case.hole == "jump"))


def arguments(case: Case) -> tuple[str, ...]:
    """What FFmpeg is told to write the clip."""
    container = CONTAINERS[case.container]
    given: list[str] = []
    if case.audio is not None:
        first = max(case.late_s, 0)
        second, part = f"floor(t+{first})", f"mod(t+{first}\\,1)"
        wave = f"{TONE}*sin(2*PI*((400+250*{second})*{part}+200*{part}^2))*lt({part}\\,0.5)"
        length = LENGTH_S - first
        if case.late_s > 0:
            given += ["-itsoffset", str(case.late_s)]
        given += ["-f", "lavfi", "-i", f"aevalsrc={wave}:s={case.rate_hz}:d={length}"]
    if case.video is not None:
        first = max(-case.late_s, 0)
        if case.late_s < 0:
            given += ["-itsoffset", str(-case.late_s)]
        source = f"color=black:s=64x48:r={case.fps}:d={LENGTH_S - first},format=yuv420p"
        shade = f"geq=lum='20+10*floor(T+{first}+0.000001)':cb=128:cr=128"
        thin = ",select='not(mod(floor(n/3)\\,4))+lt(n\\,2)'" if case.hole == "vfr" else ""
        given += ["-f", "lavfi", "-i", f"{source},{shade}{thin}"]
        given += ["-fps_mode", "passthrough" if case.container != "gif" else "vfr"]
        given += [*VIDEO[case.video]]
        if case.video not in ("dv", "mjpeg", "raw", "rawmov", "prores", "png", "huffyuv", "ffv1"):
            given += ["-g", str(case.keys)]
    if case.audio is not None:
        given += AUDIO[case.audio]
    sound, picture = HOLES[case.hole]
    if sound and case.audio is not None:
        given += ["-bsf:a", f"noise=drop='{_in_seconds(sound)}'"]
    if picture and case.video is not None:
        given += ["-bsf:v", f"noise=drop='{_in_seconds(picture)}'"]
    if case.hole == "jump":
        moved = f"+gte(PTS*TB\\,3)*{JUMP_S}/TB"
        both = f"setts=pts='PTS{moved}':dts='DTS{moved}'"
        given += ["-force_key_frames", "3", "-bsf:a", both] if case.audio is not None else []
        given += ["-bsf:v", both] if case.video is not None else []
    if case.offset_s:
        given += ["-output_ts_offset", str(case.offset_s)]
    if case.offset_s < 0:
        given += ["-avoid_negative_ts", "disabled"]
    return (*given, *container.options)


def _in_seconds(expression: str) -> str:
    return expression.replace("(t,", "(pts*tb,")


REFUSED_BY_FFMPEG = ("Nothing was written", "Error writing trailer", "Could not write header")


def make(clips: Clips, case: Case) -> Path | None:
    """The clip; None where FFmpeg's writers do not take the combination after all."""
    try:
        return clips.make(f"c.{CONTAINERS[case.container].suffix}", *arguments(case))
    except AssertionError as failed:
        if any(words in str(failed) for words in REFUSED_BY_FFMPEG):
            return None
        raise


def every_codec() -> Iterator[Case]:
    """Each container with each of its codecs once, the other side walking along."""
    for name, container in CONTAINERS.items():
        for n in range(max(len(container.video), len(container.audio))):
            video = container.video[n % len(container.video)] if container.video else None
            audio = container.audio[n % len(container.audio)] if container.audio else None
            fps = "25" if video in ("dv", "mpeg1", "mpeg2", "mpeg2b") else "10"
            rate = 44_100 if name == "flv" else 48_000
            case = Case(container=name, video=video, audio=audio, fps=fps, rate_hz=rate)
            assert valid(case), case
            yield case


def pairwise_cases(*, seed: int, most: int) -> list[Case]:
    """Cases that together hold every pair of values that can meet, greedily, in a fixed order."""
    axes: dict[str, tuple[Any, ...]] = {
        "container": tuple(CONTAINERS),
        "video": (*VIDEO, None),
        "audio": (*AUDIO, None),
        "rate_hz": RATES,
        "fps": FPS,
        "late_s": LATES,
        "offset_s": OFFSETS,
        "hole": tuple(HOLES),
        "keys": (1, 10, 250),
    }
    random_source = random.Random(seed)
    seen: set[tuple[tuple[str, Any], tuple[str, Any]]] = set()
    cases: list[Case] = []
    while len(cases) < most:
        best, best_new = None, set()
        for _ in range(60):
            case = _random_case(random_source, axes)
            new = {
                pair
                for pair in combinations(((name, getattr(case, name)) for name in axes), 2)
                if pair not in seen
            }
            if best is None or len(new) > len(best_new):
                best, best_new = case, new
        assert best is not None
        seen |= best_new
        cases.append(best)
    return cases


def _random_case(source: random.Random, axes: dict[str, tuple[Any, ...]]) -> Case:
    while True:
        container = source.choice(axes["container"])
        held = CONTAINERS[container]
        case = Case(
            container=container,
            video=source.choice(held.video) if held.video and source.random() > 0.06 else None,
            audio=source.choice(held.audio) if held.audio and source.random() > 0.06 else None,
            **{
                name: source.choice(values)
                for name, values in axes.items()
                if name not in ("container", "video", "audio")
            },
        )
        if valid(case):
            return case
