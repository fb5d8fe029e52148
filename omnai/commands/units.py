"""`omnai units`: the unit plan of a file, without a database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnai import display
from omnai.asked import AudioStream, VideoStream
from omnai.exits import Exit, refusals
from pipeline.clock import clock_text
from pipeline.errors import MediaStopped
from pipeline.level import rms_dbfs
from pipeline.plain import to_plain
from pipeline.records import Gap, MediaEnd, Options, Probe, Unit
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.media_child import MediaChild


def units(
    file: Annotated[Path, typer.Argument(help="The recording.", show_default=False)],
    start_s: Annotated[int, typer.Option(min=0, help="First source second.")] = 0,
    frame_longest_edge_px: Annotated[
        int, typer.Option(min=112, max=1920, help="Frames are scaled down to this edge.")
    ] = Options.frame_longest_edge_px,
    audio_stream: AudioStream = None,
    video_stream: VideoStream = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON line a unit, then one with the totals.")
    ] = False,
) -> None:
    """Show how a recording divides into source seconds: samples, pictures, gaps and damage."""
    from pipeline.media_child import MediaChild

    with refusals(as_json=json_):
        limits = Settings.from_environment().media
        plan = _Plan()
        with MediaChild(
            file,
            limits=limits,
            longest_edge_px=frame_longest_edge_px,
            start_s=start_s,
            audio_stream=audio_stream,
            video_stream=video_stream,
        ) as media:
            stopped = _walk(media, plan, as_json=json_)
    if stopped is not None:
        raise typer.Exit(Exit.PARTIAL)


def _walk(media: MediaChild, plan: _Plan, *, as_json: bool) -> MediaStopped | None:
    """Print every unit as it comes, then the totals, also where the media process broke off."""
    stopped = None
    with display.SourceProgress("reading") as progress:
        try:
            for line in plan.lines(media, progress):
                if as_json:
                    display.write_json(line)
        except MediaStopped as error:
            if error.last_source_ms is None:
                raise
            stopped = error
    if as_json:
        display.write_json(plan.totals(stopped))
    else:
        plan.show(stopped)
    return stopped


class _Plan:
    """Counts the units as they pass; keeps none of them."""

    def __init__(self) -> None:
        self._probe: Probe | None = None
        self._end: MediaEnd | None = None
        self._gaps: list[Gap] = []
        self._end_ms = 0
        self._counts = dict.fromkeys(
            (
                "units",
                "real_samples",
                "filled_samples",
                "synthetic_samples",
                "own_frames",
                "held_frames",
            ),
            0,
        )

    def lines(
        self, media: MediaChild, progress: display.SourceProgress
    ) -> Iterator[dict[str, Any]]:
        for event in media:
            match event:
                case Probe():
                    self._probe = event
                case Unit():
                    self._count(event)
                    end_ms = None if self._probe is None else self._probe.packet_end_ms
                    progress.reach(event.end_ms, end_ms)
                    yield _line(event)
                case Gap():
                    self._gaps.append(event)
                case MediaEnd():
                    self._end = event

    def totals(self, stopped: MediaStopped | None) -> dict[str, Any]:
        end, probe = self._end, self._probe
        return {
            "totals": {
                **self._counts,
                "clipped_samples": None if end is None else end.clipped_samples,
                "replaced_samples": None if end is None else end.replaced_samples,
            },
            "source_end_ms": None if end is None else end.source_end_ms,
            "last_end_ms": self._end_ms,
            "origin_ms": None if probe is None else probe.origin_ms,
            "format": None if probe is None else probe.format,
            "declared_duration_ms": None if probe is None else probe.declared_duration_ms,
            "streams": [] if probe is None else to_plain(probe.streams),
            "gaps": to_plain(self._gaps),
            "warnings": [] if end is None else to_plain(end.remarks),
            "stopped": None
            if stopped is None
            else {"code": stopped.code, "message": stopped.message},
        }

    def show(self, stopped: MediaStopped | None) -> None:
        console = display.console()
        counts = self._counts
        display.say(
            f"{counts['units']} units to {clock_text(self._end_ms, with_tenths=True)}: "
            f"{counts['real_samples'] / 16_000:.3f} s of sound, "
            f"{counts['filled_samples'] / 16_000:.3f} s filled, "
            f"{counts['own_frames']} with a picture of their own, {counts['held_frames']} held"
        )
        if self._probe is not None:
            table = display.table("stream", "kind", "codec", "fed", "why")
            for stream in self._probe.streams:
                table.add_row(
                    str(stream.index),
                    stream.kind,
                    display.seen(stream.codec or "–"),
                    "yes" if stream.is_chosen else "no",
                    display.seen(stream.reason),
                )
            console.print(table)
        for gap in self._gaps:
            display.say(f"gap: {clock_text(gap.start_ms)} to {clock_text(gap.end_ms)}")
        for remark in () if self._end is None else self._end.remarks:
            where = "" if remark.start_ms is None else f" at {clock_text(remark.start_ms)}"
            display.say(display.seen(f"note: {remark.message} ({remark.count}×){where}"))
        if stopped is not None:
            display.say(display.seen(f"stopped: {stopped.message}"))

    def _count(self, unit: Unit) -> None:
        self._end_ms = unit.end_ms
        self._counts["units"] += 1
        self._counts["real_samples"] += unit.real_samples
        self._counts["filled_samples"] += unit.filled_samples
        self._counts["synthetic_samples"] += unit.synthetic_samples
        self._counts["held_frames"] += unit.is_frame_held
        self._counts["own_frames"] += unit.frame is not None and not unit.is_frame_held


def _line(unit: Unit) -> dict[str, Any]:
    return {
        "second": unit.second,
        "start_ms": unit.start_ms,
        "end_ms": unit.end_ms,
        "real_samples": unit.real_samples,
        "filled_samples": unit.filled_samples,
        "synthetic_samples": unit.synthetic_samples,
        "frame_ms": unit.frame_ms,
        "held_frame_ms": unit.held_frame_ms,
        "rms_dbfs": rms_dbfs(unit.pcm),
        "audio_sha256": hashlib.sha256(unit.pcm).hexdigest(),
    }
