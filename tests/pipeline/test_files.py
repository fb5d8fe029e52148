"""A file that is replaced is the old one or the new one, and nothing is left beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.files import write_whole


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "brief.json"
    for content in (b"old", b"", b"new"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_whoever_reads_meanwhile_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "brief.json"
    write_whole(path, b"old")
    with path.open("rb") as reader:
        write_whole(path, b"new")
        assert reader.read() == b"old"


def test_a_write_that_fails_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "brief.json"
    path.mkdir()  # a folder cannot be replaced by a file
    with pytest.raises(OSError, match=r"brief\.json"):
        write_whole(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_whole(tmp_path / "whole", b"")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode
