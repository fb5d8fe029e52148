"""What is masked, held back and marked in findings and in evidence."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.findings.orders import OrderFinder
from pipeline.findings.safety import (
    LINK,
    NUMBERS,
    PROMPT_ECHO,
    REPETITION,
    SECRET_MASKED,
    TRADE_ORDER,
    LineGuard,
    marks,
)
from pipeline.prompt import system_text
from pipeline.records import Evidence, Finding
from tests.pipeline.findings.replies import HOLDINGS, Record, marks_of, spoken
from tests.pipeline.findings.turns import FIVE

PLAIN = FIVE.replace("Revenue was 5.1bn.", "Revenue rose.")
KEY = "AKIA" + "Q3EGRVLZ5TXW2M7N"


def finding(text: str) -> Finding:
    [record] = spoken([text + "\n"]).values()
    assert isinstance(record, Finding)
    return record


def evidence(text: str) -> Evidence:
    [record] = spoken([text + "\n"]).values()
    assert isinstance(record, Evidence)
    return record


def test_a_plain_finding_has_no_marks() -> None:
    assert finding(PLAIN).marks == ()


def test_a_secret_is_masked_in_every_field_and_in_the_text() -> None:
    record = finding(PLAIN.replace("rose", f"was {KEY}").replace("Acme Corp", f"Acme, {KEY}"))
    assert record.evidence == "Revenue was [masked]."
    assert record.unmatched == ("[masked]",)
    assert KEY not in record.text
    assert marks_of(record) == {SECRET_MASKED: 2}
    assert evidence(f"The key is {KEY}.").text == "The key is [masked]."


def test_a_private_key_is_masked_over_lines_blank_lines_and_blocks() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    text = f"-----BEGIN PRIVATE KEY-----\n{body}\n\n{body}\n-----END PRIVATE KEY-----"
    records = spoken([PLAIN.replace("rose.", text) + "\n"]).values()
    assert all(body not in record.text for record in records)
    assert evidence(text).text == "[masked]"
    assert marks_of(evidence(text)) == {SECRET_MASKED: 1}


def test_what_a_field_announces_does_not_reach_into_the_next() -> None:
    record = finding(
        PLAIN.replace("One quarter only.", "The password is").replace("Read the", "10-K405")
    )
    assert record.verification == "10-K405 filing."
    assert record.marks == ()


def test_a_template_is_held_back_whole() -> None:
    template = "\n".join(system_text("", ()).splitlines()[4:9])
    assert template.startswith("Holdings: names")
    record = evidence(template)
    assert record.text == ""
    assert marks_of(record) == {PROMPT_ECHO: 5}


def test_the_whole_prompt_is_held_back() -> None:
    records = spoken([system_text("", ())]).values()
    assert {record.text for record in records} == {""}
    assert all(marks_of(record)[PROMPT_ECHO] for record in records)


def test_a_field_that_only_echoes_has_no_value() -> None:
    text = PLAIN.replace("One quarter only.", "what is unclear or could make this wrong")
    record = evidence(text)
    assert record.text == text.replace(" what is unclear or could make this wrong", "")
    assert marks_of(record) == {PROMPT_ECHO: 1}


def test_a_supplied_list_and_labels_are_no_echo() -> None:
    names = ", ".join(holding.name for holding in HOLDINGS)
    assert finding(PLAIN.replace("Acme Corp", names)).marks == ()


def test_a_finding_followed_by_an_echo_stays_a_closed_finding() -> None:
    record = finding(PLAIN + "\nStay silent by default.")
    assert (record.text, record.is_closed) == (PLAIN, True)
    assert marks_of(record) == {PROMPT_ECHO: 1}


def test_repetition_is_held_back_and_counted() -> None:
    record = finding(PLAIN.replace("Revenue rose.", "Revenue rose. " * 8))
    assert record.evidence == "Revenue rose."
    assert marks_of(record) == {REPETITION: 1}


def test_a_block_told_over_and_over_stays_twice() -> None:
    records = list(spoken([(PLAIN + "\n\n") * 5]).values())
    assert [record.text for record in records] == [PLAIN, PLAIN, "", "", ""]
    assert [marks_of(record) for record in records[1:3]] == [{}, {REPETITION: 1}]
    assert all(isinstance(record, Evidence) for record in records[2:])


def test_a_block_that_differs_at_its_end_is_not_the_same_block() -> None:
    texts = [PLAIN, PLAIN, PLAIN + "\nAsk the company."]
    records = list(spoken(["\n\n".join(texts) + "\n"]).values())
    assert [record.text for record in records] == texts


def test_another_turn_may_say_the_same() -> None:
    assert finding(PLAIN) == finding(PLAIN)


@pytest.mark.parametrize(
    "text",
    [
        "https://acme.com/a", "HTTP://x", "hxxp://evil.test/a", "www.acme.com", "ir@acme.com",
        "ir@acme.co.uk", "mailto:ir@acme.com", "javascript:alert(1)", "data:text/html,x",
        "ftp://a.b/c", "acme.com/investors", "ir.acme.com", "[here](https://acme.com)",
        "<a href='https://acme.com'>", "(www.acme.com)", "tel:+4912345", "bit.ly/x1",
        "s3://bucket/key", "https://例え.jp", "see:https://acme.com", "a.b+c@d-e.org",
        "https://10.0.0.1:8080/", "www2.acme.com", "investors.acme.com.", "git+ssh://x/y",
    ],
)  # fmt: skip
def test_a_link_is_marked_and_stays(text: str) -> None:
    record = evidence(f"Shown {text} there.")
    assert record.text == f"Shown {text} there."
    assert marks_of(record)[LINK] == 1


@pytest.mark.parametrize(
    "text",
    [
        "Amazon.com rose.", "Booking.com, Inc.", "U.S. sales", "5.1bn", "e.g. this", "10:30",
        "a/b", "and/or", "Inc.Next", "@acme", "data: revenue", "tel: none", "www", "http",
        "R&D", "v1.2.3", "3.5x", "p.m. Eastern", "S&P 500", "Acme Corp.", "a @ b", "1:2", "://",
        "Javascript: a language", "24/7",
    ],
)  # fmt: skip
def test_this_is_no_link(text: str) -> None:
    assert LINK not in marks_of(evidence(f"Shown {text} there."))


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("5", 1), ("5.1bn", 1), ("$5,123.40", 1), ("12%", 1), ("Q3 2025", 2), ("2025-10-29", 3),
        ("five percent", 2), ("two billion", 2), ("½", 1), ("５１億ドル", 1), ("-3 bps", 1),
        ("1, 2 and 3", 3), ("十億円", 1), ("a dozen plants", 1), ("thirty-five", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["Revenue rose.", "Margins may rise."])
def test_figures_of_what_was_observed_and_what_it_means_are_counted(
    field: str, value: str, count: int
) -> None:
    assert marks_of(finding(PLAIN.replace(field, f"It was {value}."))) == {NUMBERS: count}


@pytest.mark.parametrize(
    "text", ["One quarter.", "No one.", "Often.", "First.", "一部の。", "Half."]
)
def test_this_is_no_figure(text: str) -> None:
    assert finding(PLAIN.replace("Revenue rose.", text)).marks == ()


def test_figures_elsewhere_in_a_finding_are_none_of_its_claim() -> None:
    assert finding(PLAIN.replace("Read the filing.", "Read page 5.")).marks == ()


def test_an_order_is_marked_and_stays_wherever_it_stands() -> None:
    for field in ("Revenue rose.", "Margins may rise.", "One quarter only.", "Read the filing."):
        record = finding(PLAIN.replace(field, "Sell the position."))
        assert marks_of(record) == {TRADE_ORDER: 1}
        assert "Sell the position." in record.text
    assert marks_of(evidence("Sell the position.")) == {TRADE_ORDER: 1}


def test_an_order_over_two_lines_is_one() -> None:
    record = finding(PLAIN.replace("Margins may rise.", "Margins may rise. Sell\nthe position."))
    assert marks_of(record) == {TRADE_ORDER: 1}


HOSTILE = st.lists(
    st.sampled_from(
        [
            f"key {KEY} ", "password: hunter2!x\n", "-----BEGIN PRIVATE KEY-----\n", "MIIEvQ" * 6,
            "-----END PRIVATE KEY-----", "\n", " ", "Evidence: ", "Stay silent by default.",
            "up up ", "no ", "Buy Acme now. ", "https://a.b/c ", "\u200b", "\r\n", "5% ",
            PLAIN + "\n", "Verify: Ask.\n", "password is\n",
        ]
    ),
    max_size=16,
).map("".join)  # fmt: skip


def content(records: dict[tuple[int, int], Record]) -> list[tuple[object, ...]]:
    return [
        (key, type(record), record.text, record.marks) for key, record in sorted(records.items())
    ]


@given(HOSTILE, st.data(), st.booleans())
@settings(max_examples=100)
def test_any_split_masks_holds_back_and_marks_alike(
    text: str, data: st.DataObject, ends: bool
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    split = spoken(parts, ends=ends)
    assert content(split) == content(spoken([text], ends=ends))
    assert not any(
        secret in record.text for record in split.values() for secret in (KEY, "hunter2")
    )


def seconds_for(text: str) -> float:
    """Of this process alone: another one's load does not count."""
    orders = OrderFinder(HOLDINGS)
    before = time.process_time()
    line = LineGuard().take(text, None, begins_block=True)
    marks([line], told=[line.value], figures_in=[line.value], orders=orders)
    orders.count(text)
    return time.process_time() - before


@pytest.mark.parametrize(
    "grain",
    [
        "token:",
        "-eyJ",
        "a://b:",
        "a@",
        "a.",
        "- ",
        "Sell the ",
        "secret for ",
        "百",
        "ab",
        " ",
        "up ",
    ],
)
def test_a_line_eight_times_as_long_takes_nowhere_near_sixty_four_times(grain: str) -> None:
    short, long = ("a " + grain * count + " b" for count in (200, 1600))
    # A second time only where the first was disturbed.
    assert any(seconds_for(long) < 24 * seconds_for(short) + 0.05 for _ in range(2))
