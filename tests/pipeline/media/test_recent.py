"""What is kept to begin decoding anew: two groups of pictures, and never more than its bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.media import recent as module
from pipeline.media.recent import Recent


def packet(pts: int, letter: str) -> Any:
    return SimpleNamespace(pts=pts, is_keyframe=letter == "K", size=1)


def kept(letters: str, *, reached: int | None) -> list[int]:
    """Time stamps of what is still there once all were read and one picture was given out."""
    recent = Recent()
    list(recent.keep(packet(pts, letter) for pts, letter in enumerate(letters)))
    if reached is not None:
        recent.reached(reached)
    return [found.pts for found in recent.take() if found.pts is not None]


@pytest.mark.parametrize(
    ("letters", "reached", "first"),
    [
        ("KppKppKpp", None, 0),
        ("KppKppKpp", 4, 0),
        ("KppKppKpp", 5, 0),
        ("KppKppKpp", 6, 3),
        ("KppKppKppKpp", 11, 6),
        ("ppKppKpp", 4, 0),
        ("ppppp", 4, 0),
    ],
)
def test_the_key_picture_before_the_last_given_one_is_kept(
    letters: str, reached: int | None, first: int
) -> None:
    assert kept(letters, reached=reached) == list(range(first, len(letters)))


@pytest.mark.parametrize(
    ("letters", "first"),
    [("KppppKpppp", 5), ("KKKKKKKKKK", 3), ("Kppppppppp", 8), ("KpppppppppK", 8)],
)
def test_of_too_much_the_older_part_is_forgotten(
    letters: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECENT_BYTES_MAX", 7)
    assert kept(letters, reached=None) == list(range(first, len(letters)))
