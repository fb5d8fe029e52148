"""The pictures of a recording: the first of each second, and the one that stands before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import av


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One decoded picture at its source time."""

    time: Fraction
    """Presentation time in source seconds."""
    frame: av.VideoFrame
    aspect: Fraction
    """Width of a stored pixel over its height."""
    is_after_damage: bool
    """Whether decode errors, lost packets or a clock jump lie between it and the one before."""


@dataclass(frozen=True, kw_only=True)
class PictureSecond:
    """A second with a picture of its own, or the end of the pictures."""

    time: Fraction | None
    """When the own picture is presented; None at the end."""
    own: Picture | None
    before: Picture | None
    """The last picture before `own`: what stood on the screen until then."""
    is_hole_trusted: bool
    """Whether nothing between the two speaks against a still picture."""

    @property
    def second(self) -> int | None:
        return None if self.time is None else int(self.time)


def first_of_each_second(
    pictures: Iterable[Picture], *, is_end_damaged: Callable[[], bool]
) -> Iterator[PictureSecond]:
    """The first picture of every second that has one, then one item for the end."""
    before: Picture | None = None
    second = -1
    is_trusted = True
    for picture in pictures:
        is_trusted = is_trusted and not picture.is_after_damage
        if int(picture.time) > second:
            second = int(picture.time)
            yield PictureSecond(
                time=picture.time, own=picture, before=before, is_hole_trusted=is_trusted
            )
            is_trusted = True
        if before is None or picture.time >= before.time:
            before = picture
    yield PictureSecond(
        time=None,
        own=None,
        before=before,
        is_hole_trusted=is_trusted and not is_end_damaged(),
    )
