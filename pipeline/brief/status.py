"""Whether the brief is whole, and what is missing where it is not."""

from __future__ import annotations

from pipeline.brief import sentences, wording
from pipeline.brief.coverage import Division
from pipeline.brief.document import EndBasis, MissingRange, Span, Status, StatusKind
from pipeline.brief.spans import Pair, total_ms
from pipeline.records import Dossier, EndReason, EpochRecord, JobState

MISSING_LISTED_MAX = 100
"""Exact ranges a reader can still check; more are counted."""

_UNFINISHED = frozenset(
    {
        JobState.WAITING_FOR_RECORDING,
        JobState.QUEUED,
        JobState.RUNNING,
        JobState.CANCELING,
        JobState.FINALIZING,
    }
)


def tell(dossier: Dossier, division: Division) -> Status:
    kind = _kind(dossier, division)
    newest = _newest(dossier)
    missing = _missing(dossier, division)
    reason, detail = _end(dossier, newest)
    fed_ms = total_ms(division.fed)
    return Status(
        kind=kind,
        headline=sentences.headline(kind, dossier.state, fed_ms, division.end, division.skipped),
        sentences=tuple(_sentences(dossier, division, kind, reason)),
        job_state=dossier.state.value,
        end_reason=reason,
        end_detail=detail,
        missing=missing[:MISSING_LISTED_MAX],
        missing_omitted=max(len(missing) - MISSING_LISTED_MAX, 0),
    )


def _newest(dossier: Dossier) -> EpochRecord | None:
    return max(dossier.epochs, key=lambda epoch: epoch.number, default=None)


def _kind(dossier: Dossier, division: Division) -> StatusKind:
    """Complete only where nothing speaks against it; what cannot be told is not complete."""
    if dossier.state in _UNFINISHED:
        return StatusKind.IN_PROGRESS
    newest = _newest(dossier)
    is_whole = (
        dossier.state is JobState.SUCCEEDED
        and newest is not None
        and newest.end_reason == EndReason.COMPLETED.value
        and newest.session_end is not None
        and newest.session_end.is_audio_consumed
        and division.end.basis is EndBasis.DECODED
        and not division.not_reached
    )
    return StatusKind.COMPLETE if is_whole else StatusKind.PARTIAL


def _end(dossier: Dossier, newest: EpochRecord | None) -> tuple[str | None, str | None]:
    if dossier.state in _UNFINISHED:
        return None, None
    if newest is None:
        return dossier.end_reason, None
    return dossier.end_reason or newest.end_reason, newest.end_detail


def _sentences(
    dossier: Dossier, division: Division, kind: StatusKind, reason: str | None
) -> list[str]:
    said: list[str] = []
    newest = _newest(dossier)
    if kind is StatusKind.IN_PROGRESS:
        said.append(wording.JOB_STATES[dossier.state])
    elif kind is StatusKind.PARTIAL:
        said.append(wording.JOB_STATES[dossier.state])
        said.append(sentences.end_reason(reason))
        if division.end.basis is not EndBasis.DECODED:
            said.append(wording.END_NOT_CONFIRMED)
        if dossier.state is JobState.SUCCEEDED and (newest is None or newest.session_end is None):
            said.append(wording.AUDIO_UNKNOWN)
    if newest is not None and newest.session_end is not None:
        if not newest.session_end.is_audio_consumed:
            said.append(wording.AUDIO_NOT_CONSUMED)
        if newest.session_end.is_utterance_open:
            said.append(wording.UTTERANCE_OPEN)
    if division.gaps:
        said.append(sentences.gaps(division.gaps))
    return said


def _missing(dossier: Dossier, division: Division) -> tuple[MissingRange, ...]:
    """In order of time, each with the reason of the epoch that would have come there."""
    found: list[tuple[Pair, str, str]] = [
        (pair, "skipped", wording.SKIPPED) for pair in division.skipped
    ]
    for pair in division.not_reached:
        code, text = _why_not_reached(dossier, pair)
        found.append((pair, code, text))
    return tuple(
        MissingRange(span=Span(start_ms=start_ms, end_ms=end_ms), code=code, text=text)
        for (start_ms, end_ms), code, text in sorted(found)
    )


def _why_not_reached(dossier: Dossier, pair: Pair) -> tuple[str, str]:
    begun = [epoch for epoch in dossier.epochs if epoch.start_s * 1000 <= pair[0]]
    epoch = max(begun, key=lambda epoch: epoch.number, default=None)
    if epoch is None or epoch.end_reason is None:
        return "not_reached", wording.NOT_REACHED
    if epoch.end_reason == EndReason.COMPLETED.value:
        return "not_fed", wording.NOT_FED
    return epoch.end_reason, sentences.not_reached(epoch.number, epoch.end_reason)
