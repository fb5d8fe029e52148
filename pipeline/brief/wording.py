"""Every fixed text of a brief, in one place; sentences.py puts figures into some of them."""

from __future__ import annotations

from pipeline.brief.document import ChangeKind, ComparisonBasis, StatusKind
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

END_REASONS = {
    EndReason.COMPLETED.value: "The newest epoch ran to the end of its source.",
    EndReason.CANCELED.value: "It was cancelled on request.",
    EndReason.DECODE_ERROR.value: "The recording could not be decoded any further.",
    EndReason.ENGINE_ERROR.value: "The engine failed.",
    EndReason.UNIT_TIMEOUT.value: "One second took longer than its limit.",
    EndReason.WORKER_LOST.value: "The worker was lost.",
    EndReason.WORKER_SHUTDOWN.value: "The worker was shut down.",
    EndReason.NIGHT_ENDED.value: "The window in which work may run closed first.",
    EndReason.STORAGE_FULL.value: "Storage was full.",
    EndReason.STORAGE_UNAVAILABLE.value: "The storage for recordings could not be reached.",
    EndReason.DATABASE_UNAVAILABLE.value: "The database could not be reached.",
    EndReason.CONTEXT_TOO_LONG.value: "Portfolio and objective were too long for the engine.",
    EndReason.LINK_REFUSED.value: "The link was not accepted.",
    EndReason.LINK_FAILED.value: "The recording could not be fetched from its link.",
    EndReason.RECORDING_REFUSED.value: "What the link led to cannot be analysed.",
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

TEXT_MARKS = {
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

BRIEF_HASH = "Brief SHA-256"
OBJECTIVE = "Objective"
SETTINGS = "Settings"
UNKNOWN = "unknown"
EXPOSURE_HEADS = ("Holding", "Weight", "Findings", "First moment")
COVERAGE_HEADS = ("Seconds", "Share", "Where")
STREAM_HEADS = ("Stream", "Kind", "Codec", "Analysed", "Why", "As declared")

UNDRAWN = (
    "Characters that this document's fonts cannot draw are shown by their numbers, such as "
    "[U+1F600]. The HTML and JSON forms of this brief have the characters themselves."
)

RECORDINGS = {
    "included": "The recording is included; play links lead into it.",
    "not_kept": "The recording is not kept any more, so it is not included and times are text.",
    "too_large": "The recording is larger than {most} bytes, so it is not included and times are "
    "text.",
}
"""By what became of the recording in the ZIP."""

ZIP_README = """\
This archive holds one OmnAI brief and what it stands on. It needs no network.

Start with brief.html or brief.pdf. They say the same; so do brief.docx and brief.md.

brief.json          the brief as data; every other form is made from it
findings.csv        the findings as a table, for a spreadsheet
findings.xlsx       the same as a workbook
recording.vtt       the findings as subtitles over the recording
recording.srt       the same for older players
recording.*         the recording, where it is kept and not too large; manifest.json says so
frames/             the pictures that the brief shows, named by their SHA-256
manifest.json       every other file here with its size and SHA-256

Unpack the archive before you open a file, so that its links find the recording. A player that
opens the recording shows the subtitles beside it.

To check a file, compute its SHA-256 and compare it with the manifest. Every form of the brief
prints one more SHA-256: that of brief.json, in its canonical form and without that field.

No finding is not evidence of absence. The text is no transcript: check it in the recording.
"""
