"""Parts of some seconds, and all that the packets of a file say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.media.container import open_container
from pipeline.media.mp4 import divided_track, fragments, parts
from pipeline.media.mp4.parted import Parted, find_parts
from pipeline.media.scan import packets_of
from tests.clips import greys, tones

SECONDS = 15

SOUND, PICTURES = tones(SECONDS), greys(SECONDS)

BOTH = (*SOUND, *PICTURES, "-g", "20")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of some seconds, so that a file of half a minute has several."""
    for module in (parts, fragments):
        monkeypatch.setattr(module, "FROM_SAMPLES", 0)
        monkeypatch.setattr(module, "PART_SAMPLES", 150)
    monkeypatch.setattr(divided_track, "HEAD_S", 2)
    monkeypatch.setattr(divided_track, "APART_S_MAX", 1)
    monkeypatch.setattr(divided_track, "HEAD_SAMPLES", 16)


def packets(container: Any) -> dict[int, list[tuple[object, ...]]]:
    """All that a packet says, by stream."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for packet in packets_of(container, None, pulse=lambda: None):
        if packet.stream.type in ("audio", "video"):
            sides = [(side.data_type, bytes(side)) for side in packet.iter_sidedata()]
            times = (packet.pts, packet.dts, packet.duration, packet.time_base)
            marks = (packet.is_keyframe, packet.is_discard, packet.is_corrupt, packet.is_disposable)
            found.setdefault(packet.stream_index, []).append(
                (*times, *marks, packet.pos, bytes(packet), sides)
            )
    container.close()
    return found


def streams(container: Any) -> Iterator[tuple[object, ...]]:
    for stream in container.streams:
        context = stream.codec_context
        yield stream.type, stream.start_time, stream.duration, stream.time_base, stream.metadata
        yield () if context is None else (context.name, context.extradata)
    yield container.duration, container.start_time, container.metadata


def check_same(path: Path, *, parts_min: int = 3) -> None:
    """In parts the file gives what it gives as a whole, together and track by track."""
    found = find_parts(str(path))
    assert found is not None
    assert found.count >= parts_min
    with open_container(str(path)) as whole, Parted(str(path), found) as parted:
        assert parted.is_plain
        assert list(streams(parted)) == list(streams(whole))
    expected = packets(open_container(str(path)))
    assert packets(Parted(str(path), found)) == expected
    for index, alone in expected.items():
        assert packets(Parted(str(path), found, only_track=index)) == {0: alone}
