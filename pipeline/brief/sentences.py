"""Every sentence of a brief that has a measured number or a stored text in it."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.brief import wording
from pipeline.brief.document import (
    ChangeKind,
    Comparison,
    Coverage,
    EndBasis,
    Exposure,
    FindingEntry,
    Mark,
    Moment,
    NoteEntry,
    Source,
    SourceEnd,
    Span,
    Spans,
    StatusKind,
    TimelineBand,
    TimelineEpoch,
)
from pipeline.brief.figures import clock, count, seconds, share, share_text, utc_text
from pipeline.brief.spans import listing
from pipeline.records import JobState


def bottom_line(*, chosen: int, findings: int, left_out: int) -> str:
    """How the findings to read first were chosen, or why there are none."""
    if not findings:
        return f"There is nothing to put first. {wording.NO_FINDINGS} {wording.NO_FINDING}"
    if not chosen:
        return (
            "There is nothing to put first: every finding was rejected or tells its reader to "
            f"trade. {wording.NO_FINDING}"
        )
    text = (
        f"{count(chosen, 'finding', 'findings')} of {findings:,}, by the weight of the holding and "
        "then by how complete the text is."
    )
    if left_out:
        text += f" Left out here: {left_out:,} that were rejected or tell their reader to trade."
    return text


def timeline_label(end_ms: int) -> str:
    return f"Timeline of the recording from {clock(0)} to {clock(end_ms)}; told in words below"


def band_text(band: TimelineBand | TimelineEpoch) -> str:
    """Where it holds, in words."""
    where = spans_text(listing(band.spans)) or "nowhere"
    return f"{where} (shorter breaks left out: {band.joined:,})" if band.joined else where


def compared_with(comparison: Comparison) -> str:
    return f"Revision {comparison.revision} of job {comparison.job_id}, its SHA-256"


def comparison(found: Comparison) -> str:
    """`2 new, 1 changed, 0 gone, 12 unchanged.`"""
    kinds = [change.kind for group in found.groups for change in group.changes]
    order = (ChangeKind.NEW, ChangeKind.CHANGED, ChangeKind.GONE)
    counted = [f"{kinds.count(kind):,} {wording.CHANGES[kind].lower()}" for kind in order]
    return f"{', '.join(counted)}, {found.unchanged:,} unchanged."


def tags(finding: FindingEntry) -> tuple[str, ...]:
    """What a reader must see before the text."""
    is_order = any(mark.code == wording.TRADE_ORDER_CODE for mark in finding.marks)
    given = ((wording.HEARD, finding.is_audio_evidence), (wording.TRADE_ORDER, is_order))
    return tuple(tag for tag, applies in given if applies)


def mark(found: Mark) -> str:
    """The fixed text, then the names it concerns or how often it applies."""
    names = ", ".join(found.names)
    times = f"({found.count:,}×)" if found.count is not None and found.count > 1 else ""
    return " ".join(part for part in (found.text, names, times) if part)


def note(entry: NoteEntry) -> str:
    """`accepted by Night desk, 2026-03-06 07:30:00 UTC`; what was written follows it."""
    return f"{wording.ACTIONS[entry.action]} by {entry.author}, {utc_text(entry.at)}"


def text_mark(code: str) -> str:
    """Codes are an open set: one that this release does not know is shown as it was stored."""
    return wording.TEXT_MARKS.get(code, f"Mark as recorded: {code}.")


def headline(
    kind: StatusKind,
    state: JobState,
    fed_ms: int,
    end: SourceEnd,
    skipped: Sequence[tuple[int, int]],
) -> str:
    if kind is StatusKind.COMPLETE:
        if skipped:
            return f"Complete from {clock(skipped[-1][1])} on, as requested"
        return "Complete"
    if kind is StatusKind.IN_PROGRESS and fed_ms == 0:
        return "Not finished: nothing was analysed yet"
    return f"{wording.KINDS[kind]}: {_amount(fed_ms, end)}"


def _amount(fed_ms: int, end: SourceEnd) -> str:
    if end.at is None:
        return f"{clock(fed_ms)} analysed, length of the recording unknown"
    about = "about " if end.basis is EndBasis.PACKETS else ""
    part = share_text(share(fed_ms, end.at.ms))
    return f"{clock(fed_ms)} of {about}{clock(end.at.ms)} analysed ({part})"


def end_reason(reason: str | None) -> str:
    """Reasons are an open set: one that this release does not know is shown as it was stored."""
    if reason is None:
        return "No reason is recorded."
    return wording.END_REASONS.get(reason, f"Reason as recorded: {reason}.")


def not_reached(epoch: int, reason: str) -> str:
    return f"not reached: epoch {epoch} ended with {reason}"


def gaps(pairs: Sequence[tuple[int, int]]) -> str:
    duration_ms = sum(end - start for start, end in pairs)
    return (
        f"The source has {count(len(pairs), 'gap', 'gaps')} without sound or picture, "
        f"{seconds(duration_ms)} s in all."
    )


def duration(end: SourceEnd) -> str:
    if end.at is None:
        return "unknown"
    if end.basis is EndBasis.PACKETS:
        return f"about {end.at.text} (estimated)"
    return f"{end.at.text} ({seconds(end.at.ms)} s)"


def coverage_base(end: SourceEnd) -> str:
    if end.at is None:
        return "The length of the recording is unknown, so no percentages are given."
    if end.basis is EndBasis.PACKETS:
        return (
            f"Percentages are of the whole recording, {seconds(end.at.ms)} s by estimate; its end "
            "was not reached."
        )
    return f"Percentages are of the whole recording, {seconds(end.at.ms)} s."


def filled(coverage: Coverage) -> str:
    return (
        f"Counted in samples, {seconds(coverage.filled_ms)} s of silence stand where the source "
        "has no audio."
    )


def looked_for(exposure: Exposure) -> str:
    """What the holdings without a finding were looked for in."""
    if exposure.looked_for_ms == 0:
        return wording.NOTHING_FED
    part = exposure.looked_for_share_pct
    base = (
        "of a recording of unknown length"
        if part is None
        else f"{share_text(part)} of the recording"
    )
    amount = seconds(exposure.looked_for_ms)
    return f"Looked for in {amount} s, {base}: {spans_text(exposure.looked_for_in)}."


def spans_text(spans: Spans) -> str:
    """`0:00–1:00, 2:00–3:00 and 4 more`."""
    listed = ", ".join(span.text for span in spans.listed)
    return f"{listed} and {spans.omitted:,} more" if spans.omitted else listed


def remembered(source: Source) -> str:
    """What a text can have drawn on."""
    said, memory = source.generated_in, source.available_from
    return f"Written during {said.text}; the engine could remember from {memory.text} on."


def superseded(findings: int, evidence: int, notes: int) -> str:
    return (
        f"{count(findings, 'finding', 'findings')}, {count(notes, 'note', 'notes')} on them and "
        f"{count(evidence, 'piece', 'pieces')} of evidence are left out: their seconds were "
        "analysed again by a newer epoch."
    )


def frame_alt(moment: str) -> str:
    return f"Picture from the recording at {moment}"


def play(source: Source) -> str:
    return f"Play {source.play.text}"


def evidence_at(source: Source) -> str:
    return f"Evidence {source.interval.text}"


def more_pictures(moments: Sequence[str]) -> str:
    return f"More pictures at {', '.join(moments)}."


def as_recorded(detail: str) -> str:
    return f"As recorded: {detail}"


def more(omitted: int) -> str:
    return f"and {omitted:,} more"


def epoch(number: int) -> str:
    return f"Epoch {number}"


def timeline_range(end: Moment) -> str:
    return Span(start_ms=0, end_ms=end.ms).text
