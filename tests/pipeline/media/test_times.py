"""Which time stamps tell when a picture is shown is found from as few pictures as it takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.media.container import open_container
from pipeline.media.decode import (
    TIMES_ENOUGH,
    TIMES_LOOKED_AT,
    PictureTimes,
    _Order,
    look_at_times,
)
from pipeline.media.remarks import RemarkBook
from pipeline.media.scan import scan_packets
from pipeline.media.track import Track
from tests.clips import H264, H264_BFRAMES, Clips, clips

__all__ = ["clips"]

MOVING = ("-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=4")


def looked(path: Path) -> tuple[PictureTimes, int]:
    """What was found, and of how many pictures."""
    with open_container(str(path)) as container:
        scan = scan_packets(container, start_s=0, pulse=lambda: None)
    container = open_container(str(path))
    stream: Any = container.streams.video[0]
    track = Track(
        container,
        stream,
        scan.streams[stream.index],
        first_packet=0,
        remarks=RemarkBook(),
        pulse=lambda: None,
    )
    count = 0
    given = track.decoded

    def counted() -> Any:
        nonlocal count
        for packet, frames in given():
            count += len(frames) if isinstance(frames, list) else 0
            yield packet, frames

    track.decoded = counted  # type: ignore[method-assign]
    return look_at_times(track), count


@pytest.mark.parametrize(
    ("name", "codec", "least", "most"),
    [
        ("reordered.mp4", H264_BFRAMES, TIMES_ENOUGH, TIMES_ENOUGH + 4),
        ("reordered.mkv", H264_BFRAMES, TIMES_ENOUGH, TIMES_ENOUGH + 4),
        ("reordered.ts", H264_BFRAMES, TIMES_ENOUGH, TIMES_ENOUGH + 4),
        ("in-order.mp4", H264, TIMES_LOOKED_AT, TIMES_LOOKED_AT + 4),
        ("reordered.avi", H264_BFRAMES, TIMES_LOOKED_AT, TIMES_LOOKED_AT + 4),
    ],
)
def test_packets_out_of_order_show_that_their_times_are_those_of_presentation(
    clips: Clips,
    name: str,
    codec: tuple[str, ...],
    least: int,
    most: int,
) -> None:
    times, count = looked(clips.make(name, *MOVING, *codec))
    assert not times.is_by_decode_order
    assert least <= count <= most


@pytest.mark.parametrize(
    ("stamps", "is_of_presentation"),
    [
        ([(0, 0), (3, 1), (1, 1), (2, 2)], True),
        # One step back may be damage; decode times alone never step back.
        ([(0, 0), (3, 1), (1, 1), (4, 2)], False),
        ([(0, 0), (1, 1), (2, 2), (3, 3)], False),
        ([(0, 0), (3, 1), (1, 1), (2, 2), (None, 3)], False),
        ([(0, 0), (3, None), (1, None), (2, None)], True),
        # Nothing is presented before it is decoded.
        ([(0, 0), (3, 1), (1, 2), (2, 3)], False),
    ],
)
def test_two_steps_back_beside_forward_decode_times_are_no_accident(
    stamps: list[tuple[int | None, int | None]], is_of_presentation: bool
) -> None:
    order = _Order()
    for pts, dts in stamps:
        packet: Any = SimpleNamespace(pts=pts, dts=dts)
        order.see(packet)
    assert order.is_of_presentation is is_of_presentation
