"""The timeline as a picture: fixed words, times and numbers, and nothing that anybody wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from pipeline.brief import sentences, wording
from pipeline.brief.document import Span, Timeline
from pipeline.brief.figures import clock

COLUMNS = 2000
"""What a time is rounded to; as many as a wide screen has points."""

MARK_COLUMNS_MIN = 6
"""A finding is seen however short it is."""

_LABEL_PX, _BAR_PX, _ROW_PX, _AXIS_PX = 12, 12, 34, 22
_SHARE_NUMBERED_MIN = 4
"""An epoch narrower than this, in percent, has no room for its number."""

# Also told apart by their rows and words; a style sheet may overrule them.
_FILLS = {
    "findings": "#b3261e",
    "speaking": "#1d4e89",
    "listening": "#7f9fc4",
    "silence": "#8a857b",
    "no_picture": "#8a857b",
    "gap": "#c07a1e",
    "skipped": "#c07a1e",
    "not_reached": "#c07a1e",
    "epochs": "#5a7d6a",
}


def to_svg(timeline: Timeline, *, width: str = "100%") -> Markup:
    """Rows that stretch with `width`, their height and letters in pixels. Empty without a time."""
    if timeline.end is None:
        return Markup("")
    end_ms = timeline.end.ms
    marks = [Span(start_ms=mark.at.ms, end_ms=mark.end.ms) for mark in timeline.marks]
    epochs = [span for epoch in timeline.epochs for span in epoch.spans]
    rows = [
        ("findings", wording.SECTIONS["findings"], _path(marks, end_ms, MARK_COLUMNS_MIN)),
        *(
            (band.code, band.label, _path(band.spans, end_ms, 1))
            for band in timeline.bands
            if band.spans
        ),
        ("epochs", wording.EPOCHS, _path(epochs, end_ms, 1)),
    ]
    height = _ROW_PX * len(rows) + _AXIS_PX
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" role="img" width="{width}" '
        f'height="{height}" aria-label="{sentences.timeline_label(end_ms)}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        *(_row(position, *row) for position, row in enumerate(rows)),
        *_epoch_numbers(timeline, _ROW_PX * (len(rows) - 1)),
        *_axis(end_ms, _ROW_PX * len(rows)),
        "</svg>",
    ]
    return Markup("".join(parts))


def _row(position: int, code: str, label: str, path: str) -> str:
    top = _ROW_PX * position
    return (
        f'<text x="0" y="{top + _LABEL_PX}" fill="#5c5a55">{label}</text>'
        f'<svg x="0" y="{top + _LABEL_PX + 5}" width="100%" height="{_BAR_PX}" '
        f'viewBox="0 0 {COLUMNS} 1" preserveAspectRatio="none">'
        f'<path class="ground" fill="#ece8df" d="M0 0h{COLUMNS}v1H0z"/>'
        f'<path class="{code.replace("_", "-")}" fill="{_FILLS[code]}" d="{path}"/></svg>'
    )


def _path(spans: Iterable[Span], end_ms: int, columns_min: int) -> str:
    """Rectangles of one row; what falls into the same columns is drawn once."""
    drawn: list[list[int]] = []
    for span in sorted(spans, key=lambda span: span.start_ms):
        start = min(COLUMNS * span.start_ms // end_ms, COLUMNS - columns_min)
        stop = min(max(-(-COLUMNS * span.end_ms // end_ms), start + columns_min), COLUMNS)
        if drawn and start <= drawn[-1][1]:
            drawn[-1][1] = max(drawn[-1][1], stop)
        else:
            drawn.append([start, stop])
    return "".join(f"M{start} 0H{stop}V1H{start}z" for start, stop in drawn)


def _epoch_numbers(timeline: Timeline, top: int) -> list[str]:
    assert timeline.end is not None
    end_ms = timeline.end.ms
    return [
        f'<text class="number" x="{_percent(epoch.spans[0].start_ms, end_ms)}" dx="3" '
        f'y="{top + _LABEL_PX + 15}" fill="#ffffff" font-size="11">{epoch.number}</text>'
        for epoch in timeline.epochs
        if 100 * (epoch.spans[0].end_ms - epoch.spans[0].start_ms) >= _SHARE_NUMBERED_MIN * end_ms
    ]


def _axis(end_ms: int, top: int) -> list[str]:
    quarters = [end_ms * quarter // 4 // 1000 * 1000 for quarter in range(4)]
    places: Sequence[tuple[int, str]] = [
        (quarters[0], "start"),
        *((ms, "middle") for ms in quarters[1:] if ms),
        (end_ms, "end"),
    ]
    return [
        f'<text x="{_percent(ms, end_ms)}" y="{top + 14}" fill="#5c5a55" '
        f'text-anchor="{anchor}">{clock(ms)}</text>'
        for ms, anchor in places
    ]


def _percent(ms: int, end_ms: int) -> str:
    hundredths = 10_000 * ms // end_ms
    return f"{hundredths // 100}.{hundredths % 100:02d}%"
