"""The frozen records that one stage hands to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum

FRAME_BYTES_MAX = 512_000
"""An encoded frame is at most this large (docs: model interface, "Video transport")."""


class JobState(str, Enum):
    """Where a job stands; design.md's table says who moves it."""

    WAITING_FOR_RECORDING = "waiting_for_recording"
    QUEUED = "queued"
    RUNNING = "running"
    CANCELING = "canceling"
    FINALIZING = "finalizing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class EndReason(str, Enum):
    """Why a job or an epoch ended: the reasons this release writes; readers accept others."""

    COMPLETED = "completed"
    CANCELED = "canceled"
    DECODE_ERROR = "decode_error"
    ENGINE_ERROR = "engine_error"
    UNIT_TIMEOUT = "unit_timeout"
    WORKER_LOST = "worker_lost"
    WORKER_SHUTDOWN = "worker_shutdown"
    NIGHT_ENDED = "night_ended"
    """The operator's window closed, and what runs then is to end."""
    STORAGE_FULL = "storage_full"
    STORAGE_UNAVAILABLE = "storage_unavailable"
    DATABASE_UNAVAILABLE = "database_unavailable"
    CONTEXT_TOO_LONG = "context_too_long"
    LINK_REFUSED = "link_refused"
    """The link leads to what is not accepted; another attempt would not help."""
    LINK_FAILED = "link_failed"
    """The recording did not come within the attempts and the time that a link has."""
    RECORDING_REFUSED = "recording_refused"
    """What the link led to is no recording that can be analysed."""
    INTERNAL = "internal"


class Phase(str, Enum):
    """What a running epoch is doing, for the limit that applies to it."""

    CLAIM = "claim"
    PREPARE = "prepare"
    UNIT = "unit"
    DRAIN = "drain"
    PUBLISH = "publish"


class Decision(str, Enum):
    """What the engine chose to do with one unit."""

    LISTEN = "listen"
    SPEAK = "speak"


class NoteAction(str, Enum):
    """What an analyst did about a finding."""

    NOTE = "note"
    """Wrote something down; decides nothing."""
    ACCEPT = "accept"
    REJECT = "reject"
    DONE = "done"
    """Carried out the verification."""


class NoteState(str, Enum):
    """Where a finding stands by its newest deciding note."""

    OPEN = "open"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DONE = "done"

    @classmethod
    def after(cls, actions: Iterable[NoteAction]) -> NoteState:
        """By the newest action that decides, the oldest first."""
        deciding = [action for action in actions if action in DECISIONS]
        return DECISIONS[deciding[-1]] if deciding else cls.OPEN


DECISIONS: Mapping[NoteAction, NoteState] = {
    NoteAction.ACCEPT: NoteState.ACCEPTED,
    NoteAction.REJECT: NoteState.REJECTED,
    NoteAction.DONE: NoteState.DONE,
}
"""What an action that decides makes of a finding; a plain note decides nothing."""


class Likeness(str, Enum):
    """How two claims stand to each other."""

    SAME = "same"
    """Close in wording, with equal material terms."""
    CHANGED = "changed"
    """Close in wording, with other material terms: another figure, period or direction."""
    OTHER = "other"


class EvidenceKind(str, Enum):
    """How a piece of evidence ended."""

    TURN = "turn"
    """Text of a turn that ended by itself."""
    CUT = "cut"
    """Text of a turn that a stop, a fault, a seam or the end of the recording cut off."""


@dataclass(frozen=True, kw_only=True)
class Holding:
    """One position of the portfolio, as the analyst supplied it."""

    id: str
    """The analyst's own key, unique in the portfolio."""
    name: str
    """The company or asset as people say it."""
    ticker: str | None
    """Exchange symbol, unique together with the exchange; none for cash and the like."""
    exchange: str | None
    """Where the ticker is listed; none when not given."""
    currency: str
    """ISO 4217 code, three capitals."""
    asset_type: str
    """Equity, bond, cash …: the analyst's word."""
    weight_pct: Decimal
    """Share of the portfolio in percent; negative for a short."""
    aliases: tuple[str, ...] = ()
    """Other names for it, matched like the name."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the analyst may choose about a run; bounds live in pipeline/request.py."""

    output_max_tokens_per_unit: int = 20
    """Most tokens the engine may produce for one unit."""
    frame_longest_edge_px: int = 448
    """Frames are scaled down to this longest edge, never up."""
    max_slice_nums: int = 2
    """Most image slices the engine may cut a frame into."""
    seed: int = 0
    """Seed of whatever the engine draws at random."""
    start_s: int = 0
    """First source second to feed."""
    live_update_interval_seconds: int = 5
    """Accepted for compatibility; without effect."""
    audio_stream: int | None = None
    """Index in the container of the sound to feed; none leaves the choice to us."""
    video_stream: int | None = None
    """The same of the picture."""

    @property
    def is_stream_chosen(self) -> bool:
        """Whether the caller chose a stream."""
        return self.audio_stream is not None or self.video_stream is not None


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for: everything of a job but its recording and its portfolio."""

    objective: str
    """What the analyst wants to learn, in their words."""
    title: str | None
    """Name of the event, for the brief's head."""
    event_date: date | None
    """Day of the event, where known."""
    engine: str
    """Name of the engine the job asked for."""
    options: Options


