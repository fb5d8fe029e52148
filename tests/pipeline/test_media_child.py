"""Whatever happens to the decoder's process, the loop keeps what came before and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import MediaStopped, RecordingRefused
from pipeline.media_child import ROOT, MediaChild, ask_capabilities
from pipeline.records import MediaEnd, Probe, Unit
from pipeline.settings import MediaLimits
from tests.clips import AAC, H264, Clips, clips, greys, tones
from tests.processes import needs_proc

__all__ = ["clips"]

GONE_S = 10.0
"""How long a process may take to be seen gone on a busy machine."""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def long_clip(clips: Clips) -> Path:
    """Two minutes that decode fast."""
    sound = ("-f", "lavfi", "-i", "sine=f=440:r=16000:d=120")
    return clips.make("long.mkv", *sound, *greys(120, fps="5"), *H264, "-c:a", "pcm_s16le")


def child(path: Path, **changes: float) -> MediaChild:
    return MediaChild(path, limits=MediaLimits(**changes), longest_edge_px=448)  # type: ignore[arg-type]


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GONE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


# --- the way it should go ----------------------------------------------------------------------


def test_a_recording_arrives_as_a_probe_then_units_then_the_end(clips: Clips) -> None:
    path = clips.make("three.mp4", *tones(3), *greys(3), *H264, *AAC)
    with child(path) as media:
        events = list(media)
    kinds = [type(event) for event in events]
    assert kinds[0] is Probe
    assert kinds[-1] is MediaEnd
    assert set(kinds[1:-1]) == {Unit}
    assert [event.second for event in events if isinstance(event, Unit)][:3] == [0, 1, 2]


def test_a_probe_alone_decodes_no_unit(clips: Clips) -> None:
    limits = MediaLimits()
    path = long_clip(clips)
    with MediaChild(path, limits=limits, longest_edge_px=448, is_probe_only=True) as media:
        (probe,) = list(media)
    assert isinstance(probe, Probe)
    assert probe.packet_end_ms == pytest.approx(120_000, abs=300)


def test_what_is_refused_says_so_with_its_code(clips: Clips) -> None:
    with child(clips.write("empty.mp4", b"")) as media, pytest.raises(RecordingRefused) as caught:
        list(media)
    assert caught.value.code == "empty_file"


@pytest.mark.parametrize("name", ["ä ☃ ünï.mkv", "a%03d?b#c&d:e.mkv", "- i.mkv", "'\"\\.mkv"])
def test_any_file_name_is_only_a_name(clips: Clips, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(long_clip(clips).read_bytes())
    with child(path) as media:
        assert isinstance(next(iter(media)), Probe)


def test_a_file_name_that_is_not_utf8_is_only_a_name(clips: Clips, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.mkv"))
    path.write_bytes(long_clip(clips).read_bytes())
    with child(path) as media:
        assert isinstance(next(iter(media)), Probe)


def test_the_decoder_library_tells_what_it_can_read() -> None:
    told = ask_capabilities()
    json.dumps(told)
    assert told["versions"]["av"]
    for name in ("h264", "hevc", "aac", "opus", "flac", "vp9"):
        assert told["decoders"][name] == {"found": True, "usable": True, "problem": None}
    assert all(told["demuxers"].values())
    assert not {"hls", "concat", "sdp", "dash"} & told["demuxers"].keys()


# --- ends that nobody wanted -------------------------------------------------------------------


def test_a_loop_slower_than_the_deadline_is_no_hang(clips: Clips) -> None:
    with child(long_clip(clips), silence_s=5.0) as media:
        events = iter(media)
        for _ in range(2):
            next(events)
        time.sleep(6)
        assert [isinstance(next(events), Unit) for _ in range(4)] == [True] * 4


def test_processor_time_is_limited(clips: Clips) -> None:
    once = clips.make(
        "once.mkv",
        *("-f", "lavfi", "-i", "testsrc2=s=1280x720:r=30:d=10"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-g", "300"),
    )
    slow = clips.make("slow.mkv", "-stream_loop", "23", "-i", str(once), "-c", "copy")
    units = 0
    with child(slow, cpu_s=1) as media, pytest.raises(MediaStopped) as caught:  # noqa: PT012
        for event in media:
            units += isinstance(event, Unit)
    assert caught.value.code == "cpu_limit"
    assert "processor time" in caught.value.message
    assert (caught.value.last_source_ms is None) == (units == 0)


@linux_only
def test_address_space_is_limited(clips: Clips) -> None:
    big = clips.make(
        "big.mkv",
        *("-f", "lavfi", "-i", "color=gray:s=7680x4320:r=2:d=2"),
        *("-c:v", "libx264", "-preset", "ultrafast"),
    )
    with child(big) as media:
        assert any(isinstance(event, Unit) and event.frame for event in media)
    with child(big, memory_bytes=330 * 1024**2) as media, pytest.raises(RecordingRefused) as caught:
        list(media)
    assert caught.value.code == "memory_limit"
    assert "memory" in caught.value.message
    for mib in (400, 460):
        assert told_for_want_of_memory(big, mib) in (
            {"memory_limit"},
            {"video_out_of_memory"},
            {"video_out_of_memory", "video_undecodable"},
        )


def told_for_want_of_memory(path: Path, mib: int) -> set[str]:
    """What is said of a recording of which this much memory does not hold every picture."""
    try:
        with child(path, memory_bytes=mib * 1024**2) as media:
            end = list(media)[-1]
    except RecordingRefused as refused:
        return {refused.code}
    assert isinstance(end, MediaEnd)
    return {remark.code for remark in end.remarks}


@linux_only
@needs_proc
def test_the_limits_hold_in_the_process_itself(clips: Clips) -> None:
    with child(long_clip(clips), memory_bytes=2 * 1024**3, cpu_s=77) as media:
        next(iter(media))
        limits = Path(f"/proc/{media.pid}/limits").read_text()
    found = {line[:26].strip(): line[26:].split()[0] for line in limits.splitlines()}
    assert found["Max address space"] == str(2 * 1024**3)
    assert found["Max cpu time"] == "77"
    assert found["Max core file size"] == "0"
    assert found["Max file size"] == "0"
    assert found["Max open files"] == "64"


# --- a process of its own ----------------------------------------------------------------------


@linux_only
@needs_proc
def test_nothing_of_ours_reaches_its_environment(
    clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMNAI_DATABASE_URL", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "very-secret")
    monkeypatch.setenv("PYTHONSTARTUP", "/tmp/very-secret.py")
    with child(long_clip(clips)) as media:
        next(iter(media))
        environment = Path(f"/proc/{media.pid}/environ").read_bytes()
    names = {entry.split(b"=")[0].decode() for entry in environment.split(b"\0") if entry}
    assert b"very-secret" not in environment
    assert names <= {
        *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ"),
        *("MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"),
        *("OPENBLAS_NUM_THREADS", "PYTHONPATH", "LC_ALL", "LC_CTYPE"),
    }


@linux_only
@needs_proc
def test_it_has_no_file_open_but_the_recording(clips: Clips) -> None:
    """Descriptors that others left inheritable: see tests/pipeline/test_confinement.py."""
    path = long_clip(clips)
    with child(path) as media:
        next(iter(media))
        found = {str(link.readlink()) for link in Path(f"/proc/{media.pid}/fd").iterdir()}
    files = {name for name in found if name.startswith("/")}
    assert files <= {"/dev/null", "/dev/urandom", str(path.resolve())}


@linux_only
@needs_proc
def test_closing_early_leaves_no_process_and_no_descriptor(clips: Clips) -> None:
    path = long_clip(clips)
    before = sorted(Path("/proc/self/fd").iterdir())
    for read in (0, 1, 3):
        media = child(path)
        events = iter(media)
        for _ in range(read):
            next(events)
        began = time.monotonic()
        media.close()
        media.close()
        assert time.monotonic() - began < 4
        with pytest.raises(ChildProcessError):  # already waited for: no zombie
            os.waitpid(media.pid, os.WNOHANG)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


@linux_only
def test_closing_ends_a_stopped_process(clips: Clips) -> None:
    media = child(long_clip(clips))
    next(iter(media))
    os.kill(media.pid, signal.SIGSTOP)
    media.close()
    assert is_gone(media.pid)


@linux_only
@needs_proc
def test_it_leaves_when_its_parent_is_killed(clips: Clips) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from pipeline.media_child import MediaChild; from pipeline.settings import MediaLimits\n"
        "media = MediaChild(Path(sys.argv[1]), limits=MediaLimits(), longest_edge_px=448)\n"
        "next(iter(media)); print(media.pid, flush=True); time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(long_clip(clips))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()
    wait_for(lambda: is_gone(pid))


@linux_only
@needs_proc
def test_a_loop_that_does_not_read_holds_the_decoder_back(clips: Clips) -> None:
    with child(long_clip(clips)) as media:
        events = iter(media)
        for _ in range(2):
            next(events)
        written, memory = settled(media.pid)
        time.sleep(1.0)
        assert (written, memory) == settled(media.pid)
        # One unit is being sent, and what Python and its libraries read of their own is not this.
        assert written < 4 * 65_000
        assert next(events).second == 1  # type: ignore[union-attr]


def settled(pid: int) -> tuple[int, int]:
    """Bytes written and pages held, once both have stopped changing."""

    def look() -> tuple[int, int]:
        io = Path(f"/proc/{pid}/io").read_text().split()
        return int(io[io.index("wchar:") + 1]), int(
            Path(f"/proc/{pid}/statm").read_text().split()[1]
        )

    last, now = (-1, -1), look()
    while last != now:
        time.sleep(0.3)
        last, now = now, look()
    return now


@linux_only
@pytest.mark.parametrize("mib", [32, 96, 160])
def test_a_limit_that_the_library_itself_does_not_fit_into_is_told_as_one(
    clips: Clips, mib: int
) -> None:
    path = clips.make("three.mp4", *tones(3), *greys(3), *H264, *AAC)
    with pytest.raises(RecordingRefused) as refused, child(path, memory_bytes=mib << 20) as media:
        list(media)
    assert refused.value.code == "memory_limit"


@linux_only
@needs_proc
def test_memory_does_not_grow_with_the_length_of_the_recording(clips: Clips) -> None:
    """Three hours need what their first minute did."""
    seconds = 3 * 3600
    path = clips.make(
        "hours.mkv",
        *("-f", "lavfi", "-i", f"anullsrc=r=8000:cl=mono:d={seconds}"),
        *("-f", "lavfi", "-i", f"color=gray:s=16x16:r=1/5:d={seconds}"),
        *("-c:v", "mpeg4", "-g", "60", "-c:a", "flac", "-frame_size", "8000"),
    )
    peaks: dict[int, int] = {}
    with child(path) as media:
        for event in media:
            if isinstance(event, Unit) and event.second in (60, seconds - 60):
                peaks[event.second] = high_water_kib(media.pid)
    short, long = peaks.values()
    assert long - short < 4 * 1024, f"{short} KiB grew to {long} KiB"


def high_water_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1])
