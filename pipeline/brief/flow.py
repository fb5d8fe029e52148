"""What a page holds, block by block, for formats that are laid out in pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pipeline.brief.picture_choice import Still


class Tone(str, Enum):
    """How a paragraph is to be read."""

    BODY = "body"
    LEAD = "lead"
    """What the reader came for."""
    SOFT = "soft"
    """What can be looked up: where from, when."""
    LABEL = "label"
    """What names the lines after it and stays with them."""
    WARNING = "warning"
    QUOTE = "quote"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A piece of text that is set alike. Untrusted: a format makes it visible and escapes it."""

    text: str
    is_strong: bool = False
    is_soft: bool = False
    is_code: bool = False
    href: str | None = None
    """Safe to be a link."""
    target: str | None = None
    """The anchor of a heading of this document."""


Runs = tuple[Run, ...]


@dataclass(frozen=True, kw_only=True)
class Heading:
    """Of level 1 there is one, the title."""

    level: int
    runs: Runs
    anchor: str | None = None


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    runs: Runs
    tone: Tone = Tone.BODY


@dataclass(frozen=True, kw_only=True)
class Bullets:
    items: tuple[Runs, ...]
    tone: Tone = Tone.BODY


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names and what they are, in two columns."""

    rows: tuple[tuple[str, Runs], ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A grid with a head; its first column names the rows."""

    head: tuple[str, ...]
    widths: tuple[int, ...]
    """In parts of the whole."""
    rows: tuple[tuple[Runs, ...], ...]
    numeric: frozenset[int] = frozenset()
    """Columns of figures."""


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Side by side, each over its moments."""

    stills: tuple[Still, ...]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The timeline as a picture; what it says stands in words after it."""

    alt: str


Block = Heading | Paragraph | Bullets | Facts | Table | Pictures | Drawing


def plain(text: str) -> Runs:
    return (Run(text=text),)


def joined(parts: Iterable[Runs], separator: str) -> Runs:
    """One after the other, with fixed text between them."""
    runs: list[Run] = []
    for part in parts:
        if runs:
            runs.append(Run(text=separator))
        runs.extend(part)
    return tuple(runs)