# --- media -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MediaStream:
    """One stream of the recording's container, as declared by the file."""

    index: int
    """Position in the container."""
    kind: str
    """`audio`, `video`, `subtitle`, `data`, `attachment` or `unknown`."""
    codec: str | None
    """Codec name; none where the decoder has no name for it."""
    is_chosen: bool
    """Whether its seconds are fed."""
    reason: str
    """Why it was chosen or not, in words."""
    details: Mapping[str, str | int | None] = field(default_factory=dict)
    """Size, rate, layout, language and the like, as declared."""
    is_usable: bool = True
    """Whether a caller may choose it; what an earlier release found does not say."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What is known of a recording before its first unit."""

    format: str
    """Name of the demuxer that reads it."""
    size_bytes: int
    """Length of the file."""
    origin_ms: int
    """Where source time 0 lies on the container's own clock."""
    declared_duration_ms: int | None
    """Duration by the header, which may lie; none where it says nothing."""
    packet_end_ms: int | None
    """End of the source by packet time stamps: the estimate that progress is shown against."""
    streams: tuple[MediaStream, ...]
    """Every stream in the file, chosen or not."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One encoded picture."""

    source_ms: int
    """When it is presented, on the source clock."""
    width_px: int
    height_px: int
    jpeg: bytes
    """JPEG of at most FRAME_BYTES_MAX bytes, upright, display aspect, RGB."""
    sha256: str
    """Hex digest of `jpeg`; its name in storage."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One source second: 16,000 samples and at most one frame."""

    second: int
    """Source second and unit index; jumps over gaps."""
    start_ms: int
    """Always second × 1000."""
    end_ms: int
    """The next second, or the source's end where that comes first."""
    pcm: bytes
    """16,000 mono float32 samples at 16 kHz, little-endian, finite, within [-1, 1]."""
    real_samples: int
    """Decoded from the source."""
    filled_samples: int
    """Zeros inside the source's span, where it has no audio."""
    synthetic_samples: int
    """Zeros past the source's end."""
    frame: Frame | None
    """The first frame of this second, or the held picture, or none."""
    is_frame_held: bool
    """Whether `frame` is an older picture that has stood still, with its own true time."""
    decode_ms: float
    """Wall time the media process spent on this unit."""

    @property
    def frame_ms(self) -> int | None:
        """Time of the unit's own frame; none where it has none."""
        return None if self.frame is None or self.is_frame_held else self.frame.source_ms

    @property
    def held_frame_ms(self) -> int | None:
        """Time of the held picture; none where none is fed."""
        return None if self.frame is None or not self.is_frame_held else self.frame.source_ms


@dataclass(frozen=True, kw_only=True)
class Gap:
    """More than 30 s in which no chosen stream has a sample or a frame; the unit index jumps."""

    start_ms: int
    """End of the last sample or time of the last frame before it."""
    end_ms: int
    """The first sample or frame after it."""


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something about the source that a reader of the result should know, counted."""

    code: str
    """Stable name, for example `decode_errors`."""
    message: str
    """One sentence for a person."""
    count: int = 1
    """How often it happened."""
    start_ms: int | None = None
    """First source time it concerns; none where it concerns the whole or no time is known."""
    end_ms: int | None = None
    """Last source time it concerns; none as above."""


@dataclass(frozen=True, kw_only=True)
class MediaEnd:
    """What the media process knows once it has reached the end of the source."""

    source_end_ms: int
    """The later of the last real sample and the last frame's presentation time."""
    units: int
    real_samples: int
    filled_samples: int
    synthetic_samples: int
    own_frames: int
    """Units with a picture of their own."""
    held_frames: int
    """Units fed with a held picture."""
    clipped_samples: int
    """Samples brought back into [-1, 1], at the source's rate."""
    replaced_samples: int
    """NaN or infinite samples replaced by zero, at the source's rate."""
    remarks: tuple[Remark, ...]
    """Damage, choices and corrections, each counted."""


