"""The whole brief as blocks, in the order it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipeline.brief import facts, sentences, wording
from pipeline.brief.document import (
    Brief,
    Change,
    Comparison,
    Coverage,
    CoverageLine,
    Exposure,
    ExposureLine,
    FindingEntry,
    Provenance,
    Setting,
    Status,
    Timeline,
)
from pipeline.brief.figures import percent, seconds, share_text
from pipeline.brief.flow import (
    Block,
    Bullets,
    Drawing,
    Facts,
    Heading,
    Paragraph,
    Run,
    Runs,
    Table,
    Tone,
    joined,
    plain,
)
from pipeline.brief.flow_findings import evidence, finding, holdings
from pipeline.brief.links import player
from pipeline.brief.picture_choice import frames_shown
from pipeline.brief.render_json import sha256


def blocks(brief: Brief, *, recording_href: str | None) -> Iterator[Block]:
    """Play links are links where there is an address, else their fragment as text."""
    plays = player(brief, recording_href)
    yield from _header(brief)
    yield from _status(brief.status)
    yield from _bottom_line(brief)
    yield from _exposure(brief.exposure)
    yield _heading("findings")
    shown = frames_shown(brief.findings)
    for found in brief.findings:
        yield from finding(found, plays, frames_shown=shown[found.ref])
    if not brief.findings:
        yield Paragraph(runs=plain(f"{wording.NO_FINDINGS} {wording.NO_FINDING}"))
    yield from _timeline(brief)
    yield from _coverage(brief.coverage)
    yield from _changes(brief)
    yield _heading("method")
    yield Bullets(items=tuple(map(plain, brief.method)))
    yield _heading("evidence")
    for piece in brief.evidence:
        yield from evidence(piece, plays)
    if not brief.evidence:
        yield Paragraph(runs=plain(wording.NO_EVIDENCE))
    yield from _provenance(brief)


def _heading(section: str) -> Heading:
    return Heading(level=2, runs=plain(wording.SECTIONS[section]), anchor=section)


def _subheading(text: str) -> Heading:
    return Heading(level=3, runs=plain(text))


def _header(brief: Brief) -> Iterator[Block]:
    yield Heading(level=1, runs=plain(brief.header.name))
    yield Paragraph(runs=plain(brief.header.objective), tone=Tone.LEAD)
    if brief.header.banner:
        yield Paragraph(runs=(Run(text=brief.header.banner, is_strong=True),), tone=Tone.WARNING)
    yield _facts([*facts.header_facts(brief), (wording.BRIEF_HASH, sha256(brief))])


def _facts(rows: Iterable[tuple[str, str]]) -> Facts:
    return Facts(rows=tuple((name, (_value(name, value),)) for name, value in rows))


def _value(name: str, value: str) -> Run:
    return Run(text=value, is_code=name.endswith("SHA-256"))


def _status(status: Status) -> Iterator[Block]:
    yield _heading("status")
    yield Paragraph(runs=(Run(text=status.headline, is_strong=True),), tone=Tone.LEAD)
    if status.sentences:
        yield Paragraph(runs=plain(" ".join(status.sentences)))
    if status.end_detail:
        yield Paragraph(runs=plain(sentences.as_recorded(status.end_detail)))
    missing: list[Runs] = [
        (Run(text=item.span.text, is_strong=True), Run(text=f" {item.text}"))
        for item in status.missing
    ]
    if status.missing_omitted:
        missing.append(plain(sentences.more(status.missing_omitted)))
    if missing:
        yield Paragraph(runs=plain(f"{wording.MISSING}:"), tone=Tone.LABEL)
        yield Bullets(items=tuple(missing))


def _bottom_line(brief: Brief) -> Iterator[Block]:
    yield _heading("bottom-line")
    yield Paragraph(runs=plain(brief.bottom_line.text))
    entries = {entry.ref: entry for entry in brief.findings}
    first = [_first(entries[ref]) for ref in brief.bottom_line.findings]
    if first:
        yield Bullets(items=tuple(first))


def _first(entry: FindingEntry) -> Runs:
    return (
        _ref(entry.ref),
        Run(text=" · "),
        *holdings(entry.holdings),
        Run(text=": "),
        Run(text=entry.observed),
        Run(text=f" · {wording.LABELS['implication']}: ", is_soft=True),
        Run(text=entry.implication),
    )


def _ref(ref: str) -> Run:
    return Run(text=ref, target=ref)


def _exposure(exposure: Exposure) -> Iterator[Block]:
    yield _heading("exposure")
    if exposure.with_findings:
        yield _subheading(wording.WITH_FINDING)
        yield Table(
            head=wording.EXPOSURE_HEADS,
            widths=(44, 14, 28, 14),
            numeric=frozenset({1, 3}),
            rows=tuple(
                (
                    *_named(line),
                    joined(((_ref(ref),) for ref in line.findings), ", "),
                    plain(line.first.text if line.first else ""),
                )
                for line in exposure.with_findings
            ),
        )
    yield _subheading(wording.WITHOUT_FINDING)
    if not exposure.without_findings:
        yield Paragraph(runs=plain(wording.ALL_FOUND))
        return
    caution = Run(text=exposure.caution, is_strong=True)
    yield Paragraph(runs=(caution, Run(text=f" {sentences.looked_for(exposure)}")))
    yield Table(
        head=wording.EXPOSURE_HEADS[:2],
        widths=(86, 14),
        numeric=frozenset({1}),
        rows=tuple(map(_named, exposure.without_findings)),
    )


def _named(line: ExposureLine) -> tuple[Runs, Runs]:
    symbol = facts.symbol(line.holding)
    shown = (Run(text=" "), Run(text=symbol, is_soft=True)) if symbol else ()
    return (Run(text=line.holding.name), *shown), plain(percent(line.holding.weight_pct))


def _timeline(brief: Brief) -> Iterator[Block]:
    timeline = brief.timeline
    yield _heading("timeline")
    if timeline.end is None:
        yield Paragraph(runs=plain(wording.NO_TIMELINE))
        return
    if brief.coverage.source_end.at is None:
        yield Paragraph(runs=plain(wording.END_UNKNOWN))
    yield Drawing(alt=sentences.timeline_label(timeline.end.ms))
    rows = [
        *((band.label, sentences.band_text(band)) for band in timeline.bands),
        *((sentences.epoch(epoch.number), sentences.band_text(epoch)) for epoch in timeline.epochs),
    ]
    yield Table(
        head=(sentences.timeline_range(timeline.end), wording.COVERAGE_HEADS[2]),
        widths=(30, 70),
        rows=tuple((plain(name), plain(where)) for name, where in rows),
    )
    if timeline.marks:
        yield Paragraph(runs=_moments(timeline), tone=Tone.SOFT)


def _moments(timeline: Timeline) -> Runs:
    marks = ((Run(text=f"{mark.at.text} "), _ref(mark.ref)) for mark in timeline.marks)
    return (Run(text=f"{wording.MOMENTS}: "), *joined(marks, ", "))


def _coverage(coverage: Coverage) -> Iterator[Block]:
    yield _heading("coverage")
    yield Paragraph(runs=plain(coverage.base))
    groups = (("time", coverage.time), ("picture", coverage.picture), ("sound", coverage.sound))
    for name, group in groups:
        yield Table(
            head=(wording.COVERAGE_GROUPS[name], *wording.COVERAGE_HEADS),
            widths=(34, 12, 12, 42),
            numeric=frozenset({1, 2}),
            rows=tuple(map(_coverage_row, group)),
        )
    yield Paragraph(runs=plain(sentences.filled(coverage)))
    if coverage.remarks:
        yield _subheading(wording.REMARKS)
        yield Bullets(
            items=tuple(
                (
                    Run(text=remark.message),
                    Run(text=f" ({facts.remark_facts(remark)})", is_soft=True),
                )
                for remark in coverage.remarks
            )
        )


def _coverage_row(line: CoverageLine) -> tuple[Runs, ...]:
    amount = wording.UNKNOWN if line.duration_ms is None else seconds(line.duration_ms)
    where = sentences.spans_text(line.spans)
    return plain(line.label), plain(amount), plain(share_text(line.share_pct)), plain(where)


def _changes(brief: Brief) -> Iterator[Block]:
    yield _heading("changes")
    if not brief.changes:
        yield Paragraph(runs=plain(wording.NOTHING_TO_COMPARE))
    entries = {entry.ref: entry for entry in brief.findings}
    for comparison in brief.changes:
        yield from _comparison(comparison, entries)


def _comparison(comparison: Comparison, entries: dict[str, FindingEntry]) -> Iterator[Block]:
    yield _subheading(wording.COMPARISONS[comparison.basis])
    yield Paragraph(
        runs=(
            Run(text=comparison.title, is_strong=True),
            Run(text=f" · {sentences.compared_with(comparison)} "),
            Run(text=comparison.sha256, is_code=True),
        ),
        tone=Tone.SOFT,
    )
    yield Paragraph(runs=plain(sentences.comparison(comparison)))
    for group in comparison.groups:
        names = ((Run(text=holding.name, is_strong=True),) for holding in group.holdings)
        yield Paragraph(runs=joined(names, ", "), tone=Tone.LABEL)
        yield Bullets(items=tuple(_change(change, entries) for change in group.changes))


def _change(change: Change, entries: dict[str, FindingEntry]) -> Runs:
    runs = [Run(text=wording.CHANGES[change.kind], is_strong=True)]
    if change.now_ref is not None:
        said = Run(text=entries[change.now_ref].observed)
        runs += [Run(text=" "), _ref(change.now_ref), Run(text=": "), said]
    if change.before is not None:
        runs += [
            Run(text=f" {wording.BEFORE} ({change.before_ref or ''}): ", is_soft=True),
            Run(text=change.before.observed),
            Run(text=" "),
            Run(text=change.before.implication),
        ]
    return tuple(runs)


def _provenance(brief: Brief) -> Iterator[Block]:
    provenance = brief.provenance
    yield _heading("provenance")
    yield _facts(facts.provenance_facts(brief))
    yield Facts(rows=((wording.OPTIONS, _settings(provenance.options)),))
    for epoch in provenance.epochs:
        yield _subheading(sentences.epoch(epoch.number))
        yield _facts(facts.epoch_facts(epoch))
        if epoch.settings:
            yield Facts(rows=((wording.SETTINGS, _settings(epoch.settings)),))
    yield from _streams(provenance)


def _settings(settings: Iterable[Setting]) -> Runs:
    return joined(
        (
            (Run(text=item.name), Run(text=" = "), Run(text=facts.setting_value(item)))
            for item in settings
        ),
        ", ",
    )


def _streams(provenance: Provenance) -> Iterator[Block]:
    if provenance.container is None:
        return
    yield _subheading(wording.STREAMS)
    yield Table(
        head=wording.STREAM_HEADS,
        widths=(9, 10, 13, 11, 25, 32),
        rows=tuple(
            (
                plain(str(stream.index)),
                plain(stream.kind),
                plain(stream.codec or wording.UNKNOWN),
                plain("yes" if stream.is_chosen else "no"),
                plain(stream.reason),
                _settings(stream.details),
            )
            for stream in provenance.container.streams
        ),
    )
