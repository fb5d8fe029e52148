"""Makes clips whose sound and picture say which second they are, and reads FFmpeg's own decode."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import numpy.typing as npt
import pytest

SAMPLES = npt.NDArray[np.float32]

TONE = 0.5
"""Amplitude of the tones: codecs overshoot a little, and nothing shall clip."""

H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
H264_BFRAMES = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-pix_fmt", "yuv420p")
AAC = ("-c:a", "aac", "-b:a", "96k")


def ffmpeg_exe() -> str:
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def run_ffmpeg(*arguments: str, stdin: bytes | None = None, must_succeed: bool = True) -> bytes:
    """Standard output of the FFmpeg binary; its last words where it fails."""
    quiet = ("-hide_banner", "-v", "error", "-threads", "2")
    done = subprocess.run(
        [ffmpeg_exe(), *quiet, *(("-nostdin",) if stdin is None else ()), *arguments],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 or not must_succeed, done.stderr.decode(errors="replace")[-2000:]
    return done.stdout


def tone_hz(second: int) -> int:
    return 300 + 100 * second


def grey(second: int) -> int:
    """Luma of a second's picture."""
    return 20 + 10 * second


def rgb(luma: float) -> float:
    """What luma of the limited range is in full-range RGB (ITU-R BT.601, BT.709)."""
    return (luma - 16) * 255 / 219


def tones(seconds: float, *, rate_hz: int = 48_000, first: int = 0) -> tuple[str, ...]:
    """Input whose source second k sounds at 300 + 100·k Hz in its first half."""
    at = f"(floor(t)+{first})"
    wave = f"{TONE}*sin(2*PI*(300+100*{at})*t)*lt(t-floor(t),0.5)"
    return ("-f", "lavfi", "-i", f"aevalsrc='{wave}':s={rate_hz}:d={seconds}")


def greys(
    seconds: float, *, fps: str = "10", size: str = "64x48", first: int = 0
) -> tuple[str, ...]:
    """Input whose source second k shows the grey of luma 20 + 10·k."""
    picture = f"color=black:s={size}:r={fps}:d={seconds},format=yuv420p"
    return ("-f", "lavfi", "-i", f"{picture},geq=lum='20+10*(floor(T)+{first})':cb=128:cr=128")


def ideal_tone(second: int, *, rate_hz: int = 16_000) -> SAMPLES:
    """One source second as it was meant."""
    t = np.arange(rate_hz) / rate_hz
    wave = TONE * np.sin(2 * np.pi * tone_hz(second) * t) * (t < 0.5)
    return wave.astype(np.float32)


def lag_samples(heard: SAMPLES, second: int, *, reach: int = 800) -> int:
    """By how many samples a unit's tone comes late (early where negative)."""
    ideal = ideal_tone(second)
    size = 1 << 16
    crossed = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(ideal, size)), size)
    lags = np.concatenate([crossed[-reach:], crossed[: reach + 1]])
    return int(lags.argmax()) - reach


def loudest_hz(heard: SAMPLES) -> float:
    """The strongest frequency of the first half of a unit."""
    half = heard[:8000] * np.hanning(8000)
    return float(np.abs(np.fft.rfft(half)).argmax()) * 2


def ffmpeg_pcm(path: Path, *, rate_hz: int = 16_000, filters: str = "anull") -> SAMPLES:
    """FFmpeg's one-shot decode of the first audio stream to mono float."""
    raw = run_ffmpeg(
        *("-i", str(path), "-map", "0:a:0", "-af", filters),
        *("-f", "f32le", "-ac", "1", "-ar", str(rate_hz), "-"),
    )
    return np.frombuffer(raw, "<f4")


def ffmpeg_picture(path: Path, *, filters: str = "null") -> npt.NDArray[np.uint8]:
    """FFmpeg's first picture as RGB, upright as its player shows it."""
    head = run_ffmpeg(
        *("-i", str(path), "-map", "0:v:0", "-vf", filters),
        *("-frames:v", "1", "-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "-"),
    )
    magic, size, depth, pixels = head.split(b"\n", 3)
    assert (magic, depth) == (b"P6", b"255")
    width, height = map(int, size.split())
    return np.frombuffer(pixels, np.uint8)[: width * height * 3].reshape(height, width, 3)


class Clips:
    """Clips of this test run, each made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, name: str, *arguments: str) -> Path:
        """The clip that FFmpeg makes of these arguments, with this file name."""
        key = hashlib.sha256("\0".join((name, *arguments)).encode()).hexdigest()[:16]
        path = self.folder / key / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # A name of its own until it is whole, so that a failure leaves nothing to find.
            part = path.with_name(f"part-{name}")
            run_ffmpeg(*arguments, "-fflags", "+bitexact", "-y", str(part))
            part.rename(path)
        return path

    def encoded(self, name: str, seconds: float = 6, *codecs: str, rate_hz: int = 48_000) -> Path:
        """Tones and greys of the given length under these output options."""
        return self.make(name, *tones(seconds, rate_hz=rate_hz), *greys(seconds), *codecs)

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / hashlib.sha256(content).hexdigest()[:16] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    """Where the clips of this test run lie; shared by every module that asks."""
    folder = tmp_path_factory.getbasetemp() / "clips"
    folder.mkdir(exist_ok=True)
    return Clips(folder)
