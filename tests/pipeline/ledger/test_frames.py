"""The frame store: whole files or none, through kills and full disks."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.ledger.errors import FrameDamaged, FrameMissing
from pipeline.ledger.frames import FolderFrames
from tests.pipeline.ledger.factories import make_frame
from tests.processes import needs_proc

WRITER = """
import hashlib, itertools, sys
from pathlib import Path
from pipeline.ledger.frames import FolderFrames
from pipeline.records import Frame
store = FolderFrames(Path(sys.argv[1]))
for number in itertools.count():
    jpeg = number.to_bytes(8, "little") * 50_000
    sha256 = hashlib.sha256(jpeg).hexdigest()
    store.keep(Frame(source_ms=number, width_px=1, height_px=1, jpeg=jpeg, sha256=sha256))
    print(sha256, flush=True)
"""

FULL = """
import resource, signal, sys
from pathlib import Path
from pipeline.ledger.frames import FolderFrames
from tests.pipeline.ledger.factories import make_frame
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    FolderFrames(Path(sys.argv[1])).keep(make_frame(jpeg=bytes(2000)))
except OSError:
    sys.exit(7)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "new" / "frames"


def files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())


def test_a_frame_is_kept_under_its_digest_and_read_back(root: Path) -> None:
    frame = make_frame(jpeg=b"abc")
    store = FolderFrames(root)
    store.keep(frame)
    store.keep(frame)
    # FIPS 180-2's own example.
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert list(files(root)) == [root / "ba" / f"{digest}.jpg"]
    assert store.read(digest) == b"abc"


@pytest.mark.parametrize(
    "name",
    ["", "..", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n", "/" * 64, "\x00" * 64],
)
def test_what_cannot_be_a_frames_name_is_missing(root: Path, name: str) -> None:
    with pytest.raises(FrameMissing, match="64"):
        FolderFrames(root).read(name)


def test_a_frame_nobody_kept_is_missing(root: Path) -> None:
    with pytest.raises(FrameMissing):
        FolderFrames(root).read("a" * 64)


def test_a_frame_that_is_not_its_name_is_not_kept(root: Path) -> None:
    with pytest.raises(FrameDamaged):
        FolderFrames(root).keep(make_frame(sha256="a" * 64))
    assert list(files(root)) == []


@pytest.mark.parametrize("size", [0, 512_001])
def test_a_frame_of_an_impossible_size_is_not_kept(root: Path, size: int) -> None:
    with pytest.raises(FrameDamaged, match="512000"):
        FolderFrames(root).keep(make_frame(jpeg=bytes(size)))
    assert list(files(root)) == []


def test_a_damaged_file_is_told_and_mended_by_the_next_keep(root: Path) -> None:
    frame = make_frame(7)
    store = FolderFrames(root)
    store.keep(frame)
    store.path(frame.sha256).write_bytes(frame.jpeg[:-1])
    with pytest.raises(FrameDamaged):
        store.read(frame.sha256)
    store.keep(frame)
    assert store.read(frame.sha256) == frame.jpeg


@needs_proc
def test_a_file_is_synced_before_it_has_its_name_and_the_folder_after(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = make_frame(3)
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def seen_fsync(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        if target.is_file():
            assert target.read_bytes() == frame.jpeg
        steps.append(f"sync {'file' if target.is_file() else target.name}")
        fsync(descriptor)

    def seen_replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    FolderFrames(root).keep(frame)
    folder = frame.sha256[:2]
    assert steps[-3:] == ["sync file", "rename", f"sync {folder}"]
    assert {"sync frames", "sync new"} <= set(steps[:-3])


def test_a_killed_writer_leaves_only_whole_frames(root: Path, repository: Path) -> None:
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root)],
            cwd=repository,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        said = [writer.stdout.readline().strip()]
        time.sleep(0.05)
        os.kill(writer.pid, signal.SIGKILL)
        said += [line.strip() for line in writer.stdout if len(line.strip()) == 64]
        writer.wait()
        writer.stdout.close()
        for path in root.glob("*/*.jpg"):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.stem
        for sha256 in said:
            assert FolderFrames(root).read(sha256)


def test_a_write_that_fails_leaves_nothing(root: Path, repository: Path) -> None:
    full = subprocess.run([sys.executable, "-c", FULL, str(root)], cwd=repository)
    assert full.returncode == 7
    assert list(files(root)) == []
