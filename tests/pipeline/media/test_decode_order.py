"""Times of decoding that are made of those of presentation run forward within each part."""

from __future__ import annotations

import pytest

from pipeline.media.decode_order import Dated, DecodeOrder
from pipeline.media.joints import Place

PYRAMID = [0, 8, 4, 2, 1, 3, 6, 5, 7, 16, 12, 10, 9, 11, 14, 13, 15]
"""Pictures in the order of decoding, as H.264 with a pyramid of B-frames has them."""


def ordered(shown: list[int], keys: set[int]) -> list[int]:
    order = DecodeOrder()
    packets = [
        Dated(place=Place(in_file=n, ordinal=n, shown=at), time=-1, duration=1, is_key=n in keys)
        for n, at in enumerate(shown)
    ]
    given = [one for packet in packets for one in order.push(packet)] + list(order.finish())
    assert [one.place for one in given] == [packet.place for packet in packets]
    return [one.time for one in given]


@pytest.mark.parametrize(
    ("shown", "keys", "expected"),
    [
        ([*range(40)], {0}, [*range(40)]),
        (PYRAMID, {0}, [*range(17)]),
        ([*PYRAMID, 100, 103, 101, 102], {0}, [*range(17), 100, 101, 102, 103]),
        (PYRAMID + [5 + at for at in PYRAMID], {0, 17}, [*range(17), *range(5, 22)]),
        (PYRAMID[:4] + PYRAMID, {0, 4}, [0, 2, 4, 8, *range(17)]),
        ([9, 7, 8, 12, 10, 11, 4, 2, 3, 7, 5, 6], {0, 6}, [*range(7, 13), *range(2, 8)]),
        ([7, 7, 8, 9, 9], {0}, [7, 7, 8, 9, 9]),
        ([0, 9, 0, 9, 18], {0, 2}, [0, 9, 0, 9, 18]),
    ],
    ids=["in order", "pyramid", "hole", "overlap", "cut", "open groups", "twice", "short"],
)
def test_times_run_forward_up_to_the_next_part(
    shown: list[int], keys: set[int], expected: list[int]
) -> None:
    assert ordered(shown, keys) == expected


@pytest.mark.parametrize("off", [-500, 500])
@pytest.mark.parametrize("keys", [{0}, {0, 40}])
def test_a_time_that_no_order_explains_is_its_own_packets(off: int, keys: set[int]) -> None:
    shown = [8 * n + at for n in range(10) for at in (0, 4, 2, 1, 3, 6, 5, 7)]
    wrong = [at + off * (n == 33) for n, at in enumerate(shown)]
    given = ordered(wrong, keys)
    assert given[33] == wrong[33]
    rest = given[:33] + given[34:]
    assert all(abs(time - n) <= 8 for n, time in enumerate(rest))
