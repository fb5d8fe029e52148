"""Every fixed sentence of a brief, in one place; what varies in them is a measured number."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.brief.document import (
    ChangeKind,
    Comparison,
    ComparisonBasis,
    Coverage,
    EndBasis,
    Exposure,
    FindingEntry,
    Mark,
    NoteEntry,
    Source,
    SourceEnd,
    Spans,
    StatusKind,
    TimelineBand,
    TimelineEpoch,
)
from pipeline.brief.figures import clock, count, seconds, share, share_text, utc_text
from pipeline.brief.spans import listing
from pipeline.records import EndReason, JobState, NoteAction, NoteState

SECTIONS = {
    "status": "Status",
    "bottom-line": "Bottom line",
    "exposure": "Exposure",
    "findings": "Findings",
    "timeline": "Timeline",
    "coverage": "Coverage",
    "changes": "Changes",
    "method": "Method and limits",
    "evidence": "Evidence not in findings",
    "provenance": "Provenance",
}
"""In the order of every format."""

REHEARSAL_BANNER = (
    "Rehearsal. This brief was made by the rehearsal engine: it measures level, silence, onsets "
    "and picture change, and understands nothing of what is said or shown. Use it to try the "
    "product, not to judge the recording."
)

NO_FINDING = "No finding is not evidence of absence."
NO_FINDINGS = "The engine completed no finding in the seconds that were analysed."
MISSING = "Missing"
WITH_FINDING = "Holdings with a finding"
REMARKS = "Remarks on the recording"
OPTIONS = "Options of the request"
STREAMS = "Streams of the recording"
WITHOUT_FINDING = "Holdings without a finding"
NO_EVIDENCE = "All completed text became findings, or there was none."
ALL_FOUND = "Every holding has at least one finding."
NOTHING_FED = "No second of the recording was analysed, so no holding was looked for."

KINDS = {
    StatusKind.COMPLETE: "Complete",
    StatusKind.PARTIAL: "Partial",
    StatusKind.IN_PROGRESS: "Not finished",
}

JOB_STATES = {
    JobState.WAITING_FOR_RECORDING: "The job is waiting for its recording.",
    JobState.QUEUED: "The job is waiting for a worker.",
    JobState.RUNNING: "The job is running; this is what was complete when the rows were read.",
    JobState.CANCELING: "The job is being cancelled; this is what was complete so far.",
    JobState.FINALIZING: "The job is finishing; this is what was complete so far.",
    JobState.SUCCEEDED: "The job ended by itself.",
    JobState.FAILED: "The job failed.",
    JobState.CANCELED: "The job was cancelled.",
}

_END_REASONS = {
    EndReason.COMPLETED.value: "The newest epoch ran to the end of its source.",
    EndReason.CANCELED.value: "It was cancelled on request.",
    EndReason.DECODE_ERROR.value: "The recording could not be decoded any further.",
    EndReason.ENGINE_ERROR.value: "The engine failed.",
    EndReason.UNIT_TIMEOUT.value: "One second took longer than its limit.",
    EndReason.WORKER_LOST.value: "The worker was lost.",
    EndReason.WORKER_SHUTDOWN.value: "The worker was shut down.",
    EndReason.STORAGE_FULL.value: "Storage was full.",
    EndReason.DATABASE_UNAVAILABLE.value: "The database could not be reached.",
    EndReason.CONTEXT_TOO_LONG.value: "Portfolio and objective were too long for the engine.",
    EndReason.INTERNAL.value: "OmnAI itself failed.",
}

SKIPPED = "skipped: the request starts later"
NOT_REACHED = "not reached"
NOT_FED = "not fed, although the epoch ran to its end"
END_NOT_CONFIRMED = "The end of the recording was not reached, so its length is not confirmed."
AUDIO_NOT_CONSUMED = "The engine did not take in every sample that it was fed."
AUDIO_UNKNOWN = "It is not recorded whether the engine took in every sample."
UTTERANCE_OPEN = "The engine was still speaking at the end; its last text is kept as cut evidence."

MARKS = {
    "unclosed": "The last field does not end in sentence punctuation; the text may be unfinished.",
    "unmatched": "Also names, not in the portfolio:",
    "ambiguous": "Also names, not clear which holding:",
}

TRADE_ORDER_CODE = "trade_order"
"""Marks a text that tells its reader to trade."""

_TEXT_MARKS = {
    "secret_masked": "Something shaped like a credential is masked.",
    "prompt_echo": "Held back, since it repeats the engine's own instructions.",
    "repetition": "Held back, since it repeats itself.",
    TRADE_ORDER_CODE: "Tells its reader to trade. It is shown as it was said and is no advice.",
    "link": "Holds an address, shown as plain text. Do not follow it unchecked.",
    "numbers": "Numbers are as heard or seen.",
}
ALL_HELD_BACK = "Nothing of this text is shown: all of it was held back."

STATES = {
    NoteState.OPEN: "Open",
    NoteState.ACCEPTED: "Accepted",
    NoteState.REJECTED: "Rejected",
    NoteState.DONE: "Verification done",
}
ACTIONS = {
    NoteAction.NOTE: "noted",
    NoteAction.ACCEPT: "accepted",
    NoteAction.REJECT: "rejected",
    NoteAction.DONE: "marked as done",
}
REPEATED = "Said again at"
NOTES = "Notes"

TIMELINE_BANDS = {
    "speaking": "The engine spoke",
    "listening": "The engine listened",
    "silence": "Silence in the recording",
    "no_picture": "No picture fed",
    "gap": "Gap in the recording",
    "skipped": "Skipped on request",
    "not_reached": "Not reached",
}

EPOCHS = "Epochs"
MOMENTS = "Findings in order of time"
NO_TIMELINE = "No time of the recording is known yet."
END_UNKNOWN = "The end of the recording is not known: the timeline stops at the last time that is."

COMPARISONS = {
    ComparisonBasis.PREVIOUS_BRIEF: "Since the previous brief of this job",
    ComparisonBasis.JOB: "Against another job",
}
CHANGES = {
    ChangeKind.NEW: "New",
    ChangeKind.GONE: "Gone",
    ChangeKind.CHANGED: "Changed",
}
NOTHING_TO_COMPARE = "There is no earlier brief of this job to compare with."
BEFORE = "Before"

HEARD = "Heard, not seen"
TRADE_ORDER = "Order to trade"
CUT = "Cut off before its turn ended"

LABELS = {
    "observed": "Observed",
    "implication": "Implication",
    "uncertainty": "Uncertainty",
    "verification": "To verify",
}

COVERAGE_LABELS = {
    "fed": "Analysed",
    "gap": "Gap: neither sound nor picture in the source",
    "skipped": "Skipped: before the requested start",
    "not_reached": "Not reached",
    "own_frame": "With a picture of its own",
    "held_picture": "With the held picture of an earlier second",
    "no_picture": "No picture fed",
    "sound": "With sound",
    "digital_silence": "Digital silence",
    "no_audio": "No audio in the source (filled with silence)",
}

COVERAGE_GROUPS = {
    "time": "The recording",
    "picture": "Analysed seconds by picture",
    "sound": "Analysed seconds by sound",
}

METHOD = (
    "The recording is analysed one source second at a time: one second of sound and at most one "
    "sampled picture, the first of that second. What is shown only between samples is not seen.",
    "Whether the engine listens or speaks is its own decision on every second. Its silence is kept "
    "and is no statement about the recording.",
    "The engine remembers a limited stretch of what went before. Each finding says from when on it "
    "could still remember; nothing earlier can have been drawn on, save its own instructions.",
    "A text is placed by the seconds in which it was written and by what was remembered then. No "
    "word is tied to an exact moment or picture. The link starts a few seconds before the text was "
    "written; the pictures are samples from the same interval.",
    "A finding is text that names a supplied holding and gives evidence, implication, uncertainty "
    "and a way to verify. Code selects, orders and lays out; it writes no finding, adds nothing "
    "and translates nothing. Text that is no complete finding is listed as evidence.",
    "The text is no transcript. Numbers and names are given as heard or seen and may be wrong: "
    "verify them in the recording before acting on them.",
    "Where a second was analysed more than once, the newest analysis counts.",
)

REHEARSAL_METHOD = (
    "The rehearsal engine's texts are measurements of the signal put into the form of findings. "
    "Which holding a text names says nothing about that holding."
)


def bottom_line(*, chosen: int, findings: int, left_out: int) -> str:
    """How the findings to read first were chosen, or why there are none."""
    if not findings:
        return f"There is nothing to put first. {NO_FINDINGS} {NO_FINDING}"
    if not chosen:
        return (
            "There is nothing to put first: every finding was rejected or tells its reader to "
            f"trade. {NO_FINDING}"
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
    counted = [f"{kinds.count(kind):,} {CHANGES[kind].lower()}" for kind in order]
    return f"{', '.join(counted)}, {found.unchanged:,} unchanged."


def tags(finding: FindingEntry) -> tuple[str, ...]:
    """What a reader must see before the text."""
    is_order = any(mark.code == TRADE_ORDER_CODE for mark in finding.marks)
    given = ((HEARD, finding.is_audio_evidence), (TRADE_ORDER, is_order))
    return tuple(tag for tag, applies in given if applies)


def mark(found: Mark) -> str:
    """The fixed text, then the names it concerns or how often it applies."""
    names = ", ".join(found.names)
    times = f"({found.count:,}×)" if found.count is not None and found.count > 1 else ""
    return " ".join(part for part in (found.text, names, times) if part)


def note(entry: NoteEntry) -> str:
    """`accepted by Night desk, 2026-03-06 07:30:00 UTC`; what was written follows it."""
    return f"{ACTIONS[entry.action]} by {entry.author}, {utc_text(entry.at)}"


def text_mark(code: str) -> str:
    """Codes are an open set: one that this release does not know is shown as it was stored."""
    return _TEXT_MARKS.get(code, f"Mark as recorded: {code}.")


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
    return f"{KINDS[kind]}: {_amount(fed_ms, end)}"


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
    return _END_REASONS.get(reason, f"Reason as recorded: {reason}.")


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
        return NOTHING_FED
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
