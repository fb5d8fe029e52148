"""Labels, sentence ends and invisible characters, line by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.grammar import Cleaner, ends_sentence, read_label
from pipeline.prompt import Label


@pytest.mark.parametrize(
    ("line", "label", "value"),
    [
        ("Holdings: Acme", Label.HOLDINGS, "Acme"),
        ("holding: Acme", Label.HOLDINGS, "Acme"),
        ("Holding(s): Acme", Label.HOLDINGS, "Acme"),
        ("EVIDENCE: Rose 5%.", Label.EVIDENCE, "Rose 5%."),
        ("Audio evidence: Said so.", Label.AUDIO_EVIDENCE, "Said so."),
        ("audio  Evidence : Said so.", Label.AUDIO_EVIDENCE, "Said so."),
        ("Implication: A.", Label.IMPLICATION, "A."),
        ("Implications：A.", Label.IMPLICATION, "A."),  # noqa: RUF001
        ("Uncertainty:", Label.UNCERTAINTY, ""),
        ("Verify: A: b.", Label.VERIFY, "A: b."),
        ("Verification: A.", Label.VERIFY, "A."),
        ("  - Verify: A.", Label.VERIFY, "A."),
        ("* Verify: A.", Label.VERIFY, "A."),
        ("• Verify: A.", Label.VERIFY, "A."),
        ("1. Evidence: A.", Label.EVIDENCE, "A."),
        ("2) Evidence: A.", Label.EVIDENCE, "A."),
        ("**Evidence:** A.", Label.EVIDENCE, "A."),
        ("**Evidence**: A.", Label.EVIDENCE, "A."),
        ("__Evidence__: A.", Label.EVIDENCE, "A."),
        ("- **Evidence**: A **b**.", Label.EVIDENCE, "A **b**."),
        ("Evidence: **A** b.", Label.EVIDENCE, "**A** b."),
    ],
)
def test_these_lines_begin_with_a_label(line: str, label: Label, value: str) -> None:
    found = read_label(line)
    assert found is not None
    assert (found.label, found.value, found.open_marker) == (label, value, "")


def test_a_bold_marker_around_the_whole_line_is_noticed() -> None:
    found = read_label("**Evidence: A.**")
    assert found is not None
    assert found.open_marker == "**"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Evidence",
        "The evidence: A.",
        "Evidences: A.",
        "Evidence of growth: A.",
        "Audio: A.",
        "Audio-evidence: A.",
        "Verify; A.",
        "Evidence**: A.",
        "Uncertainties: A.",
        "Verifying: A.",
        ": Evidence:",
        "Audio" + " " * 100 + "evidence: A.",
        " " * 200 + "x Evidence:",
        "-" * 200 + "Evidence:",
    ],
)
def test_these_lines_are_text(line: str) -> None:
    assert read_label(line) is None


@pytest.mark.parametrize(
    "text", ["A.", "A!", "A?", "A…", 'A."', "A.)", "A.**", "完。", "क।", "هل؟", "U.S. ", "5.2."]
)
def test_these_texts_end_a_sentence(text: str) -> None:
    assert ends_sentence(text)


@pytest.mark.parametrize("text", ["", "A", "A,", "A:", "A;", "A -", "A (b.) c", "5%", "**"])
def test_these_texts_do_not(text: str) -> None:
    assert not ends_sentence(text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\u200bb\u202ec\u2066d\ufeffe\x00f\x1b[g\u00adh", "abcdef[gh"),
        ("a\r\nb\rc\nd\u2028e\u2029f\x85g\x0bh\x0ci", "a\nb\nc\nd\ne\nf\ng\nh\ni"),
        ("a\tb", "a b"),
        ("\ud800x\udfff", "x"),
        ("é ü 中 😀 \u00a0", "é ü 中 😀 \u00a0"),
        ("a\ufe0fb\u3164c\U000e0041d", "abcd"),
    ],
)
def test_invisible_characters_go_and_every_line_ends_alike(text: str, cleaned: str) -> None:
    assert Cleaner().clean(text) == cleaned


@given(st.lists(st.text(alphabet="a\r\n\u2028\u200b ", max_size=5)))
def test_any_split_is_cleaned_alike(parts: list[str]) -> None:
    cleaner = Cleaner()
    assert "".join(map(cleaner.clean, parts)) == Cleaner().clean("".join(parts))
