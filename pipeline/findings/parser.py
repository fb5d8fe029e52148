"""Generated text of one turn to labelled blocks: incremental, total, linear."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.findings.grammar import Cleaner, ends_sentence, read_label, says_something
from pipeline.findings.safety import BLANK, Line, LineGuard
from pipeline.prompt import Label

_OBSERVED = frozenset({Label.EVIDENCE, Label.AUDIO_EVIDENCE})
_NEEDED = frozenset(Label) - _OBSERVED


@dataclass(kw_only=True, eq=False)
class Block:
    """A run of lines that belong together: labelled fields, or prose outside of any.

    Lines are only ever appended, so that a number of lines names a state of the block for good.
    """

    number: int
    """Counted from 0 within the turn."""
    is_labelled: bool
    lines: list[Line] = field(default_factory=list)
    labels: set[Label] = field(default_factory=set)
    """Labels it has."""
    valued: set[Label] = field(default_factory=set)
    """Labels with a value."""
    last_label: Label | None = None
    tail: str = ""
    """The last that was said under the last label."""

    def add(self, line: Line) -> None:
        """Append a line, and note its label or that the field it continues has a value."""
        self.lines.append(line)
        if line.label is not None:
            self.last_label = line.label
            self.labels.add(line.label)
        if line.label is not None or says_something(line.value) or ends_sentence(line.value):
            self.tail = line.value
        if self.last_label is not None and says_something(line.value):
            self.valued.add(self.last_label)

    def is_complete(self) -> bool:
        """Whether all five fields have a value; either evidence label counts."""
        return self.valued >= _NEEDED and bool(self.valued & _OBSERVED)

    def is_closed(self) -> bool:
        """Whether it is complete and the last field received ends a sentence."""
        return self.is_complete() and self.last_label in self.valued and ends_sentence(self.tail)


@dataclass(frozen=True, kw_only=True)
class Closing:
    """A line end at which a block was closed; later lines may still join it."""

    block: Block
    lines: int
    """How many of the block's lines were there."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A block that no line can join any more."""

    block: Block


class TurnParser:
    """Reads one turn as it arrives. Blocks depend on the text alone, never on how it was split.

    A labelled block begins at a label and ends at a blank line or a repeated label. Prose before,
    between and after is a block of its own, which only a label ends, so that every line with
    something in it belongs to exactly one block.
    """

    def __init__(self) -> None:
        self._cleaner = Cleaner()
        self._guard = LineGuard()
        self._pending: list[str] = []
        self._next_number = 0
        self._current: Block | None = None
        self._events: list[Closing | Ending] = []
        self.blocks: dict[int, Block] = {}
        """By number, in order; whoever reads the parser may drop those it is done with."""

    def feed(self, text: str) -> list[Closing | Ending]:
        """Take in more text; returns what its line ends brought, in order."""
        *lines, rest = self._cleaner.clean(text).split("\n")
        for line in lines:
            self._pending.append(line)
            self._take_line()
            block = self._current
            if block is not None and block.is_closed():
                self._events.append(Closing(block=block, lines=len(block.lines)))
        if rest:
            self._pending.append(rest)
        return self._new_events()

    def finish(self) -> list[Closing | Ending]:
        """The turn is over: what has come of the last line is its last line, without a line end."""
        self._take_line()
        self._end_block()
        return self._new_events()

    def new_number(self) -> int:
        """A block number that no block of this turn has."""
        number = self._next_number
        self._next_number += 1
        return number

    def _take_line(self) -> None:
        line = "".join(self._pending).rstrip()
        self._pending.clear()
        block = self._current
        if not line.strip():
            if block is not None and block.is_labelled:
                self._end_block()
            elif block is not None and block.lines[-1] is not BLANK:
                block.lines.append(BLANK)
            return
        labelled = read_label(line)
        begins_block = block is None or (
            labelled is not None and (not block.is_labelled or labelled.label in block.labels)
        )
        if block is None or begins_block:
            self._end_block()
            block = Block(number=self.new_number(), is_labelled=labelled is not None)
            self._current = self.blocks[block.number] = block
        block.add(self._guard.take(line, labelled, begins_block=begins_block))

    def _end_block(self) -> None:
        if self._current is not None:
            self._events.append(Ending(block=self._current))
        self._current = None

    def _new_events(self) -> list[Closing | Ending]:
        events, self._events = self._events, []
        return events
