"""How fast a recording becomes units, beside FFmpeg's own decode of it on the same cores."""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnai.trial.ffmpeg import FFmpeg
from omnai.trial.resident import peak_resident_bytes
from pipeline.errors import InputRefused, Problem
from pipeline.media_child import MediaChild
from pipeline.records import MediaEvent, Options, Probe, Unit
from pipeline.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One run over the whole recording."""

    wall_s: float
    """From the start of its process to its end."""
    first_unit_s: float | None
    """Of `wall_s`, until the first unit was there: loading, and the pass over all time stamps."""
    cpu_s: float
    """User and system time of the process that decodes."""
    loop_cpu_s: float
    """The same of this process, which takes the units."""
    peak_bytes: int | None
    """Largest resident memory of the process that decodes; None where it cannot be told."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Repeated runs of one kind."""

    times_realtime_best: float
    times_realtime_median: float
    cpu_s_best: float
    loop_cpu_ms_per_unit: float
    """Least of the runs; 0 for FFmpeg, which gives nothing to a loop."""
    first_unit_s_best: float | None
    peak_bytes: int | None
    """Largest of the runs."""
    runs: tuple[Timed, ...]


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """How many times FFmpeg's speed, by the best runs; None where there is no FFmpeg."""

    decode_only: float | None
    decode_only_cpu: float | None
    """FFmpeg's processor time over ours: what else the machine does disturbs it less."""
    whole_pipeline: float | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All kinds of runs over one recording, one after another in turn."""

    source_s: float
    units: int
    cores: int
    ffmpeg_version: str | None
    """None where no FFmpeg was found."""
    ffmpeg_command: tuple[str, ...] | None
    speeds: Mapping[str, Speed]
    """By kind: `ffmpeg`, `decode_only`, `whole_pipeline`."""
    ratios: Ratios


Through = Callable[[Iterable[MediaEvent]], None]
"""Takes all events of one recording through the loop."""


class _Material:
    """What the runs are over, learned from the first one."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self._settings = settings
        self.probe: Probe | None = None
        self.source_ms = 0
        self.units = 0

    def decode(self, through: Through) -> Timed:
        """One media process, read to its end. Raises RecordingRefused, MediaStopped."""
        child_before, self_before = _cpu(resource.RUSAGE_CHILDREN), _cpu(resource.RUSAGE_SELF)
        seen = _Seen()
        began = time.monotonic()
        with MediaChild(
            self.path,
            limits=self._settings.media,
            longest_edge_px=Options.frame_longest_edge_px,
        ) as media:
            through(seen.watched(media, media.pid, began))
        wall_s = time.monotonic() - began
        self.probe, self.source_ms, self.units = seen.probe, seen.source_ms, seen.units
        return Timed(
            wall_s=wall_s,
            first_unit_s=seen.first_unit_s,
            cpu_s=_cpu(resource.RUSAGE_CHILDREN) - child_before,
            loop_cpu_s=_cpu(resource.RUSAGE_SELF) - self_before,
            peak_bytes=seen.peak_bytes,
        )

    def decode_by(self, ffmpeg: FFmpeg) -> Timed:
        assert self.probe is not None
        before = _cpu(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        peak_bytes = ffmpeg.decode(self.path, self.probe.streams)
        return Timed(
            wall_s=time.monotonic() - began,
            first_unit_s=None,
            cpu_s=_cpu(resource.RUSAGE_CHILDREN) - before,
            loop_cpu_s=0.0,
            peak_bytes=peak_bytes,
        )


class _Seen:
    """What passes by on the way to the loop."""

    def __init__(self) -> None:
        self.probe: Probe | None = None
        self.source_ms = 0
        self.units = 0
        self.first_unit_s: float | None = None
        self.peak_bytes: int | None = None

    def watched(self, events: Iterable[MediaEvent], pid: int, began: float) -> Iterator[MediaEvent]:
        for event in events:
            if isinstance(event, Probe):
                self.probe = event
            if isinstance(event, Unit):
                if self.first_unit_s is None:
                    self.first_unit_s = time.monotonic() - began
                self.units += 1
                self.source_ms += event.end_ms - event.start_ms
                # A process that has ended no longer tells; its peak only grows.
                self.peak_bytes = peak_resident_bytes(pid) or self.peak_bytes
            yield event


def compare(
    path: Path,
    settings: Settings,
    *,
    rounds: int,
    cores: int | None,
    ffmpeg: FFmpeg | None,
    pipeline: Callable[[], AbstractContextManager[Through]],
) -> Comparison:
    """Run each kind `rounds` times in turn, all on the same `cores`.

    One run of the media process comes before and is not counted: it fills the file cache.
    `pipeline` is opened after it. Raises InputRefused where there are not so many cores, and what
    the media process raises.
    """
    material = _Material(path, settings)
    runs: dict[str, list[Timed]] = {}
    with _pinned(cores) as pinned:
        material.decode(_read_to_the_end)
        with pipeline() as through:
            for _ in range(rounds):
                if ffmpeg is not None:
                    runs.setdefault("ffmpeg", []).append(material.decode_by(ffmpeg))
                runs.setdefault("decode_only", []).append(material.decode(_read_to_the_end))
                runs.setdefault("whole_pipeline", []).append(material.decode(through))
    assert material.probe is not None
    source_s = material.source_ms / 1000
    speeds = {kind: _speed(timed, source_s, material.units) for kind, timed in runs.items()}
    return Comparison(
        source_s=source_s,
        units=material.units,
        cores=pinned,
        ffmpeg_version=None if ffmpeg is None else ffmpeg.version,
        ffmpeg_command=(
            None if ffmpeg is None else tuple(ffmpeg.command(path, material.probe.streams))
        ),
        speeds=speeds,
        ratios=_ratios(speeds),
    )


def _read_to_the_end(events: Iterable[MediaEvent]) -> None:
    for _ in events:
        pass


def _speed(runs: Sequence[Timed], source_s: float, units: int) -> Speed:
    firsts = [run.first_unit_s for run in runs if run.first_unit_s is not None]
    peaks = [run.peak_bytes for run in runs if run.peak_bytes is not None]
    return Speed(
        times_realtime_best=source_s / min(run.wall_s for run in runs),
        times_realtime_median=source_s / statistics.median(run.wall_s for run in runs),
        cpu_s_best=min(run.cpu_s for run in runs),
        loop_cpu_ms_per_unit=min(run.loop_cpu_s for run in runs) * 1000 / max(units, 1),
        first_unit_s_best=min(firsts, default=None),
        peak_bytes=max(peaks, default=None),
        runs=tuple(runs),
    )


def _ratios(speeds: Mapping[str, Speed]) -> Ratios:
    theirs = speeds.get("ffmpeg")
    if theirs is None:
        return Ratios(decode_only=None, decode_only_cpu=None, whole_pipeline=None)
    ours, whole = speeds["decode_only"], speeds["whole_pipeline"]
    return Ratios(
        decode_only=ours.times_realtime_best / theirs.times_realtime_best,
        decode_only_cpu=theirs.cpu_s_best / ours.cpu_s_best,
        whole_pipeline=whole.times_realtime_best / theirs.times_realtime_best,
    )


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def _pinned(cores: int | None) -> Iterator[int]:
    """This thread, and what it starts, on the first `cores` it may use; gives their number."""
    if not hasattr(os, "sched_setaffinity"):
        if cores is not None:
            raise _refusal("processes cannot be kept to some cores on this system")
        yield os.cpu_count() or 1
        return
    usable = os.sched_getaffinity(0)
    if cores is not None and cores > len(usable):
        raise _refusal(f"this process may use {len(usable)} cores; at most so many can be asked")
    chosen = set(sorted(usable)[: cores or len(usable)])
    os.sched_setaffinity(0, chosen)
    try:
        yield len(chosen)
    finally:
        os.sched_setaffinity(0, usable)


def _refusal(message: str) -> InputRefused:
    return InputRefused(Problem(code="cores_unavailable", where="cores", message=message))
