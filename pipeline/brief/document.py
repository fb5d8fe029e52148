"""The document model of a brief: what every format is rendered from."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from pipeline.brief.figures import clock, span_text
from pipeline.records import NoteAction, NoteState

SCHEMA = "omnai.brief/2"
"""Name and version of the JSON form; a change that readers must know raises the number."""


class StatusKind(str, Enum):
    """How much of what was asked for the brief stands on."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    IN_PROGRESS = "in_progress"


class EndBasis(str, Enum):
    """How the end of the source is known."""

    DECODED = "decoded"
    """The media process reached it."""
    PACKETS = "packets"
    """Estimated from packet time stamps or from what was decoded past them."""
    UNKNOWN = "unknown"


class ComparisonBasis(str, Enum):
    """What the changes are counted against."""

    PREVIOUS_BRIEF = "previous_brief"
    JOB = "job"


class ChangeKind(str, Enum):
    """How a finding stands to the brief that it is compared with."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"
    """Close in wording, with another figure, period or direction."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A point of source time."""

    ms: int

    @property
    def text(self) -> str:
        return clock(self.ms)


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of source time, its end exclusive."""

    start_ms: int
    end_ms: int

    @property
    def text(self) -> str:
        return span_text(self.start_ms, self.end_ms)


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Stretches in order of time, the first of them where there are many."""

    listed: tuple[Span, ...]
    omitted: int
    """How many follow that are not listed."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A named value, as a mapping's entry with a fixed order."""

    name: str
    value: str | int | bool | None
    """Numbers with a fraction are decimal text."""


@dataclass(frozen=True, kw_only=True)
class SourceEnd:
    """Where the recording ends; not known is its own value."""

    basis: EndBasis
    at: Moment | None


@dataclass(frozen=True, kw_only=True)
class Header:
    """What was analysed, against what, by what."""

    name: str
    """The title, else the file's name."""
    title: str | None
    filename: str
    event_date: str | None
    """ISO 8601."""
    objective: str
    duration: SourceEnd
    recording_sha256: str
    recording_size_bytes: int
    portfolio_sha256: str
    holding_count: int
    epoch_count: int
    engines: tuple[str, ...]
    """Name and revision of each engine that ran; the requested name where none has."""
    banner: str | None
    """What a reader must know of the engine before anything else."""


@dataclass(frozen=True, kw_only=True)
class MissingRange:
    """Source time that was not analysed, and why."""

    span: Span
    code: str
    """`skipped`, or the end reason of the epoch that would have come there, or `unknown`."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Status:
    """Whether the brief is whole, and what is missing where it is not."""

    kind: StatusKind
    headline: str
    sentences: tuple[str, ...]
    job_state: str
    end_reason: str | None
    """As stored; none while the job runs or where none was stored."""
    end_detail: str | None
    """As stored."""
    missing: tuple[MissingRange, ...]
    missing_omitted: int


@dataclass(frozen=True, kw_only=True)
class HoldingRef:
    """A holding as a finding or the exposure names it."""

    id: str
    name: str
    ticker: str | None
    exchange: str | None
    weight_pct: Decimal


@dataclass(frozen=True, kw_only=True)
class FrameRef:
    """A kept picture."""

    sha256: str
    at: Moment
    width_px: int
    height_px: int


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a text comes from in the recording."""

    epoch: int
    turn: int
    block: int
    interval: Span
    """What the engine could have drawn on, to the end of what it said."""
    generated_in: Span
    """While it was said."""
    available_from: Moment
    """The earliest moment the engine could still remember."""
    play: Span
    """Where a player should start and stop: a stated lead before it was said."""
    fragment: str
    """`t=start,end`, a W3C media fragment for `play`."""
    frames: tuple[FrameRef, ...]
    """The most telling first."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A remark on the quality of one text, in fixed text and the names it concerns."""

    code: str
    text: str
    names: tuple[str, ...]
    count: int | None
    """How many places it concerns; none where that is not counted."""


