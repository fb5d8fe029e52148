"""What FFmpeg's own binary decodes of a file, and when it says that each piece is presented."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from tests.clips import SAMPLES, ffmpeg_exe

PAUSE_S = 30
"""More than this without a sample or a frame is a gap (design.md, rule 5)."""

HOUR_S = 3600
"""No clip is so long."""

_FRAME = re.compile(r"\bn: *(\d+) pts: *(-?\d+|NOPTS)")
_AUDIO = re.compile(r"rate:(\d+) nb_samples:(\d+)")
_BASE = re.compile(r"config in time_base: (\d+)/(\d+)")
_START = re.compile(r"Duration: .*?, start: (-?[0-9.]+)")


@dataclass(frozen=True, kw_only=True)
class Heard:
    """One decoded audio frame."""

    start: Fraction | None
    first: int
    """Where its samples begin in Truth.samples."""
    count: int


@dataclass(frozen=True, kw_only=True)
class Truth:
    """FFmpeg's decode of the first audio and video stream, in container time."""

    container_start: Fraction | None
    rate_hz: int
    sounds: tuple[Heard, ...]
    samples: SAMPLES
    """Mono at `rate_hz`, as one stretch without holes."""
    pictures: tuple[Fraction, ...]
    """When each decoded picture is presented."""

    @cached_property
    def origin(self) -> Fraction:
        """Rule 5: the earliest of the container's start and the first decoded times."""
        firsts = [self.pictures[:1], [h.start for h in self.sounds[:1]], [self.container_start]]
        return min(time for some in firsts for time in some if time is not None)

    @cached_property
    def content(self) -> list[tuple[Fraction, Fraction]]:
        """Source intervals of samples and pictures, joined where they touch, in order."""
        pieces = [(time - self.origin, time - self.origin) for time in self.pictures]
        for heard in self.sounds:
            if heard.start is not None:
                start = heard.start - self.origin
                pieces.append((start, start + Fraction(heard.count, self.rate_hz)))
        joined: list[tuple[Fraction, Fraction]] = []
        for start, end in sorted(pieces):
            if joined and start - joined[-1][1] <= PAUSE_S:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return joined

    @property
    def is_whole(self) -> bool:
        """Whether FFmpeg kept to one clock; it does not where the first packet misleads it."""
        return bool(self.content) and self.content[-1][1] < HOUR_S

    def placed(self) -> SAMPLES:
        """The samples at their presentation times from the origin on, silence between."""
        ends = [
            (h.start - self.origin) * self.rate_hz + h.count
            for h in self.sounds
            if h.start is not None
        ]
        line = np.zeros(int(max(ends, default=Fraction(0))) + 2, np.float32)
        for heard in self.sounds:
            if heard.start is not None:
                at = round((heard.start - self.origin) * self.rate_hz)
                piece = self.samples[heard.first : heard.first + heard.count]
                if at >= 0:
                    line[at : at + piece.size] = piece[: line.size - at]
        return line


def decode_truth(path: Path) -> Truth:
    """Decode with FFmpeg's binary. A file that breaks off still gives what could be read."""
    sounds, rate_hz, samples, start = _sounds(path)
    return Truth(
        container_start=start,
        rate_hz=rate_hz,
        sounds=sounds,
        samples=samples,
        pictures=tuple(sorted(_pictures(path))),
    )


def _run(path: Path, *arguments: str, threads: int = 2) -> tuple[bytes, str]:
    deep = ("-probesize", "50M", "-analyzeduration", "30M")
    done = subprocess.run(
        [
            *(ffmpeg_exe(), "-hide_banner", "-nostdin", "-nostats", "-threads", str(threads)),
            *("-copyts", *deep, "-i", str(path), *arguments),
        ],
        capture_output=True,
        timeout=300,
        check=False,
    )
    return done.stdout, done.stderr.decode(errors="replace")


def _sounds(path: Path) -> tuple[tuple[Heard, ...], int, SAMPLES, Fraction | None]:
    # With more threads FFmpeg 9 takes what an edit list hides off the wrong frames of ALAC.
    pcm, log = _run(
        path,
        *("-map", "0:a:0?", "-af", "ashowinfo,pan=mono|c0=c0", "-f", "f32le", "-"),
        threads=1,
    )
    sounds = []
    first = 0
    rate_hz = 48_000
    for line in log.splitlines():
        frame, audio = _FRAME.search(line), _AUDIO.search(line)
        if frame is None or audio is None:
            continue
        rate_hz, count = int(audio[1]), int(audio[2])
        pts = None if frame[2] == "NOPTS" else Fraction(int(frame[2]), rate_hz)
        sounds.append(Heard(start=pts, first=first, count=count))
        first += count
    found = _START.search(log)
    start = None if found is None else Fraction(found[1])
    return tuple(sounds), rate_hz, np.frombuffer(pcm, "<f4"), start


def _pictures(path: Path) -> list[Fraction]:
    _, log = _run(
        path,
        *("-map", "0:v:0?", "-vf", "scale=16:16,showinfo=checksum=0"),
        *("-fps_mode", "passthrough", "-f", "null", "-"),
    )
    base = _BASE.search(log)
    if base is None:
        return []
    tick = Fraction(int(base[1]), int(base[2]))
    return [
        int(found[2]) * tick
        for line in log.splitlines()
        if "showinfo" in line and (found := _FRAME.search(line)) and found[2] != "NOPTS"
    ]
