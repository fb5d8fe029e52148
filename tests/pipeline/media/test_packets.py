"""A packet that is made here is let go of by whichever thread has it last."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.clips import H264, Clips

LEAVE = """
import sys
import av
from pipeline.media.packets import packet_of

for _ in range(5):
    with av.open(sys.argv[1]) as container:
        context = container.streams.video[0].codec_context
        context.thread_type, context.thread_count = "FRAME", 3
        for packet, _ in zip(container.demux(video=0), range(3)):
            copy = packet_of(bytes(packet))
            copy.pts, copy.dts, copy.time_base = packet.pts, packet.dts, packet.time_base
            context.decode(copy)
    del context, container, packet, copy
print("left")
"""


def test_a_decoder_can_be_left_while_its_threads_are_at_work(clips: Clips) -> None:
    """Large pictures, so that they are. A thread that waits for Python's lock ends never."""
    path = clips.make(
        *("large.mkv", "-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=5:d=1"),
        *(*H264, "-g", "1"),
    )
    try:
        told = subprocess.run(
            [sys.executable, "-c", LEAVE, str(path)], capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        pytest.fail("the decoder could not be left")
    assert told.stdout == "left\n", told.stderr
