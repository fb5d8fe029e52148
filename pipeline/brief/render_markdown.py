"""The brief as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipeline.brief import facts, wording
from pipeline.brief.document import (
    Brief,
    Coverage,
    CoverageLine,
    EpochEntry,
    EvidenceEntry,
    Exposure,
    ExposureLine,
    FindingEntry,
    HoldingRef,
    Provenance,
    RemarkLine,
    Setting,
    Source,
    Status,
)
from pipeline.brief.figures import percent, seconds, share_text
from pipeline.brief.links import Player, player, safe_href
from pipeline.brief.markdown_text import inline, lines
from pipeline.brief.render_json import sha256

FrameHref = Callable[[str], str]


def to_markdown(brief: Brief, *, recording_href: str | None, frame_href: FrameHref | None) -> str:
    """Links and pictures are written only where the caller has an address for them."""
    plays = player(brief, recording_href)
    parts = [
        _header(brief),
        _status(brief.status),
        _heading("findings"),
        *(_finding(finding, plays, frame_href) for finding in brief.findings),
        *([] if brief.findings else [wording.NO_FINDINGS]),
        _exposure(brief.exposure),
        _heading("evidence"),
        *(_evidence(evidence, plays) for evidence in brief.evidence),
        *([] if brief.evidence else [wording.NO_EVIDENCE]),
        _coverage(brief.coverage),
        _heading("method"),
        _bullets(brief.method),
        _provenance(brief),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(section: str) -> str:
    return f"## {wording.SECTIONS[section]}"


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    ruled = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in ruled)


def _text(text: str) -> str:
    return "\\\n".join(lines(text))


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in _text(text).split("\n"))


def _header(brief: Brief) -> str:
    header = brief.header
    rows = [
        f"Objective: {inline(header.objective)}",
        f"Event date: {header.event_date or 'not given'}",
        f"Recording: {inline(header.filename)}, {header.recording_size_bytes:,} bytes",
        f"Duration: {wording.duration(header.duration)}",
        f"Recording SHA-256: `{inline(header.recording_sha256)}`",
        f"Portfolio: {header.holding_count:,} holdings, "
        f"SHA-256 `{inline(header.portfolio_sha256)}`",
        f"Engine: {inline(', '.join(header.engines))}",
        f"Epochs: {header.epoch_count:,}",
        f"Brief SHA-256: `{sha256(brief)}`",
    ]
    banner = f"> **{header.banner}**\n\n" if header.banner else ""
    return f"# {inline(header.name)}\n\n{banner}{_bullets(rows)}"


def _status(status: Status) -> str:
    missing = [f"{item.span.text}: {inline(item.text)}" for item in status.missing]
    if status.missing_omitted:
        missing.append(f"and {status.missing_omitted:,} more")
    parts = [
        f"{_heading('status')}\n\n**{inline(status.headline)}**",
        " ".join(inline(sentence) for sentence in status.sentences),
        f"As recorded: {inline(status.end_detail)}" if status.end_detail else "",
        f"{wording.MISSING}:\n\n{_bullets(missing)}" if missing else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _holding(holding: HoldingRef) -> str:
    return f"{inline(holding.name)} ({percent(holding.weight_pct)})"


def _finding(finding: FindingEntry, plays: Player, frame_href: FrameHref | None) -> str:
    heard = f" ({wording.HEARD.lower()})" if finding.is_audio_evidence else ""
    fields = (
        (wording.LABELS["observed"] + heard, finding.observed),
        (wording.LABELS["implication"], finding.implication),
        (wording.LABELS["uncertainty"], finding.uncertainty),
        (wording.LABELS["verification"], finding.verification),
    )
    marks = [
        f"{mark.text} {', '.join(inline(name) for name in mark.names)}".strip()
        for mark in finding.marks
    ]
    parts = [
        f"### {finding.ref} · {', '.join(_holding(holding) for holding in finding.holdings)}",
        *(f"**{label}:** {_text(value)}" for label, value in fields),
        _source(finding.source, plays),
        _frames(finding.source, frame_href),
        _bullets(marks),
    ]
    return "\n\n".join(part for part in parts if part)


def _source(source: Source, plays: Player) -> str:
    link = plays.link(source)
    play = f"[Play {source.play.text}]({link})" if link else f"`#{plays.fragment(source)}`"
    return f"Evidence {source.interval.text} · {play} · {wording.remembered(source)}"


def _frames(source: Source, frame_href: FrameHref | None) -> str:
    return "\n".join(
        f"![{wording.frame_alt(frame.at.text)}]({safe_href(frame_href(frame.sha256))})"
        if frame_href
        else f"{wording.frame_alt(frame.at.text)} (`{inline(frame.sha256)}`)"
        for frame in source.frames
    )


def _exposure(exposure: Exposure) -> str:
    parts = [_heading("exposure")]
    if exposure.with_findings:
        parts.append(f"### {wording.WITH_FINDING}")
        parts.append(
            _table(
                ("Holding", "Weight", "Findings", "First moment"),
                (
                    (*_named(line), ", ".join(line.findings), line.first.text if line.first else "")
                    for line in exposure.with_findings
                ),
            )
        )
    parts.append(f"### {wording.WITHOUT_FINDING}")
    if exposure.without_findings:
        parts.append(f"{exposure.caution} {wording.looked_for(exposure)}")
        parts.append(
            _table(("Holding", "Weight"), (_named(line) for line in exposure.without_findings))
        )
    else:
        parts.append(wording.ALL_FOUND)
    return "\n\n".join(parts)


def _named(line: ExposureLine) -> tuple[str, str]:
    symbol = f" ({inline(facts.symbol(line.holding))})" if line.holding.ticker else ""
    return f"{inline(line.holding.name)}{symbol}", percent(line.holding.weight_pct)


def _evidence(evidence: EvidenceEntry, plays: Player) -> str:
    cut = f" · {wording.CUT}" if evidence.is_cut else ""
    source = _source(evidence.source, plays)
    return f"### {evidence.ref}{cut}\n\n{_quote(evidence.text)}\n\n{source}"


def _coverage(coverage: Coverage) -> str:
    groups = (("time", coverage.time), ("picture", coverage.picture), ("sound", coverage.sound))
    parts = [_heading("coverage"), coverage.base]
    for name, group in groups:
        rows = (_coverage_row(line) for line in group)
        parts.append(_table((wording.COVERAGE_GROUPS[name], "Seconds", "Share", "Where"), rows))
    parts.append(wording.filled(coverage))
    if coverage.remarks:
        parts.append(f"### {wording.REMARKS}")
        parts.append(_bullets(_remark(remark) for remark in coverage.remarks))
    return "\n\n".join(parts)


def _coverage_row(line: CoverageLine) -> tuple[str, str, str, str]:
    amount = "unknown" if line.duration_ms is None else seconds(line.duration_ms)
    return line.label, amount, share_text(line.share_pct), wording.spans_text(line.spans)


def _remark(remark: RemarkLine) -> str:
    return f"{inline(remark.message)} ({facts.remark_facts(remark)})"


def _provenance(brief: Brief) -> str:
    provenance = brief.provenance
    rows = [
        *((inline(name), inline(value)) for name, value in facts.provenance_facts(brief)),
        ("Options", _settings(provenance.options)),
    ]
    parts = [
        _heading("provenance"),
        _bullets(f"{name}: {value}" for name, value in rows),
        *(_epoch(epoch) for epoch in provenance.epochs),
        _streams(provenance),
    ]
    return "\n\n".join(part for part in parts if part)


def _settings(settings: tuple[Setting, ...]) -> str:
    return ", ".join(
        f"{inline(item.name)} = {inline(facts.setting_value(item))}" for item in settings
    )


def _epoch(epoch: EpochEntry) -> str:
    rows = [f"{name}: {inline(value)}" for name, value in facts.epoch_facts(epoch)]
    if epoch.settings:
        rows.append(f"Settings: {_settings(epoch.settings)}")
    return f"### Epoch {epoch.number}\n\n{_bullets(rows)}"


def _streams(provenance: Provenance) -> str:
    if provenance.container is None:
        return ""
    rows = (
        (
            str(stream.index),
            inline(stream.kind),
            inline(stream.codec or "unknown"),
            "yes" if stream.is_chosen else "no",
            inline(stream.reason),
            _settings(stream.details),
        )
        for stream in provenance.container.streams
    )
    return f"### {wording.STREAMS}\n\n" + _table(
        ("Stream", "Kind", "Codec", "Analysed", "Why", "As declared"), rows
    )
