"""ZIP files whose bytes follow from what is put in."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.brief.zipped import Archive, repacked

MIB = 1024 * 1024


def made(*entries: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with Archive(stream) as archive:
        for name, content in entries:
            archive.add(name, content)
    return stream.getvalue()


def test_entries_keep_their_order_and_carry_no_time_of_their_own() -> None:
    content = made(("b.txt", b"two" * 100), ("a/c.txt", b"one"))
    with zipfile.ZipFile(io.BytesIO(content)) as read:
        assert read.namelist() == ["b.txt", "a/c.txt"]
        assert read.testzip() is None
        for info in read.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert info.compress_type == zipfile.ZIP_STORED
            assert (info.external_attr >> 16, info.create_system) == (0o100644, 3)
            assert not info.extra
    assert content == made(("b.txt", b"two" * 100), ("a/c.txt", b"one"))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/../x",
        "/x",
        "a//b",
        "a/",
        "a\\b",
        "C:x",
        "a\x00b",
        "é",
        "a b",
        "x.",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        made((name, b""))


def test_a_name_is_written_once() -> None:
    with pytest.raises(ValueError, match="new entry"):
        made(("a", b"1"), ("a", b"2"))


def test_what_was_written_is_told_with_its_digest() -> None:
    with Archive(io.BytesIO()) as archive:
        archive.add_parts("a", iter([b"ab", b"c"]), size_bytes=3)
        entry = archive.entries[0]
    assert (entry.name, entry.size_bytes) == ("a", 3)
    # FIPS 180-2, appendix B.1.
    assert entry.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_long_entry_passes_through_in_little_memory(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(64):
            yield bytes(MIB)

    with (tmp_path / "x.zip").open("wb") as stream, Archive(stream) as archive:
        tracemalloc.start()
        archive.add_parts("a", parts(), size_bytes=64 * MIB)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8 * MIB
    with zipfile.ZipFile(tmp_path / "x.zip") as read:
        assert read.getinfo("a").file_size == 64 * MIB


def test_an_office_file_loses_its_times_and_the_order_it_was_made_in() -> None:
    def package(names: list[str], year: int) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
            for name in names:
                file.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), name)
        return stream.getvalue()

    names = ["word/document.xml", "[Content_Types].xml", "_rels/.rels"]
    one = repacked(package(names, 2020))
    assert one == repacked(package(names[::-1], 2021))
    with zipfile.ZipFile(io.BytesIO(one)) as read:
        assert read.namelist() == ["[Content_Types].xml", "_rels/.rels", "word/document.xml"]
        assert read.read("_rels/.rels") == b"_rels/.rels"
