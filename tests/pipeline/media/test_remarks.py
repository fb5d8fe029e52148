"""Remarks of one kind join where they adjoin, and however many there are, few are listed."""

from __future__ import annotations

from pipeline.media.remarks import RANGES_PER_CODE, RemarkBook


def ranges(book: RemarkBook) -> list[tuple[int | None, int | None, int]]:
    return [(remark.start_ms, remark.end_ms, remark.count) for remark in book.remarks()]


def test_ranges_within_a_second_are_one_unless_they_are_measured_apart() -> None:
    book = RemarkBook()
    for start_ms, join_ms in ((0, 1000), (900, 1000), (2500, 1000), (2700, 0), (2800, 0)):
        book.note("a", "words", start_ms=start_ms, end_ms=start_ms + 100, join_ms=join_ms)
    assert ranges(book) == [(0, 1000, 2), (2500, 2600, 1), (2700, 2900, 2)]


def test_what_says_something_else_is_a_range_of_its_own() -> None:
    book = RemarkBook()
    book.note("a", "left", start_ms=0, end_ms=100)
    book.note("a", "right", start_ms=100, end_ms=200)
    assert len(book.remarks()) == 2


def test_remarks_without_a_time_are_one() -> None:
    book = RemarkBook()
    for _ in range(3):
        book.note("a", "words")
    assert ranges(book) == [(None, None, 3)]


def test_of_many_ranges_the_closest_become_one() -> None:
    book = RemarkBook()
    starts = [n * 10_000 for n in range(RANGES_PER_CODE)]
    for start_ms in [*starts, starts[-1] + 3_000, starts[-1] + 60_000]:
        book.note("a", "words", start_ms=start_ms, end_ms=start_ms + 1000)
    found = ranges(book)
    assert len(found) == RANGES_PER_CODE
    assert sum(count for _, _, count in found) == RANGES_PER_CODE + 2
    assert (starts[-1], starts[-1] + 4_000, 2) in found
    assert found[-1] == (starts[-1] + 60_000, starts[-1] + 61_000, 1)


def test_what_is_told_elsewhere_is_left_out() -> None:
    book = RemarkBook()
    for start_ms, end_ms in ((0, 2_000), (5_000, 9_000), (20_000, 30_000), (40_000, 41_000)):
        book.note("a", "words", start_ms=start_ms, end_ms=end_ms)
    book.note("a", "words")
    book.note("b", "words", start_ms=0, end_ms=50_000)
    book.leave_out("a", [(1_000, 5_000), (22_000, 29_000), (40_000, 41_000), (60_000, 61_000)])
    book.leave_out("c", [(0, 1)])
    assert ranges(book) == [
        (0, 1_000, 1),
        (5_000, 9_000, 1),
        (20_000, 22_000, 1),
        (29_000, 30_000, 1),
        (None, None, 1),
        (0, 50_000, 1),
    ]


def test_of_many_ranges_that_are_divided_the_closest_become_one() -> None:
    book = RemarkBook()
    for n in range(RANGES_PER_CODE):
        book.note("a", "words", start_ms=n * 10_000, end_ms=n * 10_000 + 5_000, count=2)
    book.leave_out("a", [(n * 10_000 + 1_000, n * 10_000 + 2_000) for n in range(RANGES_PER_CODE)])
    found = ranges(book)
    assert len(found) == RANGES_PER_CODE
    assert sum(count for _, _, count in found) == 3 * RANGES_PER_CODE
