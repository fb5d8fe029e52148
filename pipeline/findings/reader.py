"""Replies of one epoch to evidence and findings, each with where it comes from."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.findings.fields import read_fields
from pipeline.findings.holdings import HoldingsIndex
from pipeline.findings.lookback import FrameRing, TurnFrames
from pipeline.findings.orders import OrderFinder
from pipeline.findings.parser import Block, Closing, Ending, TurnParser
from pipeline.findings.safety import REPETITION, Line, kept_text, marks
from pipeline.records import (
    Decision,
    Evidence,
    EvidenceKind,
    Finding,
    Frame,
    FrameRecord,
    Holding,
    Interval,
    Origin,
    Reply,
    TextMark,
)

EAGER_READS_MAX = 8
"""Closings of one block that are published as they come; a later one waits for the block's end.

A block that is closed again by every line would else be written out as often as it has lines.
"""

BLOCK_COPIES_MAX = 2
"""How often one turn may tell the same block in the same words; what comes after is repetition.

Twice happens where a moment comes again; a model that has lost its way goes on and on.
"""

SHORT_BLOCK_WORDS = 4
SHORT_COPIES_MAX = 9
"""A block of fewer words, such as `Next.` between two findings, may come so often."""

UNIT_STARTS_MAX = 1024
"""Starts of units kept to find where the engine's memory begins: ten times its longest."""


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """A unit that completed a text, and the frames that show what it could have drawn on."""

    sequence: int
    end_ms: int
    frames: tuple[Frame, ...]


@dataclass(kw_only=True, eq=False)
class _Progress:
    """How far a block has been published."""

    published: int = 0
    """Lines of it that a published finding has."""
    reads: int = 0
    """Closings that were looked at."""
    waiting: tuple[int, _Moment] | None = None
    """The last closing that was not looked at, by its number of lines."""


@dataclass(kw_only=True, eq=False)
class _Turn:
    """A turn that is still open."""

    number: int
    first_sequence: int
    start_ms: int
    available_from_ms: int
    frames: TurnFrames
    parser: TurnParser = field(default_factory=TurnParser)
    progress: dict[int, _Progress] = field(default_factory=dict)
    told: dict[bytes, int] = field(default_factory=dict)
    """How often each block was told that has ended, by a digest of its words."""


