"""The brief as Markdown."""

from __future__ import annotations

from pipeline.brief import facts, sentences, wording
from pipeline.brief.document import (
    Brief,
    Change,
    Comparison,
    Coverage,
    CoverageLine,
    EpochEntry,
    Exposure,
    ExposureLine,
    FindingEntry,
    Provenance,
    RemarkLine,
    Status,
    Timeline,
)
from pipeline.brief.figures import percent, seconds, share_text
from pipeline.brief.links import player
from pipeline.brief.markdown_blocks import (
    bullets,
    heading,
    paragraphs,
    quote,
    settings,
    table,
)
from pipeline.brief.markdown_findings import FrameHref, evidence, finding, holdings
from pipeline.brief.markdown_text import inline
from pipeline.brief.render_json import sha256


def to_markdown(brief: Brief, *, recording_href: str | None, frame_href: FrameHref | None) -> str:
    """Links and pictures are written only where the caller has an address for them."""
    plays = player(brief, recording_href)
    parts = [
        _header(brief),
        _status(brief.status),
        _bottom_line(brief),
        _exposure(brief.exposure),
        heading("findings"),
        *(finding(entry, plays, frame_href) for entry in brief.findings),
        *([] if brief.findings else [wording.NO_FINDINGS, wording.NO_FINDING]),
        _timeline(brief),
        _coverage(brief.coverage),
        _changes(brief),
        heading("method"),
        bullets(brief.method),
        heading("evidence"),
        *(evidence(entry, plays) for entry in brief.evidence),
        *([] if brief.evidence else [wording.NO_EVIDENCE]),
        _provenance(brief),
    ]
    return paragraphs(parts) + "\n"


def _header(brief: Brief) -> str:
    header = brief.header
    rows = [
        (wording.OBJECTIVE, inline(header.objective)),
        *(
            (name, f"`{inline(value)}`" if name in facts.HASHES else inline(value))
            for name, value in facts.header_facts(brief)
        ),
        (wording.BRIEF_HASH, f"`{sha256(brief)}`"),
    ]
    banner = f"> **{header.banner}**" if header.banner else ""
    listed = bullets(f"{name}: {value}" for name, value in rows)
    return paragraphs([f"# {inline(header.name)}", banner, listed])


def _status(status: Status) -> str:
    missing = [f"{item.span.text}: {inline(item.text)}" for item in status.missing]
    if status.missing_omitted:
        missing.append(sentences.more(status.missing_omitted))
    return paragraphs(
        [
            heading("status"),
            f"**{inline(status.headline)}**",
            " ".join(inline(sentence) for sentence in status.sentences),
            inline(sentences.as_recorded(status.end_detail)) if status.end_detail else "",
            f"{wording.MISSING}:\n\n{bullets(missing)}" if missing else "",
        ]
    )


def _bottom_line(brief: Brief) -> str:
    entries = {entry.ref: entry for entry in brief.findings}
    first = (entries[ref] for ref in brief.bottom_line.findings)
    return paragraphs(
        [
            heading("bottom-line"),
            brief.bottom_line.text,
            bullets(
                f"{entry.ref} · {holdings(entry.holdings)}: {inline(entry.observed)} "
                f"· *{wording.LABELS['implication']}:* {inline(entry.implication)}"
                for entry in first
            ),
        ]
    )


def _exposure(exposure: Exposure) -> str:
    parts = [heading("exposure")]
    if exposure.with_findings:
        parts.append(f"### {wording.WITH_FINDING}")
        parts.append(
            table(
                wording.EXPOSURE_HEADS,
                (
                    (*_named(line), ", ".join(line.findings), line.first.text if line.first else "")
                    for line in exposure.with_findings
                ),
            )
        )
    parts.append(f"### {wording.WITHOUT_FINDING}")
    if exposure.without_findings:
        parts.append(f"{exposure.caution} {sentences.looked_for(exposure)}")
        parts.append(
            table(wording.EXPOSURE_HEADS[:2], (_named(line) for line in exposure.without_findings))
        )
    else:
        parts.append(wording.ALL_FOUND)
    return "\n\n".join(parts)


def _named(line: ExposureLine) -> tuple[str, str]:
    symbol = f" ({inline(facts.symbol(line.holding))})" if line.holding.ticker else ""
    return f"{inline(line.holding.name)}{symbol}", percent(line.holding.weight_pct)


