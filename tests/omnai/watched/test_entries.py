"""Which files of a folder may be recordings, and when one has come to rest."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from omnai.watched.entries import Settling, Stamp, found, may_be_recording


@pytest.mark.parametrize(
    "name",
    [
        *(".call.mp4.swp", "._call.mp4", ".omnai-watch.json", "~$deck.mp4", "~call.mp4"),
        *("call.mp4.part", "call.MP4.PART", "call.mp4.crdownload", "call.mp4.tmp", "c.filepart"),
        *("@eaDir", "#recycle", "call.mp4@SynoEAStream", "Thumbs.db", "desktop.ini"),
    ],
)
def test_what_is_not_there_yet_or_is_no_recording_is_passed_over(name: str) -> None:
    assert not may_be_recording(name)


@pytest.mark.parametrize("name", ["call.mp4", "part.mp4", "Q3 call", "tmp.wav", "电话会议.m4a"])
def test_other_names_may_be_recordings_whatever_their_ending(name: str) -> None:
    assert may_be_recording(name)


def test_only_the_folders_own_files_with_something_in_them_are_found(tmp_path: Path) -> None:
    outside = tmp_path / "outside.mp4"
    outside.write_bytes(b"secret")
    folder = tmp_path / "folder"
    (folder / "below.mp4").mkdir(parents=True)
    (folder / "below.mp4" / "inner.mp4").write_bytes(b"x")
    (folder / "link.mp4").symlink_to(outside)
    (folder / "empty.mp4").touch()
    os.mkfifo(folder / "pipe.mp4")
    (folder / "call.mp4").write_bytes(b"abc")
    stamps = found(folder)
    assert list(stamps) == ["call.mp4"]
    assert stamps["call.mp4"].size_bytes == 3


def test_a_file_settles_once_it_has_not_changed_for_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    settling = Settling(10)
    small, large = (Stamp(size_bytes=size, mtime_ns=size) for size in (1, 2))
    touched = Stamp(size_bytes=2, mtime_ns=5)
    for at, stamp, expected in (
        (0, small, []),
        (9.9, small, []),
        (10, large, []),
        (19, large, []),
        (20, touched, []),
        (29.9, touched, []),
        (30, touched, ["a"]),
        (31, touched, ["a"]),
    ):
        now[0] = 100 + at
        assert settling.settled({"a": stamp}) == expected, at
    assert settling.settled({}) == []
    assert settling.settled({"a": touched}) == []  # it went and came again
    now[0] += 10
    assert settling.settled({"a": touched}) == ["a"]
    settling.restart("a")
    assert settling.settled({"a": touched}) == []


def test_the_oldest_files_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    settling = Settling(0)
    stamps = {name: Stamp(size_bytes=1, mtime_ns=at) for name, at in (("a", 3), ("b", 1), ("c", 2))}
    assert settling.settled(stamps) == ["b", "c", "a"]
