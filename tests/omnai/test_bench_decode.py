"""How fast a recording is decoded, beside FFmpeg over the same streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnai.cli import app
from omnai.trial import ffmpeg as module
from omnai.trial.compared import show_comparison
from omnai.trial.decoding import Comparison, Through, compare
from omnai.trial.ffmpeg import FFmpeg, FFmpegFailed, find_ffmpeg
from omnai.trial.resident import peak_resident_bytes
from pipeline.errors import InputRefused
from pipeline.records import MediaEvent, MediaStream
from pipeline.settings import Settings
from tests.clips import AAC, H264, Clips, clips, ffmpeg_exe

__all__ = ["clips"]

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")


@pytest.fixture(autouse=True)
def only_the_packaged_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OMNAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMNAI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


def nowhere() -> AbstractContextManager[Through]:
    def through(events: Iterable[MediaEvent]) -> None:
        assert len(list(events)) > 2

    return nullcontext(through)


def compared(path: Path, *, ffmpeg: FFmpeg | None, cores: int | None = None) -> Comparison:
    return compare(path, Settings(), rounds=2, cores=cores, ffmpeg=ffmpeg, pipeline=nowhere)


def test_the_whole_comparison_leaves_nothing_behind(clips: Clips, tmp_path: Path) -> None:
    path = clips.encoded("tones.mp4", 3, *H264, *AAC)
    asked = CliRunner().invoke(app, ["bench", "decode", str(path), "--rounds", "1", "--json"])
    assert asked.exit_code == 0, asked.output
    told = json.loads(asked.stdout)
    assert told["units"] in (3, 4)  # the last sound may reach past the third second
    assert told["source_s"] == pytest.approx(3, abs=0.05)
    speeds = told["speeds"]
    assert set(speeds) == {"ffmpeg", "decode_only", "whole_pipeline"}
    for speed in speeds.values():
        (run,) = speed["runs"]
        assert speed["times_realtime_best"] == pytest.approx(told["source_s"] / run["wall_s"])
        assert run["cpu_s"] > 0
    assert speeds["whole_pipeline"]["loop_cpu_ms_per_unit"] > 0
    best = {kind: speed["times_realtime_best"] for kind, speed in speeds.items()}
    ratios = told["ratios"]
    assert ratios["decode_only"] == pytest.approx(best["decode_only"] / best["ffmpeg"])
    assert ratios["whole_pipeline"] == pytest.approx(best["whole_pipeline"] / best["ffmpeg"])
    assert told["ffmpeg_command"][0] == ffmpeg_exe()
    assert not (tmp_path / "data").exists()


def test_ffmpeg_gives_what_units_hold(clips: Clips, tmp_path: Path) -> None:
    """A picture of 448 pixels for each second, and each sample at 16 kHz as a float."""
    path = clips.encoded("tones.mkv", 4, "-vf", "scale=640:360", *H264, *AAC)
    found = find_ffmpeg()
    assert found is not None
    assert found.version.startswith("ffmpeg version")
    streams = [
        MediaStream(index=index, kind=kind, codec=None, is_chosen=True, reason="", details={})
        for index, kind in ((1, "audio"), (0, "video"))
    ]
    outputs = [tmp_path / "sound", tmp_path / "pictures"]
    into = iter(map(str, outputs))
    command = [next(into) if a == os.devnull else a for a in found.command(path, streams)]
    subprocess.run(command, check=True)
    sound, pictures = (output.stat().st_size for output in outputs)
    assert sound // 4 == pytest.approx(4 * 16_000, abs=1_600)
    assert pictures == 4 * 448 * 252 * 3


def test_without_an_ffmpeg_the_table_says_so(
    clips: Clips, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert find_ffmpeg() is None
    found = compared(clips.encoded("tones.mp4", 3, *H264, *AAC), ffmpeg=None)
    assert found.ffmpeg_command is None
    assert set(found.speeds) == {"decode_only", "whole_pipeline"}
    assert found.ratios.decode_only is None
    show_comparison(found, "tones.mp4")
    assert "no ffmpeg was found" in capsys.readouterr().out


def test_the_ffmpeg_on_the_path_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "ffmpeg"
    own.write_text("#!/bin/sh\necho ffmpeg version own\n")
    own.chmod(0o755)
    assert find_ffmpeg() == FFmpeg(executable=str(own), version="ffmpeg version own")
    monkeypatch.setattr(module, "_packaged", lambda: None)
    own.write_text("#!/bin/sh\nexit 1\n")
    assert find_ffmpeg() is None


def test_an_ffmpeg_that_fails_is_no_figure(clips: Clips) -> None:
    failing = FFmpeg(executable="/bin/false", version="")
    with pytest.raises(FFmpegFailed, match="status 1"):
        compared(clips.encoded("tones.mp4", 3, *H264, *AAC), ffmpeg=failing)


@linux_only
def test_everything_runs_on_the_asked_cores_and_the_caller_gets_its_own_back(clips: Clips) -> None:
    before = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def through(events: Iterable[MediaEvent]) -> None:
        seen.append(os.sched_getaffinity(0))
        for _ in events:
            pass

    found = compare(
        clips.encoded("tones.mp4", 3, *H264, *AAC),
        Settings(),
        rounds=1,
        cores=1,
        ffmpeg=None,
        pipeline=lambda: nullcontext(through),
    )
    assert found.cores == 1
    assert seen == [{min(before)}]
    assert os.sched_getaffinity(0) == before
    with pytest.raises(InputRefused):
        compared(Path("any"), ffmpeg=None, cores=len(before) + 1)


@linux_only
def test_the_peak_is_the_processs_own_and_stays_after_the_memory_is_given_back() -> None:
    megabytes = 64
    code = f"b = bytearray({megabytes << 20}); b[::4096] = b'1' * len(b[::4096]); del b; input()"
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; {code}"], stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        peak = 0
        while peak < megabytes << 20:
            assert process.poll() is None
            peak = peak_resident_bytes(process.pid) or 0
        assert peak < 2 * megabytes << 20
        process.stdin.write("\n")
    assert peak_resident_bytes(process.pid) is None
