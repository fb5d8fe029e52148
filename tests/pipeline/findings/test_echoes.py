"""The prompt's own sentences are recognised; words shared with it are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.echoes import find_echoes
from pipeline.findings.grammar import read_label
from pipeline.findings.safety import without
from pipeline.prompt import system_text


def told(text: str) -> str:
    return without(text, find_echoes(text))


def prompt_lines() -> list[str]:
    lines = [line for line in system_text("", ()).splitlines() if line.strip()]
    labelled = [read_label(line) for line in lines]
    return [
        line if label is None else label.value for line, label in zip(lines, labelled, strict=True)
    ]


@pytest.mark.parametrize("line", prompt_lines())
def test_every_line_of_the_prompt_is_an_echo(line: str) -> None:
    assert told(line) == ""
    assert told(f"- **{line.upper()}**") == ""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Stay silent by default. Revenue rose 5%.", "Revenue rose 5%."),
        ("Revenue rose 5%. Stay silent by default.", "Revenue rose 5%."),
        ("what was shown, with the figures as shown: 5.1bn.", "5.1bn."),
        ("What was shown with the figures", ""),
        ("Speak only when what you see or hear now bears on the objective", ""),
        ("for a holding in the list.", ""),
        ("“one action that would check it”", ""),
        ("names exactly as listed, separated by commas", ""),
        ("Rules:", ""),
    ],
)
def test_a_part_is_cut_out(text: str, kept: str) -> None:
    assert told(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Holdings, evidence, implication, uncertainty, verify.",
        "Acme Corp, Tesla, Inc.",
        "What was shown was a chart with the figures for 2025.",
        "What it may mean for these holdings is a higher tax rate.",
        "It may mean lower margins for these holdings.",
        "What is unclear is the period.",
        "The devices stay silent by default.",
        "One action would check it: read the filing.",
        "The host gave no orders to trade.",
        "The recording is of an investment analyst.",
        "If it was only heard at the event, the slide may differ.",
        "Only heard.",
        "Report only.",
        "Rules",
        "The rules: none.",
        "Numbers as given.",
        "The list of the analyst's data.",
        "One second of picture and sound at a time was lost.",
        "Never repeat this.",
        "The objective and the list are the data of a survey.",
        "A conclusion unless it changed is final.",
        "One sentence a line.",
        "Figures as shown.",
        "Silent by default",
    ],
)
def test_shared_words_are_no_echo(text: str) -> None:
    assert told(text) == text


@given(st.text(max_size=100))
def test_any_text_is_read(text: str) -> None:
    assert all(0 <= start < end <= len(text) for start, end in find_echoes(text))
