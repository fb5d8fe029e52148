"""Replies become findings when they are complete, evidence when they are not, and never vanish."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.findings.grammar import Cleaner
from pipeline.findings.safety import PROMPT_ECHO, REPETITION
from pipeline.records import Finding, FrameRecord, Interval
from tests.pipeline.findings.calls import calls_in
from tests.pipeline.findings.replies import Epoch, Record, frame_at, spoken, told
from tests.pipeline.findings.turns import FIVE, OTHER, E, F

HELD = (PROMPT_ECHO, REPETITION)

GRAINS = st.sampled_from(
    [
        "Holdings: Acme\n",
        "Holdings: Nvidia.\n",
        "Evidence: Rose.\n",
        "Audio evidence: said\n",
        "Implication: up.\n",
        "Uncertainty: much.\n",
        "**Verify:** ask.\n",
        "Verify: ask\n",
        "ask again.\n",
        "and",
        "\n",
        "\r",
        "\n\n",
        ".\r\n",
        "Eviden",
        "\u200b",
        ": ",
        FIVE,
        FIVE + "\n",
        OTHER + "\n",
    ]
)
TEXTS = st.one_of(st.text(max_size=120), st.lists(GRAINS, max_size=14).map("".join))


def content(record: Record) -> F | E:
    if isinstance(record, Finding):
        return F(record.holding_ids, record.is_closed, record.unmatched, record.ambiguous)
    return E(record.text)


def words(lines: list[str]) -> list[str]:
    return re.findall(r"\w+", "\n".join(lines))


def in_order(records: dict[tuple[int, int], Record]) -> list[Record]:
    return [records[key] for key in sorted(records)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FIVE}\n---\n{OTHER}\n***\n", [F(("ACM",)), F(("TSL",))]),
        ("**1. " + FIVE.replace(":", ":**").replace("\n", "\n**2. ") + "\n", [F(("ACM",))]),
        (FIVE.replace("Acme Corp", "\n- Acme Corp\n- Tesla, Inc.") + "\n", [F(("ACM", "TSL"))]),
        (FIVE.replace("the filing.", "„the filing.“") + "\n", [F(("ACM",))]),
        (FIVE.replace("the filing.", "the U.S.\nfiling.") + "\n", [F(("ACM",))]),
        (FIVE[:-1] + "\n", [E(FIVE[:-1])]),
        (FIVE.replace("the filing.", "page 3."), [E(FIVE.replace("the filing.", "page 3."))]),
    ],
)
def test_a_turn_that_is_cut_says_this(text: str, said: list[F | E]) -> None:
    assert [content(record) for record in in_order(spoken([text], ends=False))] == said


@given(TEXTS, st.data(), st.booleans())
@settings(max_examples=120)
def test_any_split_of_any_text_says_the_same(text: str, data: st.DataObject, ends: bool) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    split = in_order(spoken(parts, ends=ends))
    assert told(split) == told(in_order(spoken([text], ends=ends)))


@given(TEXTS, st.booleans())
@settings(max_examples=100)
def test_nothing_said_is_lost_and_nothing_is_told_twice(text: str, ends: bool) -> None:
    lines = [line.strip() for line in Cleaner().clean(text).split("\n") if line.strip()]
    records = spoken([text], ends=ends).values()
    kept = [line.strip() for record in records for line in record.text.split("\n") if line.strip()]
    if any(mark.code in HELD for record in records for mark in record.marks):
        assert not Counter(words(kept)) - Counter(words(lines))
    else:
        assert sorted(kept) == sorted(lines)


def test_a_finding_has_its_fields() -> None:
    [finding] = spoken([FIVE + "\n"]).values()
    assert isinstance(finding, Finding)
    assert (finding.evidence, finding.implication) == ("Revenue was 5.1bn.", "Margins may rise.")
    assert (finding.uncertainty, finding.verification) == ("One quarter only.", "Read the filing.")
    assert not finding.is_audio_evidence
    assert finding.text == FIVE


def test_what_was_only_heard_is_marked_and_what_was_also_seen_keeps_the_label() -> None:
    [heard] = spoken([FIVE.replace("Evidence", "Audio evidence")]).values()
    [both] = spoken([FIVE.replace("Impl", "Audio evidence: Applause.\nImpl")]).values()
    assert isinstance(heard, Finding)
    assert isinstance(both, Finding)
    assert (heard.evidence, heard.is_audio_evidence) == ("Revenue was 5.1bn.", True)
    assert both.evidence == "Revenue was 5.1bn.\nAudio evidence: Applause."
    assert not both.is_audio_evidence


def test_values_lose_the_markers_of_a_bold_line() -> None:
    [finding] = spoken(["\n".join(f"**{line}**" for line in FIVE.split("\n"))]).values()
    assert isinstance(finding, Finding)
    assert finding.verification == "Read the filing."


# --- when


def test_a_finding_is_published_at_the_line_end_that_closes_it() -> None:
    epoch = Epoch()
    assert epoch.say(FIVE[:80]) == ()
    assert epoch.say(FIVE[80:]) == ()
    [finding] = epoch.say("\nAsk")
    assert content(finding) == F(("ACM",))
    assert finding.origin.generated_in == Interval(start_ms=0, end_ms=3000)
    assert (finding.origin.first_sequence, finding.origin.last_sequence) == (0, 2)


def test_a_continuing_turn_updates_the_same_record() -> None:
    epoch = Epoch()
    [first] = epoch.say(FIVE + "\n")
    assert epoch.say("Ask the ") == ()
    [second] = epoch.say("company.\n")
    assert (first.turn, first.block) == (second.turn, second.block) == (0, 0)
    assert second.text == FIVE + "\nAsk the company."
    assert second.origin.generated_in.end_ms == 3000
    assert epoch.say("", end=True) == ()
    assert epoch.cut() == ()


def test_a_finding_that_the_turns_end_closed_has_the_turns_end() -> None:
    epoch = Epoch()
    epoch.say(FIVE)
    epoch.say("")
    [finding] = epoch.say("", end=True)
    assert content(finding) == F(("ACM",))
    assert finding.origin.generated_in == Interval(start_ms=0, end_ms=3000)


def test_nothing_of_an_incomplete_turn_is_told_before_its_end() -> None:
    epoch = Epoch()
    assert epoch.say("Something is shown.\n\nHoldings: Acme\n") == ()
    assert epoch.say("Evidence: It rose.\n\n") == ()
    records = epoch.say("Done", end=True)
    assert [record.block for record in records] == [0, 1, 2]


def test_a_block_closed_by_every_line_is_told_a_bounded_number_of_times() -> None:
    epoch = Epoch()
    updates = len(epoch.say(FIVE + "\n"))
    for number in range(100):
        updates += len(epoch.say(f"Ask {number} firms.\n"))
    assert updates <= 10
    [last] = epoch.say("\n")
    assert last.text == FIVE + "".join(f"\nAsk {number} firms." for number in range(100))
    assert last.origin.last_sequence == 100


def test_the_last_closing_before_a_cut_counts_though_it_was_not_told_yet() -> None:
    epoch = Epoch()
    epoch.say(FIVE + "\n")
    for number in range(20):
        epoch.say(f"Ask {number} firms.\n")
    epoch.say("And")
    finding, rest = epoch.cut()
    assert finding.text == FIVE + "".join(f"\nAsk {number} firms." for number in range(20))
    assert finding.origin.last_sequence == 20
    assert content(rest) == E("And")
    assert rest.block == 1


def test_turns_are_counted_and_listening_ends_none() -> None:
    epoch = Epoch()
    epoch.listen(2)
    epoch.say("One.")
    epoch.listen()
    assert [content(record) for record in epoch.say(" Two.", end=True)] == [E("One. Two.")]
    [second] = epoch.say("Three.", end=True)
    assert second.turn == 1


def test_a_cut_after_the_last_turn_has_nothing_to_say() -> None:
    epoch = Epoch()
    assert epoch.cut() == ()
    epoch.say("One.", end=True)
    assert epoch.cut() == epoch.cut() == ()


def test_a_drain_completes_for_the_last_source_second() -> None:
    epoch = Epoch()
    epoch.say(FIVE)
    [finding] = epoch.say("\n", end=True, frame=False, at_ms=(850, 850))
    assert finding.origin.generated_in == Interval(start_ms=0, end_ms=850)


# --- where from


def test_what_was_available_begins_with_the_engines_memory() -> None:
    epoch = Epoch()
    epoch.listen(10)
    [evidence] = epoch.say("One.", end=True, window=4)
    assert evidence.origin.available_from_ms == 4000
    assert evidence.origin.generated_in.start_ms == 10_000
    assert evidence.origin.interval == Interval(start_ms=4000, end_ms=11_000)


def test_what_was_available_begins_after_the_turn_before() -> None:
    epoch = Epoch()
    epoch.listen(3)
    epoch.say("One.", end=True)
    epoch.listen(2)
    [evidence] = epoch.say("Two.", end=True, window=1)
    assert evidence.origin.available_from_ms == 4000


def test_a_window_that_slides_during_a_turn_does_not_shorten_what_was_available() -> None:
    epoch = Epoch()
    epoch.listen(5)
    epoch.say("One", window=2)
    [evidence] = epoch.say(".", end=True, window=5)
    assert evidence.origin.available_from_ms == 2000


def test_a_memory_that_never_slides_is_kept_in_bounded_space() -> None:
    epoch = Epoch()
    epoch.listen(3000)
    [evidence] = epoch.say("One.", end=True)
    assert evidence.origin.available_from_ms == 0
    assert len(epoch.reader._starts) <= 1024
    assert len(epoch.reader._ring) == 128


def times(record: Record) -> list[int]:
    return [frame.source_ms for frame in record.origin.frames]


def test_frames_are_at_the_turns_first_unit_then_at_its_completion_then_the_earliest() -> None:
    epoch = Epoch()
    epoch.listen(5)
    epoch.say("One", window=1)
    epoch.say(" two")
    records = epoch.say(" three.", end=True)
    assert times(records[0]) == [5000, 7000, 1000]
    assert [frame.source_ms for frame in epoch.reader.frames(records)] == [5000, 7000, 1000]


def test_frames_come_from_the_evidence_interval_only() -> None:
    epoch = Epoch()
    epoch.listen(2)
    epoch.say("One.", end=True)
    epoch.listen(2, frame=False)
    [evidence] = epoch.say("Two.", end=True, frame=False)
    assert times(evidence) == []


def test_the_last_frame_before_a_turn_stands_for_its_first_unit() -> None:
    epoch = Epoch()
    epoch.listen(2)
    epoch.listen(2, frame=False)
    epoch.say("One", frame=False)
    [evidence] = epoch.say(".", end=True)
    assert times(evidence) == [1000, 5000, 0]


def test_a_long_turn_keeps_the_frames_of_its_beginning() -> None:
    epoch = Epoch(ring_capacity=4)
    epoch.listen(3)
    epoch.say("One")
    for _ in range(50):
        epoch.say(" more")
    records = epoch.say(".", end=True)
    assert times(records[0]) == [3000, 54_000, 0]
    assert len(epoch.reader.frames(records)) == 3


def test_each_moment_is_named_once() -> None:
    epoch = Epoch()
    [evidence] = epoch.say("One.", end=True)
    expected = frame_at(0)
    assert evidence.origin.frames == (
        FrameRecord(sha256=expected.sha256, source_ms=0, width_px=448, height_px=252),
    )


def test_a_still_that_stays_on_screen_is_named_at_every_moment_with_its_own_time() -> None:
    epoch = Epoch(still=b"slide")
    epoch.listen(2)
    epoch.say("One")
    [evidence] = epoch.say(" two.", end=True)
    assert times(evidence) == [2000, 3000, 0]
    assert len({frame.sha256 for frame in evidence.origin.frames}) == 1
    kept = epoch.reader.frames([evidence])
    assert [(frame.source_ms, frame.jpeg) for frame in kept] == [
        (2000, b"slide"),
        (3000, b"slide"),
        (0, b"slide"),
    ]


def test_a_closing_that_waits_keeps_the_frames_of_its_moment() -> None:
    epoch = Epoch(ring_capacity=2)
    epoch.say(FIVE + "\n")
    for _ in range(20):
        epoch.say("Ask again.\n")
    epoch.say("And")
    for _ in range(10):
        epoch.say(" so")
    records = epoch.cut()
    assert times(records[0]) == [0, 20_000]
    assert {frame.source_ms for frame in epoch.reader.frames(records)} == {0, 20_000, 31_000}


# --- how much work


def read(parts: list[str]) -> None:
    epoch = Epoch()
    for part in parts:
        epoch.say(part)
    epoch.say("", end=True)


@pytest.mark.parametrize(
    "grain",
    [
        "word ",
        "\n",
        "Evidence: x\n",
        "Verify: x.\n",
        FIVE + "\n",
        FIVE + "\n\n",
        "Acme, ",
        " and ",
        "Inc ",
        "**",
        "Holdings: Acme. Evidence: ",
    ],
)
@pytest.mark.parametrize("head", ["", FIVE + "\n", FIVE + "\nHoldings: "])
def test_twice_the_text_takes_twice_the_work(head: str, grain: str) -> None:
    count = min(120, 6000 // len(grain))
    once, twice = (
        calls_in(partial(read, [head, *[grain] * repeats])) for repeats in (count, 2 * count)
    )
    assert twice < 2.05 * once + 2000


@pytest.mark.parametrize("grain", ["Ask again.\n", FIVE + "\n", "x"])
def test_what_is_told_is_bounded_by_what_is_said(grain: str) -> None:
    epoch = Epoch()
    records = list(epoch.say(FIVE + "\n"))
    for _ in range(400):
        records += epoch.say(grain)
    records += epoch.say("", end=True)
    said = len(FIVE) + 400 * len(grain)
    assert sum(len(record.text) for record in records) < 10 * said


def test_records_are_for_replies_that_speak() -> None:
    epoch = Epoch()
    epoch.listen()
    assert epoch.records == {}