@dataclass(frozen=True, kw_only=True)
class NoteEntry:
    """What a person did about a finding."""

    key: str
    """The occurrence it was written on, `epoch.turn.block`."""
    number: int
    """Counted from 1 within that occurrence."""
    action: NoteAction
    text: str
    author: str
    at: str
    """RFC 3339, UTC."""


@dataclass(frozen=True, kw_only=True)
class FindingEntry:
    """One finding as the brief lists it."""

    ref: str
    """`F1`, `F2` … in the brief's order."""
    key: str
    """`epoch.turn.block`: names it for good, whatever the order."""
    holdings: tuple[HoldingRef, ...]
    """Largest absolute weight first."""
    is_audio_evidence: bool
    observed: str
    implication: str
    uncertainty: str
    verification: str
    text: str
    """The block as the engine wrote it, without what was held back."""
    marks: tuple[Mark, ...]
    source: Source
    repeats: tuple[Source, ...]
    """Where the same was said again, in order of time."""
    state: NoteState
    notes: tuple[NoteEntry, ...]
    """Of all its occurrences, oldest first."""


@dataclass(frozen=True, kw_only=True)
class EvidenceEntry:
    """One piece of evidence that is no finding."""

    ref: str
    """`E1`, `E2` … in order of source time."""
    is_cut: bool
    text: str
    """Empty where all of it was held back."""
    marks: tuple[Mark, ...]
    source: Source


@dataclass(frozen=True, kw_only=True)
class BottomLine:
    """The findings to read first."""

    text: str
    """How they were chosen, or that there are none and what that means."""
    findings: tuple[str, ...]
    """Refs, at most five."""


@dataclass(frozen=True, kw_only=True)
class ExposureLine:
    """One holding and the findings that name it."""

    holding: HoldingRef
    findings: tuple[str, ...]
    """Their refs, in the brief's order."""
    first: Moment | None
    """When the earliest of them was said."""


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """Every holding, by absolute weight, and where those without a finding were looked for."""

    with_findings: tuple[ExposureLine, ...]
    without_findings: tuple[ExposureLine, ...]
    looked_for_ms: int
    looked_for_share_pct: Decimal | None
    """Of the source's span; none where its end is not known."""
    looked_for_in: Spans
    caution: str


@dataclass(frozen=True, kw_only=True)
class TimelineBand:
    """Where one thing holds in the recording."""

    code: str
    label: str
    spans: tuple[Span, ...]
    joined: int
    """Breaks between stretches that are left out, the shortest ones, to bound the list."""


@dataclass(frozen=True, kw_only=True)
class TimelineEpoch:
    """The source seconds that belong to one epoch."""

    number: int
    spans: tuple[Span, ...]
    joined: int
    """As in a band."""


@dataclass(frozen=True, kw_only=True)
class TimelineMark:
    """When a finding was said, each time."""

    ref: str
    at: Moment
    end: Moment


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The whole recording at a glance."""

    end: Moment | None
    """Where the drawing ends: the source's end, else the last time known; none without any."""
    bands: tuple[TimelineBand, ...]
    epochs: tuple[TimelineEpoch, ...]
    marks: tuple[TimelineMark, ...]
    """In order of time."""


@dataclass(frozen=True, kw_only=True)
class HoldingName:
    """A holding of either brief, by what it was called there."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True)
class EarlierText:
    """What the brief compared with said."""

    observed: str
    implication: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """One finding that is new, gone or changed."""

    kind: ChangeKind
    holding_ids: tuple[str, ...]
    now_ref: str | None
    """Its ref in this brief; none where it is gone."""
    before_ref: str | None
    """Its ref in the brief compared with; none where it is new."""
    before: EarlierText | None
    """None where it is new."""


@dataclass(frozen=True, kw_only=True)
class HoldingChanges:
    """The changes of the findings that name exactly these holdings."""

    holdings: tuple[HoldingName, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What differs from another brief."""

    basis: ComparisonBasis
    title: str
    """What the other brief calls its recording."""
    job_id: str
    revision: int
    sha256: str
    """Of the other brief's canonical JSON."""
    unchanged: int
    groups: tuple[HoldingChanges, ...]
    """Largest absolute weight first; holdings of the other portfolio alone come last."""


