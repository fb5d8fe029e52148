"""The values of a labelled block, read from its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.findings.grammar import closes, says_something
from pipeline.findings.safety import Line
from pipeline.prompt import Label


@dataclass(frozen=True, kw_only=True)
class Fields:
    """What a block says under each label; empty where it says nothing."""

    holdings: str
    evidence: str
    """Seen and heard, in the order written; what was heard keeps its label where both are given."""
    is_audio_evidence: bool
    """Whether it was only heard."""
    implication: str
    uncertainty: str
    verification: str
    is_closed: bool
    """Whether the field that came last ends a sentence."""


def read_fields(lines: Sequence[Line]) -> Fields:
    """Reads whole lines of one block; the first of them begins with a label."""
    parts: dict[Label, list[str]] = {}
    open_markers: dict[Label, str] = {}
    current: list[str] = []
    last = Label.HOLDINGS
    for line in lines:
        if line.label is None:
            if line.text:
                current.append(line.text)
            continue
        last = line.label
        current = parts[last] = [line.value]
        open_markers[last] = line.open_marker
    values = {
        label: _without_marker("\n".join(part).strip(), open_markers[label])
        for label, part in parts.items()
    }
    seen, heard = values.get(Label.EVIDENCE, ""), values.get(Label.AUDIO_EVIDENCE, "")
    has_both = says_something(seen) and says_something(heard)
    observed = {
        Label.EVIDENCE: seen,
        Label.AUDIO_EVIDENCE: f"{Label.AUDIO_EVIDENCE.value}: {heard}" if has_both else heard,
    }
    evidence = "\n".join(observed[label] for label in parts if observed.get(label))
    return Fields(
        holdings=values.get(Label.HOLDINGS, ""),
        evidence=evidence,
        is_audio_evidence=says_something(heard) and not has_both,
        implication=values.get(Label.IMPLICATION, ""),
        uncertainty=values.get(Label.UNCERTAINTY, ""),
        verification=values.get(Label.VERIFY, ""),
        is_closed=says_something(values.get(last, "")) and closes(values[last].split("\n")),
    )


def _without_marker(value: str, marker: str) -> str:
    """Drop the bold marker that closes what one before the label opened."""
    if marker and value.endswith(marker):
        return value[: -len(marker)].rstrip()
    return value