class FindingsReader:
    """Turns the replies of one epoch into evidence and findings.

    `observe` once for every reply, in order, drain replies included; then `cut` once. A record is
    keyed by epoch, turn and block; one that comes again replaces the one before.

    Every line with something in it is in exactly one record once its turn is over: a finding or
    evidence has its block's lines whole, except for what safety.py masks or holds back, which the
    record's marks count; a block that was held back whole is evidence without text. Only where a
    finding was published and the lines that joined its block afterwards cannot be (the turn was
    cut), they become evidence under a block number of their own, and the finding stays as
    published.
    """

    def __init__(self, *, epoch: int, holdings: Sequence[Holding], ring_capacity: int) -> None:
        self._epoch = epoch
        self._index = HoldingsIndex(holdings)
        self._orders = OrderFinder(holdings)
        self._ring = FrameRing(ring_capacity)
        self._starts: deque[tuple[int, int]] = deque()
        self._turns = 0
        self._turn: _Turn | None = None
        self._last = (0, 0)
        self._turn_before_end: tuple[int, int] | None = None
        self._named: dict[int, Frame] = {}

    def observe(
        self, reply: Reply, *, start_ms: int, end_ms: int, frame: Frame | None
    ) -> tuple[Evidence | Finding, ...]:
        """Take in one reply and the unit it answers; returns records that are new or updated.

        For a drain reply both times are the source's end, and there is no frame.
        """
        self._named = {}
        self._last = (reply.sequence, end_ms)
        self._remember_start(reply, start_ms)
        if frame is not None:
            self._ring.add(reply.sequence, frame)
        turn = self._turn
        if turn is None:
            if reply.decision is not Decision.SPEAK:
                return ()
            turn = self._turn = self._open(reply, start_ms)
        turn.frames.reach(reply.sequence)
        records = self._take(turn, turn.parser.feed(reply.text))
        if reply.is_end_of_turn:
            records += self._end(turn)
        # A block that was closed and completed by one reply is told once, as it stands now.
        latest = {(record.turn, record.block): record for record in records}
        return tuple(latest.values())

    def cut(self) -> tuple[Evidence | Finding, ...]:
        """Nothing more will come: what the open turn has not published is cut evidence.

        Returns nothing where no turn is open; calling it again is harmless.
        """
        self._named = {}
        turn = self._turn
        if turn is None:
            return ()
        records = self._take(turn, turn.parser.finish())
        for block in list(turn.parser.blocks.values()):
            records += self._leftover(turn, block, EvidenceKind.CUT)
        self._turn = None
        return tuple(records)

    def frames(self, texts: Sequence[Evidence | Finding]) -> tuple[Frame, ...]:
        """The frames that records name, each once; for those of the latest `observe` or `cut`."""
        named = dict.fromkeys(frame.source_ms for text in texts for frame in text.origin.frames)
        return tuple(self._named[source_ms] for source_ms in named)

    # --- one turn

    def _open(self, reply: Reply, start_ms: int) -> _Turn:
        before_sequence, before_ms = self._turn_before_end or (-1, 0)
        remembered_from_ms = self._start_of(reply.window_start_sequence, start_ms)
        turn = _Turn(
            number=self._turns,
            first_sequence=reply.sequence,
            start_ms=start_ms,
            available_from_ms=min(max(remembered_from_ms, before_ms), start_ms),
            frames=TurnFrames(
                self._ring,
                from_sequence=max(reply.window_start_sequence, before_sequence + 1),
                first_sequence=reply.sequence,
            ),
        )
        self._turns += 1
        return turn

    def _take(self, turn: _Turn, events: Sequence[Closing | Ending]) -> list[Evidence | Finding]:
        records: list[Evidence | Finding] = []
        for event in events:
            progress = turn.progress.setdefault(event.block.number, _Progress())
            if isinstance(event, Ending):
                records += self._settle(turn, event.block, progress)
            elif progress.reads < EAGER_READS_MAX:
                progress.reads += 1
                records += self._publish(turn, event.block, event.lines, self._moment(turn))
            else:
                progress.waiting = (event.lines, self._moment(turn))
        return records

    def _settle(self, turn: _Turn, block: Block, progress: _Progress) -> list[Finding]:
        """The block has ended: publish the closing that waits, and let go of what is told whole."""
        records: list[Finding] = []
        if progress.waiting is not None:
            lines, moment = progress.waiting
            progress.waiting = None
            records = self._publish(turn, block, lines, moment)
        if not _is_told_enough(turn, block.lines):
            digest = _digest(block.lines)
            turn.told[digest] = turn.told.get(digest, 0) + 1
        if progress.published == len(block.lines):
            del turn.parser.blocks[block.number], turn.progress[block.number]
        return records

    def _end(self, turn: _Turn) -> list[Evidence | Finding]:
        records = self._take(turn, turn.parser.finish())
        for block in list(turn.parser.blocks.values()):
            if block.is_complete():
                found = self._publish(turn, block, len(block.lines), self._moment(turn))
                if found:
                    records += found
                    continue
            records += self._leftover(turn, block, EvidenceKind.TURN)
        self._turn_before_end = self._last
        self._turn = None
        return records

    def _publish(self, turn: _Turn, block: Block, lines: int, moment: _Moment) -> list[Finding]:
        """The first lines of a complete block as a finding, where they name a supplied holding."""
        told = block.lines[:lines]
        fields = read_fields(told)
        named = self._index.find(fields.holdings)
        if not named.holding_ids or _is_told_enough(turn, told):
            return []
        turn.progress.setdefault(block.number, _Progress()).published = lines
        finding = Finding(
            epoch=self._epoch,
            turn=turn.number,
            block=block.number,
            holding_ids=named.holding_ids,
            unmatched=named.unmatched,
            ambiguous=named.ambiguous,
            evidence=fields.evidence,
            is_audio_evidence=fields.is_audio_evidence,
            implication=fields.implication,
            uncertainty=fields.uncertainty,
            verification=fields.verification,
            is_closed=fields.is_closed,
            text=kept_text(told),
            origin=self._origin(turn, moment),
            marks=marks(
                told,
                told=(
                    fields.evidence,
                    fields.implication,
                    fields.uncertainty,
                    fields.verification,
                ),
                figures_in=(fields.evidence, fields.implication),
                orders=self._orders,
            ),
        )
        return [finding]

    def _leftover(self, turn: _Turn, block: Block, kind: EvidenceKind) -> list[Evidence]:
        """The lines of a block that no finding has."""
        progress = turn.progress.get(block.number, _Progress())
        lines = block.lines[progress.published :]
        text, found = kept_text(lines), self._marks(lines)
        if not progress.published and _is_told_enough(turn, lines):
            text, found = "", (TextMark(code=REPETITION, count=1),)
        return [
            Evidence(
                epoch=self._epoch,
                turn=turn.number,
                block=turn.parser.new_number() if progress.published else block.number,
                kind=kind,
                text=text,
                origin=self._origin(turn, self._moment(turn)),
                marks=found,
            )
        ]

    def _marks(self, lines: Sequence[Line]) -> tuple[TextMark, ...]:
        """What a reader must know of lines that are no finding: every value of them counts."""
        values: list[list[str]] = [[]]
        for line in lines:
            if line.label is not None:
                values.append([])
            values[-1].append(line.value)
        told = ["\n".join(value) for value in values]
        return marks(lines, told=told, figures_in=told, orders=self._orders)

    # --- where from

    def _moment(self, turn: _Turn) -> _Moment:
        sequence, end_ms = self._last
        return _Moment(sequence=sequence, end_ms=end_ms, frames=turn.frames.chosen())

    def _origin(self, turn: _Turn, moment: _Moment) -> Origin:
        self._named.update((frame.source_ms, frame) for frame in moment.frames)
        return Origin(
            generated_in=Interval(start_ms=turn.start_ms, end_ms=moment.end_ms),
            available_from_ms=turn.available_from_ms,
            first_sequence=turn.first_sequence,
            last_sequence=moment.sequence,
            frames=tuple(_cited(frame) for frame in moment.frames),
        )

    def _remember_start(self, reply: Reply, start_ms: int) -> None:
        starts = self._starts
        starts.append((reply.sequence, start_ms))
        while len(starts) > 1 and starts[1][0] <= reply.window_start_sequence:
            starts.popleft()
        if len(starts) > UNIT_STARTS_MAX:
            # The oldest stays: a memory that never slides begins there.
            del starts[1]

    def _start_of(self, sequence: int, otherwise_ms: int) -> int:
        """Where a remembered unit began; of one not kept, where the nearest before it did."""
        start_ms = otherwise_ms
        for kept, kept_start_ms in self._starts:
            if kept > sequence:
                break
            start_ms = kept_start_ms
        return start_ms


def _is_told_enough(turn: _Turn, lines: Sequence[Line]) -> bool:
    """Whether the turn has told a block of these words as often as it may."""
    is_short = sum(len(line.text.split()) for line in lines) < SHORT_BLOCK_WORDS
    copies_max = SHORT_COPIES_MAX if is_short else BLOCK_COPIES_MAX
    return turn.told.get(_digest(lines), 0) >= copies_max


def _digest(lines: Sequence[Line]) -> bytes:
    words = " ".join(" ".join(line.text.casefold().split()) for line in lines if line.text)
    return hashlib.blake2b(words.encode(), digest_size=16).digest()


def _cited(frame: Frame) -> FrameRecord:
    return FrameRecord(
        sha256=frame.sha256,
        source_ms=frame.source_ms,
        width_px=frame.width_px,
        height_px=frame.height_px,
    )