@dataclass(frozen=True, kw_only=True)
class Coming:
    """Told before a unit where the one after it is here already; it follows in its turn."""

    unit: Unit


MediaEvent = Probe | Coming | Unit | Gap | MediaEnd
"""What the media process sends, in order: one Probe, then units and gaps, then one MediaEnd."""


# --- engine ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SessionContext:
    """What an engine is told once, before the first unit of an epoch."""

    epoch: int
    """The epoch's number within its job; also the fence."""
    prompt: str
    """Exact system text, from pipeline/prompt.py."""
    holdings: tuple[Holding, ...]
    options: Options


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """Which engine ran, with what settings; stored with the epoch and shown in the brief."""

    name: str
    """`minicpmo` or `rehearsal`."""
    revision: str
    """Pinned model revision, or the engine's own version."""
    device: str
    settings: Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, kw_only=True)
class EngineClocks:
    """Where the time of one unit went inside the engine, by the monotonic clock."""

    prepare_ms: float
    """Decoding samples and picture on the CPU."""
    prefill_ms: float
    generate_ms: float
    upstream_ms: Mapping[str, float] = field(default_factory=dict)
    """The model code's own `cost_*` figures, by its wall clock; for comparison only."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the engine returned for one unit."""

    sequence: int
    """Which unit of the epoch it answers, counted from 0 without holes; drain units count on."""
    drain: int | None
    """1–8 for a synthetic unit after the source's end, else none."""
    decision: Decision
    text: str
    """Public text of this unit; empty when listening."""
    is_end_of_turn: bool
    tokens: int
    """Text tokens produced for this unit."""
    generation_id: str | None
    """Names the turn this text belongs to; none when listening outside a turn."""
    window_start_sequence: int
    """The oldest unit the engine could still remember while it answered."""
    cached_tokens: int | None
    """Tokens in the engine's window afterwards; none where it has no such count."""
    payload_sha256: str
    """Digest of what was fed (see engine/session.py)."""
    queue_wait_ms: float
    """From hand-over until the engine began."""
    inference_ms: float
    """Inside the engine."""
    clocks: EngineClocks | None = None
    """None for an engine that does not tell them apart."""


@dataclass(frozen=True, kw_only=True)
class SessionEnd:
    """How a session ended."""

    is_audio_consumed: bool
    """Whether every real sample passed through the engine."""
    is_utterance_open: bool
    """Whether a turn was still open."""


# --- findings ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A stretch of source time."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, kw_only=True)
class FrameRecord:
    """A kept frame without its bytes: one still that stands at two times is two of them."""

    sha256: str
    """Digest of the bytes; their name in storage."""
    source_ms: int
    """When it is presented; tells the frames of one epoch apart."""
    width_px: int
    height_px: int


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a text comes from: what the model could have drawn on, and when it said it."""

    generated_in: Interval
    """The units from the turn's first to the one that completed the text."""
    available_from_ms: int
    """The later of the engine's window start and the end of the turn before."""
    first_sequence: int
    """The turn's first unit."""
    last_sequence: int
    """The unit that completed the text."""
    frames: tuple[FrameRecord, ...]
    """Frames kept from the evidence interval, the most telling first."""

    @property
    def interval(self) -> Interval:
        """The evidence interval: from `available_from_ms` to the end of `generated_in`."""
        start_ms = min(self.available_from_ms, self.generated_in.start_ms)
        return Interval(start_ms=start_ms, end_ms=self.generated_in.end_ms)