def _timeline(brief: Brief) -> str:
    timeline = brief.timeline
    if timeline.end is None:
        return paragraphs([heading("timeline"), wording.NO_TIMELINE])
    rows = [
        *((band.label, sentences.band_text(band)) for band in timeline.bands),
        *((sentences.epoch(epoch.number), sentences.band_text(epoch)) for epoch in timeline.epochs),
    ]
    return paragraphs(
        [
            heading("timeline"),
            wording.END_UNKNOWN if brief.coverage.source_end.at is None else "",
            table((sentences.timeline_range(timeline.end), wording.COVERAGE_HEADS[2]), rows),
            _moments(timeline),
        ]
    )


def _moments(timeline: Timeline) -> str:
    if not timeline.marks:
        return ""
    listed = ", ".join(f"{mark.at.text} {mark.ref}" for mark in timeline.marks)
    return f"{wording.MOMENTS}: {listed}"


def _coverage(coverage: Coverage) -> str:
    groups = (("time", coverage.time), ("picture", coverage.picture), ("sound", coverage.sound))
    parts = [heading("coverage"), coverage.base]
    for name, group in groups:
        rows = (_coverage_row(line) for line in group)
        parts.append(table((wording.COVERAGE_GROUPS[name], *wording.COVERAGE_HEADS), rows))
    parts.append(sentences.filled(coverage))
    if coverage.remarks:
        parts.append(f"### {wording.REMARKS}")
        parts.append(bullets(_remark(remark) for remark in coverage.remarks))
    return "\n\n".join(parts)


def _coverage_row(line: CoverageLine) -> tuple[str, str, str, str]:
    amount = wording.UNKNOWN if line.duration_ms is None else seconds(line.duration_ms)
    return line.label, amount, share_text(line.share_pct), sentences.spans_text(line.spans)


def _remark(remark: RemarkLine) -> str:
    return f"{inline(remark.message)} ({facts.remark_facts(remark)})"


def _changes(brief: Brief) -> str:
    entries = {entry.ref: entry for entry in brief.findings}
    return paragraphs(
        [
            heading("changes"),
            *(_comparison(comparison, entries) for comparison in brief.changes),
            "" if brief.changes else wording.NOTHING_TO_COMPARE,
        ]
    )


def _comparison(comparison: Comparison, entries: dict[str, FindingEntry]) -> str:
    groups = (
        paragraphs(
            [
                f"**{', '.join(inline(holding.name) for holding in group.holdings)}**",
                *(_change(change, entries) for change in group.changes),
            ]
        )
        for group in comparison.groups
    )
    return paragraphs(
        [
            f"### {wording.COMPARISONS[comparison.basis]}",
            f"{inline(comparison.title)} · {inline(sentences.compared_with(comparison))} "
            f"`{inline(comparison.sha256)}`",
            sentences.comparison(comparison),
            *groups,
        ]
    )


def _change(change: Change, entries: dict[str, FindingEntry]) -> str:
    ref = change.now_ref
    now = "" if ref is None else f" {ref}: {inline(entries[ref].observed)}"
    before = change.before
    return paragraphs(
        [
            f"{wording.CHANGES[change.kind]}{now}",
            ""
            if before is None
            else f"{wording.BEFORE} ({inline(change.before_ref or '')}):\n\n"
            + quote(f"{before.observed}\n{before.implication}"),
        ]
    )


def _provenance(brief: Brief) -> str:
    provenance = brief.provenance
    rows = [
        *((inline(name), inline(value)) for name, value in facts.provenance_facts(brief)),
        (wording.OPTIONS, settings(provenance.options)),
    ]
    return paragraphs(
        [
            heading("provenance"),
            bullets(f"{name}: {value}" for name, value in rows),
            *(_epoch(epoch) for epoch in provenance.epochs),
            _streams(provenance),
        ]
    )


def _epoch(epoch: EpochEntry) -> str:
    rows = [f"{name}: {inline(value)}" for name, value in facts.epoch_facts(epoch)]
    if epoch.settings:
        rows.append(f"{wording.SETTINGS}: {settings(epoch.settings)}")
    return f"### {sentences.epoch(epoch.number)}\n\n{bullets(rows)}"


def _streams(provenance: Provenance) -> str:
    if provenance.container is None:
        return ""
    rows = (
        (
            str(stream.index),
            inline(stream.kind),
            inline(stream.codec or wording.UNKNOWN),
            "yes" if stream.is_chosen else "no",
            inline(stream.reason),
            settings(stream.details),
        )
        for stream in provenance.container.streams
    )
    return f"### {wording.STREAMS}\n\n" + table(wording.STREAM_HEADS, rows)
