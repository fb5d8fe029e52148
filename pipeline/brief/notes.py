"""What people did about a finding, over all of its occurrences."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.brief.document import NoteEntry
from pipeline.brief.figures import utc
from pipeline.records import Finding, FindingNote


class NoteBook:
    """The notes of a job, finding by finding."""

    def __init__(self, notes: Iterable[FindingNote]) -> None:
        self._notes: dict[str, list[FindingNote]] = {}
        for note in notes:
            self._notes.setdefault(key_of(note), []).append(note)

    def of(self, occurrences: Iterable[Finding]) -> tuple[NoteEntry, ...]:
        """Oldest first. A note stays with what it was written on when an earlier one is found."""
        found = [note for finding in occurrences for note in self._notes.get(key_of(finding), ())]
        return tuple(
            NoteEntry(
                key=key_of(note),
                number=note.number,
                action=note.action,
                text=note.text,
                author=note.author,
                at=utc(note.at),
            )
            for note in sorted(found, key=_order)
        )

    def count(self, findings: Iterable[Finding]) -> int:
        return sum(len(self._notes.get(key_of(finding), ())) for finding in findings)


def key_of(item: Finding | FindingNote) -> str:
    return f"{item.epoch}.{item.turn}.{item.block}"


def _order(note: FindingNote) -> tuple[str, int, int, int, int]:
    return utc(note.at), note.epoch, note.turn, note.block, note.number
