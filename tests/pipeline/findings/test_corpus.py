"""Written turns say what a reader of the rules finds in them; pairs stand to each other as read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest

import pytest

from pipeline.findings.duplicates import likeness
from pipeline.findings.reader import FindingsReader
from pipeline.records import Decision, Evidence, EvidenceKind, Finding, Likeness, Reply
from tests.pipeline.findings.corpus.loader import Case, Told, cases, pairs, turns

Record = Evidence | Finding

GROUPS = sorted({case.group for case in cases()})


def read(case: Case, pieces: Sequence[str | None]) -> list[Record]:
    """What a ledger has of the turn once it is over, in order."""
    reader = FindingsReader(epoch=1, holdings=case.holdings, ring_capacity=8)
    replies = [_reply(sequence, piece, is_end=False) for sequence, piece in enumerate(pieces)]
    if case.ending == "ended":
        replies.append(_reply(len(replies), "", is_end=True))
    kept: dict[tuple[int, int], Record] = {}
    for reply in replies:
        start_ms = reply.sequence * 1000
        for record in reader.observe(reply, start_ms=start_ms, end_ms=start_ms + 1000, frame=None):
            kept[record.turn, record.block] = record
    for record in reader.cut():
        kept[record.turn, record.block] = record
    return [kept[key] for key in sorted(kept)]


def _reply(sequence: int, text: str | None, *, is_end: bool) -> Reply:
    return Reply(
        sequence=sequence,
        drain=None,
        decision=Decision.LISTEN if text is None else Decision.SPEAK,
        text=text or "",
        is_end_of_turn=is_end,
        tokens=1,
        generation_id=None,
        window_start_sequence=0,
        cached_tokens=None,
        payload_sha256="",
        queue_wait_ms=0.0,
        inference_ms=0.0,
    )


@cache
def readings() -> tuple[tuple[Case, tuple[Record, ...]], ...]:
    return tuple((case, tuple(read(case, case.pieces))) for case in cases())


def differences(told: Told | None, record: Record | None, ending: str) -> list[str]:
    """What a record says otherwise than a reader; empty where nothing."""
    if told is None or record is None:
        return [f"read {told}, told {record}"]
    if not told.is_either and isinstance(record, Finding) != (told.holding_ids is not None):
        return [f"read holdings {told.holding_ids}, told a {type(record).__name__}"]
    codes = {mark.code for mark in record.marks}
    found: dict[str, tuple[object, object]] = {
        "marks": (told.marks, told.marks & codes),
        "other marks": (set(), told.no_marks & codes),
        "held back": ([], [part for part in told.without if part in record.text]),
    }
    if told.text is not None:
        found["text"] = (told.text, record.text)
    if isinstance(record, Evidence):
        kind = EvidenceKind.TURN if ending == "ended" else EvidenceKind.CUT
        found["kind"] = (kind, record.kind)
    elif told.holding_ids is not None:
        found["holdings"] = (told.holding_ids, record.holding_ids)
        found["unmatched"] = (told.unmatched, record.unmatched)
        found["ambiguous"] = (told.ambiguous, record.ambiguous)
        found["closed"] = (told.is_closed, record.is_closed)
        if told.is_heard is not None:
            found["heard"] = (told.is_heard, record.is_audio_evidence)
        if told.fields is not None:
            fields = (record.evidence, record.implication, record.uncertainty, record.verification)
            found["fields"] = (told.fields, fields)
    return [
        f"{name}: read {right!r}, told {answer!r}"
        for name, (right, answer) in found.items()
        if right != answer
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_written_turns_say_what_a_reader_finds_in_them(group: str) -> None:
    wrong = [
        f"{case.name}, {case.ending}: {difference}"
        for case, records in readings()
        if case.group == group
        for told, record in zip_longest(case.told, records)
        for difference in differences(told, record, case.ending)
    ]
    assert wrong == []


def test_written_turns_say_the_same_in_one_piece_and_in_single_characters() -> None:
    whole = [case for case in cases() if None not in case.pieces]
    for case in whole:
        contents = [_content(record) for record in read(case, case.pieces)]
        assert [_content(record) for record in read(case, [case.text])] == contents, case.name
    for case in whole[:: max(1, len(whole) // 60)]:
        contents = [_content(record) for record in read(case, case.pieces)]
        assert [_content(record) for record in read(case, list(case.text))] == contents, case.name


def _content(record: Record) -> tuple[object, ...]:
    names = (record.holding_ids, record.is_closed) if isinstance(record, Finding) else ()
    return (record.block, record.text, record.marks, *names)


def test_completeness_and_matching_are_without_a_miss() -> None:
    complete: Counter[str] = Counter()
    matched: Counter[str] = Counter()
    for case, records in readings():
        for told, record in zip_longest(case.told, records):
            if told is not None and told.is_either:
                continue
            right = _named(told)
            answer = _named(record)
            complete[_outcome(right is not None, answer is not None)] += 1
            both = (right or Counter(), answer or Counter())
            matched["right"] += (both[0] & both[1]).total()
            matched["missed"] += (both[0] - both[1]).total()
            matched["wrong"] += (both[1] - both[0]).total()
    assert _scores("completeness", complete) == (1.0, 1.0)
    assert _scores("matching", matched) == (1.0, 1.0)
    assert turns() >= 180


def _named(record: Told | Record | None) -> Counter[tuple[str, str]] | None:
    """Which names stand how in a finding; none where it is no finding."""
    if isinstance(record, Evidence) or record is None or record.holding_ids is None:
        return None
    return Counter(
        (how, name)
        for how, names in (
            ("matched", record.holding_ids),
            ("unmatched", record.unmatched),
            ("ambiguous", record.ambiguous),
        )
        for name in names
    )


def _outcome(is_right: bool, is_told: bool) -> str:
    if is_right:
        return "right" if is_told else "missed"
    return "wrong" if is_told else "rightly none"


def _scores(name: str, counts: Counter[str]) -> tuple[float, float]:
    """Precision and recall."""
    precision = counts["right"] / (counts["right"] + counts["wrong"])
    recall = counts["right"] / (counts["right"] + counts["missed"])
    print(f"{name}: precision {precision:.3f}, recall {recall:.3f}, {dict(counts)}")  # noqa: T201
    return precision, recall


def test_pairs_stand_to_each_other_as_read_but_for_those_known_not_to() -> None:
    wrong = [
        f"{pair.name}: read {pair.likeness.value}, told {likeness(*pair.claims).value}"
        for pair in pairs()
        if (likeness(*pair.claims) is pair.likeness) == (pair.miss is not None)
    ]
    assert wrong == []


def test_no_two_pairs_are_wrongly_one_and_few_are_wrongly_two() -> None:
    counts: Counter[str] = Counter()
    for pair in pairs():
        answer = likeness(*pair.claims)
        counts[_outcome(pair.likeness is Likeness.SAME, answer is Likeness.SAME)] += 1
    precision, recall = _scores("duplicates", counts)
    assert precision == 1.0
    assert recall >= 0.95
    assert len(pairs()) >= 60


def test_names_of_turns_and_of_pairs_are_their_own() -> None:
    endings = Counter((case.group, case.name, case.ending) for case in cases())
    names = Counter(pair.name for pair in pairs())
    assert [name for name, count in (*endings.items(), *names.items()) if count > 1] == []
