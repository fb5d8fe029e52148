"""The FFmpeg program of this machine, as something to compare with."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from omnai.trial.resident import peak_resident_bytes
from pipeline.clock import SAMPLE_RATE_HZ
from pipeline.errors import OmnaiError
from pipeline.records import MediaStream, Options

LOOK_S = 0.01
"""How often its memory is read while it runs."""


class FFmpegFailed(OmnaiError):
    """FFmpeg did not decode the recording."""

    code = "ffmpeg_failed"


@dataclass(frozen=True, kw_only=True)
class FFmpeg:
    """One FFmpeg binary."""

    executable: str
    version: str
    """Its own first line."""

    def command(self, path: Path, streams: Iterable[MediaStream]) -> list[str]:
        """One picture a second at the longest edge that is fed, and 16 kHz mono float, of the
        chosen streams; both are thrown away. It takes as many threads as it likes.
        """
        command = [self.executable, "-nostdin", "-v", "error", "-y", "-i", f"file:{path}"]
        edge = Options.frame_longest_edge_px
        for stream in streams:
            if not stream.is_chosen:
                continue
            command += ["-map", f"0:{stream.index}"]
            if stream.kind == "video":
                size = f"'min({edge},iw)':'min({edge},ih)':force_original_aspect_ratio=decrease"
                command += ["-vf", f"fps=1,scale={size}:flags=area"]
                command += ["-pix_fmt", "rgb24", "-f", "rawvideo", os.devnull]
            else:
                command += ["-ac", "1", "-ar", str(SAMPLE_RATE_HZ), "-f", "f32le", os.devnull]
        return command

    def decode(self, path: Path, streams: Iterable[MediaStream]) -> int | None:
        """Run it to its end; its peak memory in bytes. Raises FFmpegFailed."""
        peak_bytes = None
        with subprocess.Popen(
            self.command(path, streams),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            while True:
                peak_bytes = peak_resident_bytes(process.pid) or peak_bytes
                try:
                    status = process.wait(timeout=LOOK_S)
                except subprocess.TimeoutExpired:
                    continue
                break
        if status != 0:
            raise FFmpegFailed(f"FFmpeg ended with status {status} on this recording")
        return peak_bytes


def find_ffmpeg() -> FFmpeg | None:
    """The one on PATH, else the one that the imageio-ffmpeg package brings."""
    executable = shutil.which("ffmpeg") or _packaged()
    if executable is None:
        return None
    try:
        asked = subprocess.run(
            [executable, "-version"], capture_output=True, stdin=subprocess.DEVNULL, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    version = asked.stdout.decode(errors="replace").partition("\n")[0]
    return FFmpeg(executable=executable, version=version.strip())


def _packaged() -> str | None:
    try:
        return str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return None