@dataclass(frozen=True, kw_only=True)
class CoverageLine:
    """One kind of source time: how much, what share of the source's span, and where."""

    code: str
    label: str
    duration_ms: int | None
    """None where it cannot be told."""
    share_pct: Decimal | None
    spans: Spans


@dataclass(frozen=True, kw_only=True)
class RemarkLine:
    """Something the media process noticed about the source."""

    code: str
    message: str
    count: int
    start: Moment | None
    end: Moment | None
    epochs: tuple[int, ...]
    """The epochs that reported it in the same words."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What part of the source's span was analysed, three times divided without remainder."""

    source_end: SourceEnd
    base: str
    """What the percentages are shares of."""
    time: tuple[CoverageLine, ...]
    """The span: fed, gaps, skipped, not reached."""
    picture: tuple[CoverageLine, ...]
    """The fed part: own frame, held picture, no picture."""
    sound: tuple[CoverageLine, ...]
    """The fed part: sound, digital silence, no audio."""
    filled_ms: int
    """Silence put in where the source has no audio, counted in samples, in all fed seconds."""
    remarks: tuple[RemarkLine, ...]


@dataclass(frozen=True, kw_only=True)
class MediaTotals:
    """What one epoch's media process counted."""

    units: int
    real_samples: int
    filled_samples: int
    synthetic_samples: int
    own_frames: int
    held_frames: int
    clipped_samples: int
    replaced_samples: int


@dataclass(frozen=True, kw_only=True)
class EpochEntry:
    """One epoch: what ran, when, and what it completed."""

    number: int
    start: Moment
    engine: str
    revision: str
    device: str
    settings: tuple[Setting, ...]
    prompt_sha256: str
    started_at: str
    ended_at: str | None
    wall_ms: int | None
    end_reason: str | None
    end_detail: str | None
    units: int
    """Completed source seconds."""
    units_kept: int
    """Of those, the ones no newer epoch has completed too."""
    drain_units: int
    listened: int
    spoke: int
    inference_ms: int | None
    """Time inside the engine, for all its units; none where it was not kept for all."""
    is_audio_consumed: bool | None
    is_utterance_open: bool | None
    media: MediaTotals | None


@dataclass(frozen=True, kw_only=True)
class StreamEntry:
    """One stream of the recording, as declared."""

    index: int
    kind: str
    codec: str | None
    is_chosen: bool
    reason: str
    details: tuple[Setting, ...]


@dataclass(frozen=True, kw_only=True)
class Container:
    """The recording's container, as probed."""

    format: str
    origin_ms: int
    declared_duration_ms: int | None
    packet_end_ms: int | None
    streams: tuple[StreamEntry, ...]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What the brief can be traced back to."""

    job_id: str
    release: str
    created_at: str
    ended_at: str | None
    options: tuple[Setting, ...]
    container: Container | None
    epochs: tuple[EpochEntry, ...]
    inference_ms: int | None
    """Time inside the engine, in all epochs; none where it is not known of all."""
    findings_superseded: int
    """Left out: their second was completed again by a newer epoch."""
    evidence_superseded: int
    """Left out for the same reason."""
    notes_superseded: int
    """Left out with the findings they were written on."""


@dataclass(frozen=True, kw_only=True)
class Brief:
    """The whole document, in the order it is read."""

    schema: str
    header: Header
    status: Status
    bottom_line: BottomLine
    exposure: Exposure
    findings: tuple[FindingEntry, ...]
    timeline: Timeline
    coverage: Coverage
    changes: tuple[Comparison, ...]
    method: tuple[str, ...]
    evidence: tuple[EvidenceEntry, ...]
    provenance: Provenance
