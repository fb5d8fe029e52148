"""Measures decoding and the whole pipeline on one file, beside FFmpeg doing the same work.

`python scripts/bench.py [FILE]`. Each figure is the median of three runs; compare ratios, not
machines. FFmpeg makes one picture a second at 448 pixels and 16 kHz mono, as we do.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import imageio_ffmpeg

from pipeline.media_child import MediaChild
from pipeline.records import MediaEnd
from pipeline.settings import MediaLimits

RUNS = 3
EDGE_PX = 448


def timed(work: Callable[[], None]) -> float:
    """Median wall seconds."""
    taken = []
    for _ in range(RUNS):
        began = time.monotonic()
        work()
        taken.append(time.monotonic() - began)
    return statistics.median(taken)


def ffmpeg(file: Path) -> None:
    """The same work by FFmpeg's own program."""
    subprocess.run(
        [
            *(imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(file)),
            *("-map", "0:v:0?", "-vf", f"fps=1,scale={EDGE_PX}:-2:flags=area"),
            *("-c:v", "mjpeg", "-f", "null", "-"),
            *("-map", "0:a:0?", "-ac", "1", "-ar", "16000", "-c:a", "pcm_f32le", "-f", "null", "-"),
        ],
        check=True,
    )


def media(file: Path) -> int:
    """Every unit of the file; returns where its source ends, in ms."""
    end_ms = 0
    with MediaChild(file, limits=MediaLimits(), longest_edge_px=EDGE_PX) as child:
        for event in child:
            if isinstance(event, MediaEnd):
                end_ms = event.source_end_ms
    return end_ms


def pipeline(file: Path) -> None:
    """The whole command with the rehearsal engine, its embedded database started and stopped."""
    samples = Path(__file__).resolve().parents[1] / "samples"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(sys.executable, "-m", "omnai", "analyze", str(file), "--out", folder, "--json"),
                *("--portfolio", str(samples / "portfolio.json"), "--objective", "Measure."),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def main(file: Path) -> None:
    """Print a line a figure."""
    source_s = media(file) / 1000
    baseline_s = timed(lambda: ffmpeg(file))
    print(f"{file.name}: {source_s:.1f} s of source, median of {RUNS} runs")
    print(f"FFmpeg, same work     {source_s / baseline_s:8.1f}× realtime   1.00 (baseline)")
    for name, work in (("media process", media), ("whole pipeline", pipeline)):
        taken_s = timed(lambda work=work: work(file))  # type: ignore[misc]
        print(f"{name:21} {source_s / taken_s:8.1f}× realtime   {baseline_s / taken_s:.2f}")


if __name__ == "__main__":
    default = Path(__file__).resolve().parents[1] / "samples" / "sample.mp4"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
