"""The pictures that are fed: made into frames, with what was done to them and what they show."""

from __future__ import annotations

from fractions import Fraction

import av

from pipeline.clock import milliseconds
from pipeline.media.colour import Shown
from pipeline.media.fields import without_comb
from pipeline.media.picture import encode_frame, upright
from pipeline.media.remarks import RemarkBook
from pipeline.media.screen import Screen
from pipeline.media.video import Picture
from pipeline.records import Frame


class FedPictures:
    """Makes the frames of one pass, in order of time."""

    def __init__(self, remarks: RemarkBook, *, longest_edge_px: int) -> None:
        self._remarks = remarks
        self._longest_edge_px = longest_edge_px
        self._screen = Screen(remarks)

    def frame(self, picture: Picture, *, at_ms: int, stood: bool) -> Frame | None:
        """The picture as it is fed at `at_ms`; None where it cannot be converted.

        `stood` where what was fed before it was on screen until now.
        """
        try:
            made = self._shown(picture)
        except av.FFmpegError:
            self._remarks.note(
                "pictures_unreadable",
                "pictures were decoded but could not be converted",
                start_ms=milliseconds(picture.time),
            )
            return None
        self._screen.see(made.pixels, at_ms=at_ms, stood=stood)
        return encode_frame(made.pixels, source_ms=milliseconds(picture.time))

    def end(self, time: Fraction, *, stood: bool) -> None:
        """The last picture was presented at `time`."""
        self._screen.end(milliseconds(time), stood=stood)

    def _shown(self, picture: Picture) -> Shown:
        frame, is_deinterlaced = without_comb(picture.frame)
        made = upright(frame, aspect=picture.aspect, longest_edge_px=self._longest_edge_px)
        if is_deinterlaced:
            self._remarks.note("deinterlaced", "pictures of two fields were deinterlaced")
        if made.is_tone_mapped:
            self._remarks.note(
                "hdr_tone_mapped", "the pictures are HDR; they are shown as an SDR screen would"
            )
        if not made.is_matrix_known:
            self._remarks.note(
                "colours_estimated",
                "the file names a kind of colour that is not supported; colours may be wrong",
            )
        return made
