"""How many of a finding's pictures pages show, so that a long brief stays within memory."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.brief.document import FindingEntry

FRAMES_SHOWN_MAX = 3
"""Pictures shown with a finding; the others are named with their times."""

PIXELS_MAX = 60_000_000
"""All pictures together: decoded, as whoever sets or opens the pages holds them, some 180 MB."""


def frames_shown(findings: Sequence[FindingEntry]) -> dict[str, int]:
    """By ref: everyone's first picture before anyone's second, while the pixels last."""
    shown = {finding.ref: 0 for finding in findings}
    seen: set[str] = set()
    pixels = 0
    for position in range(FRAMES_SHOWN_MAX):
        for finding in findings:
            frames = finding.source.frames
            if shown[finding.ref] < position or position >= len(frames):
                continue
            frame = frames[position]
            # The same still costs its pixels once.
            cost = 0 if frame.sha256 in seen else frame.width_px * frame.height_px
            if pixels + cost <= PIXELS_MAX:
                pixels += cost
                seen.add(frame.sha256)
                shown[finding.ref] += 1
    return shown
