"""Places for uploads: so many at once, in order, and an end to waiting."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack

import pytest

from api.admission import Admission, IntakeBusy

LONG_S = 60.0


def seen_waiting(admission: Admission, count: int) -> None:
    """Return once so many wait."""
    for _ in range(6000):
        if len(admission._queue) == count:
            return
        threading.Event().wait(0.01)
    pytest.fail(f"{len(admission._queue)} wait, not {count}")


def test_places_are_given_in_the_order_of_asking_and_given_back_whatever_happens() -> None:
    admission, order = Admission(places=1, waiting_max=3, wait_s=LONG_S), []

    def hold(name: int) -> None:
        with admission.place():
            order.append(name)
            raise RuntimeError

    with ThreadPoolExecutor() as pool:
        asked: list[Future[None]] = []
        with admission.place():
            for name in range(3):
                asked.append(pool.submit(hold, name))
                seen_waiting(admission, name + 1)
            with pytest.raises(IntakeBusy), admission.place():
                pass
            with pytest.raises(IntakeBusy), admission.place(may_wait=False):
                pass
        wait(asked)
    assert order == [0, 1, 2]
    assert [type(one.exception()) for one in asked] == [RuntimeError] * 3
    with admission.place(may_wait=False):
        pass


def test_there_are_as_many_places_as_were_asked_for_after_any_use() -> None:
    admission = Admission(places=2, waiting_max=0, wait_s=LONG_S)
    for _ in range(3):
        with ExitStack() as held:
            held.enter_context(admission.place())
            held.enter_context(admission.place())
            with pytest.raises(IntakeBusy):
                held.enter_context(admission.place())


def test_whoever_waits_too_long_is_told_to_come_back_and_leaves_the_queue() -> None:
    admission = Admission(places=1, waiting_max=1, wait_s=0.05)
    with admission.place():
        for _ in range(2):  # the second finds the queue empty again
            with pytest.raises(IntakeBusy) as refused, admission.place():
                pass
            assert refused.value.retry_after_s > 0
        assert len(admission._queue) == 0
    with admission.place(may_wait=False):
        pass