@dataclass(frozen=True, kw_only=True)
class TextMark:
    """Something a reader must know of a generated text, counted."""

    code: str
    """Stable name, for example `secret_masked`; pipeline/findings/safety.py lists them."""
    count: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Public text of a turn, or of a part of it, that is not a finding."""

    epoch: int
    """The epoch's number within its job."""
    turn: int
    """Counted from 0 within the epoch."""
    block: int
    """Counted from 0 within the turn."""
    kind: EvidenceKind
    text: str
    """Without what was held back; empty where that is all of it."""
    origin: Origin
    marks: tuple[TextMark, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A complete labelled portfolio conclusion."""

    epoch: int
    """The epoch's number within its job."""
    turn: int
    """Counted from 0 within the epoch."""
    block: int
    """Counted from 0 within the turn."""
    holding_ids: tuple[str, ...]
    """Supplied holdings it names, at least one."""
    unmatched: tuple[str, ...]
    """Names it gives that no supplied holding bears."""
    ambiguous: tuple[str, ...]
    """Names that fit more than one supplied holding, or a ticker with another exchange."""
    evidence: str
    """What was observed."""
    is_audio_evidence: bool
    """Whether the text says that it was heard, not seen."""
    implication: str
    uncertainty: str
    verification: str
    is_closed: bool
    """Whether the last field ended in sentence punctuation."""
    text: str
    """The block as the engine wrote it, without what was held back."""
    origin: Origin
    marks: tuple[TextMark, ...] = ()

    @property
    def claim(self) -> Claim:
        return Claim(
            holding_ids=self.holding_ids, evidence=self.evidence, implication=self.implication
        )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a finding says, without where and how surely: what likeness is judged by."""

    holding_ids: tuple[str, ...]
    evidence: str
    implication: str


@dataclass(frozen=True, kw_only=True)
class FindingNote:
    """One entry in the log of what people did about a finding; never changed, never removed."""

    epoch: int
    turn: int
    block: int
    number: int
    """Counted from 1 within the finding."""
    action: NoteAction
    text: str
    """The analyst's words; may be empty unless the action is `note`. Untrusted."""
    author: str
    """Who, by the label of the key that was used."""
    at: datetime


# --- what a run covered ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FedUnit:
    """A completed unit as the ledger keeps it; what the brief's coverage is counted from."""

    epoch: int
    sequence: int
    second: int | None
    """None for a drain unit."""
    drain: int | None
    start_ms: int
    end_ms: int
    real_samples: int
    filled_samples: int
    synthetic_samples: int
    frame_ms: int | None
    """Time of the unit's own frame; none where it has none."""
    held_frame_ms: int | None
    """Time of the held picture that was fed; none where none was."""
    rms_dbfs: float | None
    """Level of the unit's samples; none for digital silence."""
    decision: Decision
    is_end_of_turn: bool
    inference_ms: float | None = None
    """Time inside the engine; none where it was not kept."""


@dataclass(frozen=True, kw_only=True)
class UnitClocks:
    """When things happened to one unit, by the database host's and the loop's clocks."""

    decode_ms: float
    """Wall time in the media process; 0 for a drain unit."""
    queue_wait_ms: float
    """From hand-over to the engine until it began."""
    inference_started_at: datetime
    inference_ended_at: datetime
    emitted_at: datetime
    """When the loop had the reply and its texts in hand."""


@dataclass(frozen=True, kw_only=True)
class WrittenUnit:
    """How long a committed unit took, by the monotonic clock; known once it is committed."""

    sequence: int
    ledger_ms: float
    """From its frames' files to the end of its transaction, waits for the database included."""
    total_ms: float
    """From the hand-over to the engine to the end of its transaction."""


# --- what the ledger gives back ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RecordingRecord:
    """A recording as the ledger knows it."""

    filename: str
    """Base name the submitter gave; untrusted text."""
    sha256: str
    size_bytes: int
    probe: Probe | None
    """None until the media process has opened it."""


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One epoch of a job as the ledger knows it."""

    number: int
    start_s: int
    engine: EngineInfo
    prompt_sha256: str
    started_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    """An EndReason of this release or a later one; none while it runs."""
    end_detail: str | None
    """A sentence for a person; none where the reason says it all."""
    gaps: tuple[Gap, ...]
    media_end: MediaEnd | None
    """None where the source's end was never reached."""
    session_end: SessionEnd | None


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """Everything a brief is assembled from: the rows of one job."""

    job_id: str
    state: JobState
    request: Request
    holdings: tuple[Holding, ...]
    portfolio_sha256: str
    recording: RecordingRecord
    created_at: datetime
    ended_at: datetime | None
    epochs: tuple[EpochRecord, ...]
    """In order of their numbers."""
    units: tuple[FedUnit, ...]
    """Completed units, in order of epoch and sequence."""
    findings: tuple[Finding, ...]
    """In order of epoch, turn and block."""
    evidence: tuple[Evidence, ...]
    """In order of epoch, turn and block."""
    end_reason: str | None = None
    """Why the job ended, where that is not its newest epoch's reason; an open set."""
    notes: tuple[FindingNote, ...] = ()
    """In order of epoch, turn, block and number."""
