"""The blocks that Markdown is made of here."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.brief import facts, wording
from pipeline.brief.document import Setting
from pipeline.brief.markdown_text import inline, lines


def heading(section: str) -> str:
    return f"## {wording.SECTIONS[section]}"


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    ruled = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in ruled)


def text(text: str) -> str:
    return "\\\n".join(lines(text))


def quote(said: str) -> str:
    return "\n".join(f"> {line}" for line in text(said).split("\n"))


def paragraphs(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def settings(values: tuple[Setting, ...]) -> str:
    return ", ".join(
        f"{inline(item.name)} = {inline(facts.setting_value(item))}" for item in values
    )
