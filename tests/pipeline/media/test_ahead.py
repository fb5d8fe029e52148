"""A pass that runs ahead gives the same, no further than it may, and is heard of while it moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from pipeline.media import ahead as module
from pipeline.media.ahead import Beat, ahead

SOON_S = 20.0


def silent() -> Beat:
    return Beat(lambda: None)


def until(condition: Any) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_all_items_come_in_order_from_another_thread() -> None:
    makers = set()

    def items() -> Generator[int, None, None]:
        for number in range(100):
            makers.add(threading.get_ident())
            yield number

    assert list(ahead(items(), depth=3, beat=silent())) == list(range(100))
    assert len(makers) == 1
    assert threading.get_ident() not in makers


@pytest.mark.parametrize("depth", [1, 4])
def test_no_more_is_made_than_may_wait(depth: int) -> None:
    made: list[int] = []

    def items() -> Generator[int, None, None]:
        for number in range(50):
            made.append(number)
            yield number

    given = ahead(items(), depth=depth, beat=silent())
    for number in range(50):
        assert next(given) == number
        until(lambda number=number: len(made) == min(number + 1 + depth, 50))
        assert len(made) <= number + 1 + depth
    assert next(given, None) is None


def test_an_error_comes_after_what_came_before_it() -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise MemoryError("no room")

    given = ahead(items(), depth=5, beat=silent())
    assert (next(given), next(given)) == (1, 2)
    with pytest.raises(MemoryError, match="no room"):
        next(given)


def test_closing_closes_the_pass_and_ends_its_thread() -> None:
    closed = threading.Event()

    def items() -> Generator[int, None, None]:
        try:
            while True:
                yield 0
        finally:
            closed.set()

    before = threading.active_count()
    given = ahead(items(), depth=2, beat=silent())
    next(given)
    assert threading.active_count() == before + 1
    given.close()
    assert closed.is_set()
    assert threading.active_count() == before


def test_a_pass_that_moves_is_heard_of_by_its_makers_thread_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.001)
    heard: list[int] = []
    beat = Beat(lambda: heard.append(threading.get_ident()))
    beat()
    assert heard == [threading.get_ident()]

    def items() -> Generator[int, None, None]:
        while len(heard) < 4:
            beat()
            time.sleep(0.001)
        yield len(heard)

    assert next(ahead(items(), depth=1, beat=beat)) >= 4
    assert set(heard) == {threading.get_ident()}


def test_a_pass_that_hangs_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_S", 0.001)
    heard: list[int] = []
    beat = Beat(lambda: heard.append(1))

    def items() -> Generator[int, None, None]:
        beat()
        until(lambda: heard)
        time.sleep(0.1)
        yield len(heard)

    assert next(ahead(items(), depth=1, beat=beat)) == 1
    assert len(heard) == 1
