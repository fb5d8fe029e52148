"""Merges seconds of sound and picture into units on the source clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from pipeline.clock import SAMPLE_RATE_HZ, SAMPLES_PER_UNIT, milliseconds
from pipeline.errors import RecordingRefused
from pipeline.media.fed import FedPictures
from pipeline.media.seconds import AudioSecond
from pipeline.media.source import Source
from pipeline.media.video import PictureSecond
from pipeline.records import Frame, Gap, MediaEnd, Unit

GAP_S = 30
"""More than this without a sample or a frame is a gap (design.md, rule 5)."""

HOLD_S = 30
"""A picture that stands still this long is fed again (design.md, rule 6)."""

T = TypeVar("T")


class _Ahead(Generic[T]):
    """An iterator that can be looked into by one."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self.next: T | None = next(items, None)

    def take(self) -> T:
        taken = self.next
        assert taken is not None
        self.next = next(self._items, None)
        return taken


class UnitMerger:
    """Walks both passes second by second; holds one second of each in memory."""

    def __init__(self, source: Source, *, start_s: int, longest_edge_px: int) -> None:
        self._source = source
        self._start_s = start_s
        self._fed = FedPictures(source.remarks, longest_edge_px=longest_edge_px)
        self._audio = _Ahead(source.audio)
        self._pictures = _Ahead(source.pictures)
        self._content_end = Fraction(0)
        """End of the last real sample or time of the last picture so far."""
        self._fed_picture_s: int | None = None
        """Second that was last fed with a picture."""
        self._is_hole_trusted = False
        self._jumped_ms: list[tuple[int, int]] = []
        """Stretches without a unit, told as gaps."""
        self._counts = dict.fromkeys(("real", "filled", "synthetic", "own", "held", "units"), 0)

    def events(self) -> Iterator[Unit | Gap | MediaEnd]:
        """Units and gaps in order, then the end."""
        second = 0
        began = time.monotonic()
        while (following := self._following()) is not None:
            at, content = following
            if content - self._content_end > GAP_S:
                gap_second = max(at, second)
                if gap_second > second or self._content_end < second:
                    if gap_second >= self._start_s:
                        yield self._gap(content)
                    self._jumped_ms.append((second * 1000, gap_second * 1000))
                    second = gap_second
                    self._is_hole_trusted = False
                    self._fed_picture_s = None
            unit = self._unit(second, began)
            if unit is not None:
                yield unit
            began = time.monotonic()
            second += 1
        yield self._end()

    def _following(self) -> tuple[int, Fraction] | None:
        """Second and exact time of the next content; None at the end of both passes."""
        self._pass_over()
        found = []
        if self._audio.next is not None:
            sound = self._audio.next
            found.append((sound.second, Fraction(sound.real_start, SAMPLE_RATE_HZ)))
        if self._pictures.next is not None and self._pictures.next.own is not None:
            time = self._pictures.next.own.time
            found.append((int(time), time))
        return min(found, key=lambda item: item[1]) if found else None

    def _pass_over(self) -> None:
        """Where there is sound before the time up to which no picture comes, it need not wait."""
        while self._pictures.next is not None and self._pictures.next.is_without:
            if self._audio.next is not None and self._audio.next.second < (
                self._pictures.next.second or 0
            ):
                return
            self._pictures.take()

    def _unit(self, second: int, began: float) -> Unit | None:
        sound = self._sound(second)
        frame, is_held = self._frame(second)
        source_end = self._source_end(second)
        if second < self._start_s:
            return None
        real = 0 if sound is None else sound.real_samples
        inside = SAMPLES_PER_UNIT
        if source_end is not None:
            last = -(-source_end * SAMPLE_RATE_HZ // 1) - second * SAMPLES_PER_UNIT
            inside = min(max(int(last), real), SAMPLES_PER_UNIT)
        samples = np.zeros(SAMPLES_PER_UNIT, np.float32) if sound is None else sound.samples
        end_ms = (second + 1) * 1000
        if source_end is not None:
            end_ms = min(milliseconds(source_end), end_ms)
        unit = Unit(
            second=second,
            start_ms=second * 1000,
            end_ms=end_ms,
            pcm=samples.astype("<f4").tobytes(),
            real_samples=real,
            filled_samples=inside - real,
            synthetic_samples=SAMPLES_PER_UNIT - inside,
            frame=frame,
            is_frame_held=is_held,
            decode_ms=round((time.monotonic() - began) * 1000, 3),
        )
        self._count(unit)
        return unit

    def _sound(self, second: int) -> AudioSecond | None:
        if self._audio.next is None or self._audio.next.second != second:
            return None
        sound = self._audio.take()
        self._content_end = max(self._content_end, Fraction(sound.real_end, SAMPLE_RATE_HZ))
        return sound

    def _frame(self, second: int) -> tuple[Frame | None, bool]:
        upcoming = self._pictures.next
        if upcoming is not None and upcoming.own is not None and upcoming.second == second:
            self._pictures.take()
            self._content_end = max(self._content_end, upcoming.own.time)
            self._see_last_picture()
            self._is_hole_trusted = True
            self._fed_picture_s = second
            if second < self._start_s:
                return None, False
            own = upcoming.own
            return self._fed.frame(
                own, at_ms=milliseconds(own.time), stood=upcoming.is_hole_trusted
            ), False
        return self._held(second, upcoming)

    def _see_last_picture(self) -> None:
        """Pictures later in this second are content too, known once the pass has moved on."""
        upcoming = self._pictures.next
        if upcoming is not None and upcoming.before is not None:
            self._content_end = max(self._content_end, upcoming.before.time)

    def _held(self, second: int, upcoming: PictureSecond | None) -> tuple[Frame | None, bool]:
        """The picture on screen, where it has stood for HOLD_S and nothing speaks against it."""
        if upcoming is None or upcoming.before is None or not upcoming.is_hole_trusted:
            return None, False
        if not self._is_hole_trusted or second < self._start_s:
            return None, False
        standing = upcoming.before
        since = max(int(standing.time), self._fed_since_start())
        if second - since < HOLD_S:
            return None, False
        self._fed_picture_s = second
        frame = self._fed.frame(standing, at_ms=second * 1000, stood=True)
        return frame, frame is not None

    def _fed_since_start(self) -> int:
        """A picture before the first unit was seen by nobody: only its own age counts then."""
        fed = self._fed_picture_s
        return -HOLD_S if fed is None or fed < self._start_s else fed

    def _source_end(self, second: int) -> Fraction | None:
        """Where the source ends, if nothing follows this second."""
        return self._content_end if self._following() is None else None

    def _gap(self, content: Fraction) -> Gap:
        return Gap(start_ms=milliseconds(self._content_end), end_ms=milliseconds(content))

    def _count(self, unit: Unit) -> None:
        self._counts["units"] += 1
        self._counts["real"] += unit.real_samples
        self._counts["filled"] += unit.filled_samples
        self._counts["synthetic"] += unit.synthetic_samples
        self._counts["held"] += unit.is_frame_held
        self._counts["own"] += unit.frame is not None and not unit.is_frame_held

    def _nothing_fed(self) -> RecordingRefused:
        remarks = self._source.remarks.remarks()
        if any(remark.code.endswith("_out_of_memory") for remark in remarks):
            return RecordingRefused("memory_limit", "decoding it needs more memory than allowed")
        if self._start_s == 0:
            return RecordingRefused(
                "nothing_decodable", "not a single second of sound or picture could be decoded"
            )
        return RecordingRefused(
            "start_past_end",
            f"start_s is {self._start_s}, but the source ends at {float(self._content_end):.3f} s",
        )

    def _end(self) -> MediaEnd:
        counts = self._counts
        for book in self._source.pass_remarks:
            self._source.remarks.take_over(book)
        self._source.remarks.leave_out("audio_missing", self._jumped_ms)
        if counts["units"] == 0:
            raise self._nothing_fed()  # by what both passes noted
        last = self._pictures.next
        if last is not None and last.before is not None:
            self._fed.end(last.before.time, stood=last.is_hole_trusted)
        mixdown = self._source.mixdown
        if len(mixdown.layouts) > 1:
            self._source.remarks.note(
                "layout_changed", f"the sound's channels change: {', '.join(mixdown.layouts[:8])}"
            )
        return MediaEnd(
            source_end_ms=milliseconds(self._content_end),
            units=counts["units"],
            real_samples=counts["real"],
            filled_samples=counts["filled"],
            synthetic_samples=counts["synthetic"],
            own_frames=counts["own"],
            held_frames=counts["held"],
            clipped_samples=mixdown.clipped_samples,
            replaced_samples=mixdown.replaced_samples,
            remarks=self._source.remarks.remarks(),
        )
