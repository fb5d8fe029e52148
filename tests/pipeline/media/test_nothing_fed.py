"""Why a recording gave not one second, from what both passes met."""

from __future__ import annotations

import pytest

from pipeline.errors import RecordingRefused
from pipeline.media.mixdown import Mixdown
from pipeline.media.remarks import RemarkBook
from pipeline.media.source import Source
from pipeline.media.units import UnitMerger
from pipeline.records import Probe

PROBE = Probe(
    format="matroska",
    size_bytes=1,
    origin_ms=0,
    declared_duration_ms=None,
    packet_end_ms=None,
    streams=(),
)


@pytest.mark.parametrize("number", [0, 1])
def test_a_pass_that_ran_out_of_memory_is_why_nothing_was_fed(number: int) -> None:
    books = (RemarkBook(), RemarkBook())
    books[number].note("video_out_of_memory", "packets needed more memory to decode than allowed")
    source = Source(
        probe=PROBE,
        remarks=RemarkBook(),
        pass_remarks=books,
        mixdown=Mixdown(),
        audio=iter(()),
        pictures=iter(()),
    )
    with pytest.raises(RecordingRefused) as caught:
        list(UnitMerger(source, start_s=0, longest_edge_px=448).events())
    assert caught.value.code == "memory_limit"
