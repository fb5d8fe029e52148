"""What part of the source was analysed, measured from the completed units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pipeline.brief import sentences, wording
from pipeline.brief.document import (
    Coverage,
    CoverageLine,
    EndBasis,
    Moment,
    RemarkLine,
    SourceEnd,
)
from pipeline.brief.figures import share
from pipeline.brief.spans import Pair, clip, listing, merge, spans_of, subtract, total_ms
from pipeline.clock import samples_to_milliseconds
from pipeline.records import Dossier, FedUnit, Remark


@dataclass(frozen=True, kw_only=True)
class Division:
    """The source's span divided without remainder: every millisecond is in exactly one part."""

    end: SourceEnd
    extent_ms: int
    """Where the division stops: the source's end, or the last known time where that is unknown."""
    fed: list[Pair]
    gaps: list[Pair]
    skipped: list[Pair]
    not_reached: list[Pair]

    @property
    def base_ms(self) -> int:
        """What shares are taken of; 0 where the end is not known."""
        return 0 if self.end.at is None else self.end.at.ms


def source_end(dossier: Dossier, units: Sequence[FedUnit]) -> SourceEnd:
    """The decoded end of the newest epoch that has one, else the packets' estimate."""
    fed_end_ms = max((unit.end_ms for unit in units), default=0)
    for epoch in sorted(dossier.epochs, key=lambda epoch: epoch.number, reverse=True):
        if epoch.media_end is not None:
            end_ms = max(epoch.media_end.source_end_ms, fed_end_ms)
            return SourceEnd(basis=EndBasis.DECODED, at=Moment(ms=end_ms))
    probe = dossier.recording.probe
    if probe is None or probe.packet_end_ms is None:
        return SourceEnd(basis=EndBasis.UNKNOWN, at=None)
    # Packets may end before what was decoded from them; a share above 100 % would be no share.
    return SourceEnd(basis=EndBasis.PACKETS, at=Moment(ms=max(probe.packet_end_ms, fed_end_ms, 0)))


def divide(dossier: Dossier, units: Sequence[FedUnit]) -> Division:
    """`units` hold one for each completed second."""
    end = source_end(dossier, units)
    gaps = [(gap.start_ms, gap.end_ms) for epoch in dossier.epochs for gap in epoch.gaps]
    started_ms = 1000 * min(
        (epoch.start_s for epoch in dossier.epochs), default=dossier.request.options.start_s
    )
    known = [unit.end_ms for unit in units] + [gap_end for _, gap_end in gaps] + [started_ms]
    extent_ms = max(known) if end.at is None else end.at.ms
    fed = clip(((unit.start_ms, unit.end_ms) for unit in units), extent_ms)
    gap = subtract(clip(gaps, extent_ms), fed)
    skipped = subtract(clip([(0, started_ms)], extent_ms), [*fed, *gap])
    return Division(
        end=end,
        extent_ms=extent_ms,
        fed=fed,
        gaps=gap,
        skipped=skipped,
        not_reached=subtract([(0, extent_ms)], [*fed, *gap, *skipped]),
    )


def measure(dossier: Dossier, units: Sequence[FedUnit], division: Division) -> Coverage:
    is_open = division.end.at is None
    base_ms = division.base_ms

    def line(code: str, pairs: list[Pair], *, is_unknown: bool = False) -> CoverageLine:
        duration_ms = total_ms(pairs)
        return CoverageLine(
            code=code,
            label=wording.COVERAGE_LABELS[code],
            duration_ms=None if is_unknown else duration_ms,
            share_pct=None if is_unknown else share(duration_ms, base_ms),
            spans=listing(spans_of(pairs)),
        )

    def lines(codes: tuple[str, ...], kind: Callable[[FedUnit], str]) -> tuple[CoverageLine, ...]:
        pairs: dict[str, list[Pair]] = {code: [] for code in codes}
        for unit in units:
            pairs[kind(unit)].append((unit.start_ms, unit.end_ms))
        return tuple(line(code, merge(pairs[code])) for code in codes)

    return Coverage(
        source_end=division.end,
        base=sentences.coverage_base(division.end),
        time=(
            line("fed", division.fed),
            line("gap", division.gaps),
            line("skipped", division.skipped),
            line("not_reached", division.not_reached, is_unknown=is_open),
        ),
        picture=lines(("own_frame", "held_picture", "no_picture"), _picture),
        sound=lines(("sound", "digital_silence", "no_audio"), _sound),
        filled_ms=samples_to_milliseconds(sum(unit.filled_samples for unit in units)),
        remarks=_remarks(dossier),
    )


def _picture(unit: FedUnit) -> str:
    if unit.frame_ms is not None:
        return "own_frame"
    return "no_picture" if unit.held_frame_ms is None else "held_picture"


def _sound(unit: FedUnit) -> str:
    if unit.real_samples == 0:
        return "no_audio"
    return "digital_silence" if unit.rms_dbfs is None else "sound"


def _remarks(dossier: Dossier) -> tuple[RemarkLine, ...]:
    """Each epoch decodes the same file: what several report in the same words is one line."""
    reported: dict[Remark, set[int]] = {}
    for epoch in dossier.epochs:
        for remark in epoch.media_end.remarks if epoch.media_end else ():
            reported.setdefault(remark, set()).add(epoch.number)
    return tuple(
        RemarkLine(
            code=remark.code,
            message=remark.message,
            count=remark.count,
            start=_moment(remark.start_ms),
            end=_moment(remark.end_ms),
            epochs=tuple(sorted(reported[remark])),
        )
        for remark in _in_order(reported)
    )


def _in_order(remarks: Iterable[Remark]) -> list[Remark]:
    def key(remark: Remark) -> tuple[int, int, str, str, int]:
        start_ms = -1 if remark.start_ms is None else remark.start_ms
        end_ms = -1 if remark.end_ms is None else remark.end_ms
        return start_ms, end_ms, remark.code, remark.message, remark.count

    return sorted(remarks, key=key)


def _moment(ms: int | None) -> Moment | None:
    return None if ms is None else Moment(ms=ms)
