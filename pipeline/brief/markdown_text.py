"""Untrusted text as Markdown that renders as exactly that text."""

from __future__ import annotations

import re

from pipeline.brief.visible import visible

# What could become an address for a renderer that links bare ones. A backslash does not stop all
# of them (some look at the text after parsing); inside a code span none does.
_ADDRESS = re.compile(r"[^\s`|]*(?://|www\.|@(?=[^\s`|])|mailto:|xmpp:)[^\s`|]*", re.IGNORECASE)
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~&!$^]|\.(?=[^\W\d_])")
_LINE_START = re.compile(r"^(?:[-+=:]|\d+(?=[.)]))")
_SPACES = re.compile(r"\s+")


def inline(text: str) -> str:
    """One line of Markdown; line ends become spaces."""
    return _line(" ".join(visible(text).split("\n")))


def lines(text: str) -> list[str]:
    """The lines that hold anything, each safe at the start of a line."""
    return [line for line in map(_line, visible(text).split("\n")) if line]


def _line(text: str) -> str:
    text = _SPACES.sub(" ", text).strip()
    parts: list[str] = []
    position = 0
    for match in _ADDRESS.finditer(text):
        parts.append(_escape(text[position : match.start()]))
        parts.append(f"`{match.group()}`")
        position = match.end()
    parts.append(_escape(text[position:]))
    return _LINE_START.sub(_escape_start, "".join(parts))


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match.group(), text)


def _escape_start(match: re.Match[str]) -> str:
    start = match.group()
    # A digit cannot be escaped; the mark that would make it a list item follows it.
    return f"{start}\\" if start.isdigit() else f"\\{start}"
