"""A picture of two fields, taken at two moments, as the picture of the first moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

COMB_STEP = 9
"""Levels of 255 by which a line must stand out from both its neighbours to be combed (FFmpeg,
fieldmatch: cthresh)."""

BLOCK_LINES = 16
COMBED_SHARE_MIN = 80 / 256
"""Combed part of a block of 16 × 16 pixels from which the eye sees it (fieldmatch: combpel)."""

COLUMNS_AVERAGED = 4
"""A comb is as wide as what moved; fine detail is not, and a quarter is read."""

BLOCKS_SHARE_MIN = 1 / 1000
"""Part of a picture whose blocks are combed before it counts as such: lettering and stripes one
line high look like a comb of their own."""

EDGE_MIN = 2 * BLOCK_LINES
"""Smaller pictures are no television."""


def without_comb(frame: VideoFrame) -> tuple[VideoFrame, bool]:
    """The picture of the first field's moment, and whether it had to be made.

    Only where the fields show motion: a progressive picture sent as two fields keeps every line.
    Where nothing moved both fields stay; the picture needs no neighbours in time, so it is the
    same whatever was left undecoded around it. Raises av.FFmpegError where it cannot be filtered.
    """
    if not frame.interlaced_frame:
        return frame, False
    if min(frame.width, frame.height) < EDGE_MIN or not is_combed(_luma(frame)):
        # Marked as progressive, or each field would be scaled by itself and the comb kept.
        return _filtered(frame, "setparams", "field_mode=prog"), False
    # yadif takes neighbours that are not there for this picture itself, and then looks for a comb
    # within it; bwdif would leave it.
    return _filtered(frame, "yadif", "mode=send_frame:parity=auto:deint=all"), True


def is_combed(luma: npt.NDArray[np.uint8]) -> bool:
    """Whether every other line of [height, width / COLUMNS_AVERAGED] is of another moment.

    Blocks are counted as FFmpeg's fieldmatch does, of pixels that lie beyond both lines of the
    other field on the same side; and, where that is fine detail of one moment, no closer to them
    than to the lines of their own field.
    """
    lines = luma.astype(np.int16)
    here = lines[2:-2]
    up, down = here - lines[1:-3], here - lines[3:-1]
    own = np.maximum(np.abs(here - lines[:-4]), np.abs(here - lines[4:]))
    other = np.maximum(np.minimum(up, down), -np.maximum(up, down))
    combed = (other > COMB_STEP) & (other >= own)
    columns = BLOCK_LINES // COLUMNS_AVERAGED
    height, width = combed.shape[0] // BLOCK_LINES, max(combed.shape[1] // columns, 1)
    inside = combed[: height * BLOCK_LINES, : width * columns]
    blocks = inside.reshape(height, BLOCK_LINES, width, -1).mean(axis=(1, 3))
    found = int((blocks >= COMBED_SHARE_MIN).sum())
    return bool(found >= max(1.0, BLOCKS_SHARE_MIN * blocks.size))


def _luma(frame: VideoFrame) -> npt.NDArray[np.uint8]:
    width = max(frame.width // COLUMNS_AVERAGED, 1)
    made = frame.reformat(width=width, format="gray", interpolation="AREA", threads=1)
    return made.to_ndarray().astype(np.uint8, copy=False)


def _filtered(frame: VideoFrame, name: str, arguments: str) -> VideoFrame:
    """The frame through one filter, with its side data."""
    graph = av.filter.Graph()
    graph.threads = 1  # as for the converter: a pool for every picture exhausts the address space
    graph.link_nodes(
        graph.add_buffer(
            width=frame.width,
            height=frame.height,
            format=frame.format,
            time_base=frame.time_base,
        ),
        graph.add(name, arguments),
        graph.add("buffersink"),
    )
    graph.configure(auto_buffer=False)
    graph.vpush(frame)
    graph.vpush(None)
    made: Any = graph.vpull()
    return made  # type: ignore[no-any-return] # PyAV: a VideoFrame
