"""Which of a finding's pictures are shown, so that a long brief stays within memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.brief.document import FindingEntry, FrameRef, Moment

FRAMES_SHOWN_MAX = 3
"""Pictures shown with a finding; the others are named with their times."""

PIXELS_MAX = 60_000_000
"""All pictures together: decoded, as whoever sets or opens the pages holds them, some 180 MB."""


@dataclass(frozen=True, kw_only=True)
class Still:
    """A picture, and when it was on the screen."""

    sha256: str
    width_px: int
    height_px: int
    moments: tuple[Moment, ...]
    """In order of time."""

    @property
    def text(self) -> str:
        return ", ".join(moment.text for moment in self.moments)


def stills(frames: Sequence[FrameRef]) -> tuple[Still, ...]:
    """Each picture once, where it comes first: a slide that stands has many frames."""
    moments: dict[str, list[Moment]] = {}
    for frame in frames:
        moments.setdefault(frame.sha256, []).append(frame.at)
    first = {frame.sha256: frame for frame in reversed(frames)}
    return tuple(
        Still(
            sha256=sha256,
            width_px=first[sha256].width_px,
            height_px=first[sha256].height_px,
            moments=tuple(sorted(seen, key=lambda moment: moment.ms)),
        )
        for sha256, seen in moments.items()
    )


def frames_shown(findings: Sequence[FindingEntry]) -> dict[str, int]:
    """By ref: everyone's first picture before anyone's second, while the pixels last."""
    shown = {finding.ref: 0 for finding in findings}
    found = {finding.ref: stills(finding.source.frames) for finding in findings}
    seen: set[str] = set()
    pixels = 0
    for position in range(FRAMES_SHOWN_MAX):
        for finding in findings:
            offered = found[finding.ref]
            if shown[finding.ref] < position or position >= len(offered):
                continue
            still = offered[position]
            # The same still costs its pixels once.
            cost = 0 if still.sha256 in seen else still.width_px * still.height_px
            if pixels + cost <= PIXELS_MAX:
                pixels += cost
                seen.add(still.sha256)
                shown[finding.ref] += 1
    return shown
