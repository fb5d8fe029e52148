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
class NoPicture:
    """Nothing could be decoded, and nothing will be, that is presented before this source time."""

    before: Fraction


@dataclass(frozen=True, kw_only=True)
class PictureSecond:
    """A second with a picture of its own, word of seconds without any, or the end."""

    time: Fraction | None
    """When the own picture is presented, or up to when there is none; None at the end."""
    own: Picture | None
    before: Picture | None
    """The last picture before `own`: what stood on the screen until then."""
    is_hole_trusted: bool
    """Whether nothing between the two speaks against a still picture."""

    @property
    def second(self) -> int | None:
        return None if self.time is None else int(self.time)

    @property
    def is_without(self) -> bool:
        """Whether it only says that there is no picture."""
        return self.own is None and self.time is not None


def first_of_each_second(
    pictures: Iterable[Picture | NoPicture], *, is_end_damaged: Callable[[], bool]
) -> Iterator[PictureSecond]:
    """The first picture of every second that has one, then one item for the end; in between, up to
    when there is none."""
    before: Picture | None = None
    second = -1
    is_trusted = True
    for picture in pictures:
        if isinstance(picture, NoPicture):
            if int(picture.before) > second + 1:
                second = (
                    int(picture.before) - 1
                )  # one that comes late all the same has lost its turn
                yield PictureSecond(
                    time=picture.before, own=None, before=before, is_hole_trusted=False
                )
            continue
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
