"""The timeline: where what holds, in a bounded picture and in words."""

from __future__ import annotations

import itertools
import random
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.brief.document import Brief, Timeline
from pipeline.brief.render_html import to_html
from pipeline.brief.render_markdown import to_markdown
from pipeline.brief.timeline import SPANS_MAX, bounded
from pipeline.brief.timeline_svg import to_svg
from pipeline.records import Decision, Gap, JobState, Options
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble


def bands(timeline: Timeline) -> dict[str, list[tuple[int, int]]]:
    return {
        band.code: [(span.start_ms, span.end_ms) for span in band.spans] for band in timeline.bands
    }


def written(brief: Brief) -> tuple[str, str]:
    return (
        to_html(brief, recording_href=None, frame_bytes=lambda _: b""),
        to_markdown(brief, recording_href=None, frame_href=None),
    )


def twenty_seconds() -> Brief:
    """2 s skipped, 3 fed, a gap to 12.25, 2 fed, the rest not reached; said in 3 and 13."""
    units = (
        make.unit(2, sequence=0),
        make.unit(3, sequence=1, decision=Decision.SPEAK, rms_dbfs=None),
        make.unit(4, sequence=2, frame_ms=None),
        make.unit(12, sequence=3, real_samples=0),
        make.unit(13, epoch=2, sequence=0, decision=Decision.SPEAK),
    )
    ended = {"media_end": None, "session_end": None, "end_reason": "decode_error"}
    return assemble(
        make.dossier(
            state=JobState.FAILED,
            units=units,
            epochs=(
                make.epoch(start_s=2, gaps=(Gap(start_ms=4_900, end_ms=12_250),), **ended),
                make.epoch(2, start_s=13, **ended),
            ),
            request=make.request(options=Options(start_s=2)),
            findings=(
                make.finding("h2", turn=0, origin=make.origin(3_000, 4_000)),
                make.finding("h1", turn=1, epoch=2, origin=make.origin(13_000, 14_000)),
            ),
            recording=make.dossier().recording,
        )
    )


def test_each_band_holds_the_stretches_counted_by_hand() -> None:
    timeline = twenty_seconds().timeline
    assert bands(timeline) == {
        "speaking": [(3_000, 4_000), (13_000, 14_000)],
        "listening": [(2_000, 3_000), (4_000, 5_000), (12_000, 13_000)],
        "silence": [(3_000, 4_000), (12_000, 13_000)],
        "no_picture": [(4_000, 5_000)],
        "gap": [(5_000, 12_000)],
        "skipped": [(0, 2_000)],
        "not_reached": [],
    }
    assert [
        (epoch.number, [(span.start_ms, span.end_ms) for span in epoch.spans])
        for epoch in timeline.epochs
    ] == [(1, [(2_000, 5_000), (12_000, 13_000)]), (2, [(13_000, 14_000)])]
    assert timeline.end is not None
    assert timeline.end.ms == 14_000


def test_findings_are_marked_in_order_of_time_each_time_they_were_said() -> None:
    findings = (
        make.finding("h2", turn=0, evidence="b", origin=make.origin(1_000, 2_000)),
        make.finding("h1", turn=1, evidence="a", origin=make.origin(3_000, 5_000)),
        make.finding("h2", turn=2, evidence="b", origin=make.origin(8_000, 9_000)),
    )
    holdings = (make.holding("h1"), make.holding("h2", weight_pct=Decimal(1)))
    brief = assemble(make.dossier(findings=findings, holdings=holdings))
    assert [(mark.ref, mark.at.ms, mark.end.ms) for mark in brief.timeline.marks] == [
        ("F2", 1_000, 2_000),
        ("F1", 3_000, 5_000),
        ("F2", 8_000, 9_000),
    ]
    html, markdown = written(brief)
    assert re.findall(r'<span class="num">([^<]+)</span> <a href="#(F\d)">', html) == [
        ("0:01", "F2"),
        ("0:03", "F1"),
        ("0:08", "F2"),
    ]
    assert "Findings in order of time: 0:01 F2, 0:03 F1, 0:08 F2" in markdown


def test_the_words_beside_the_picture_say_where() -> None:
    html, markdown = written(twenty_seconds())
    assert "| Gap in the recording | 0:05–0:12 |" in markdown
    assert "| Not reached | nowhere |" in markdown
    assert "| Epoch 2 | 0:13–0:14 |" in markdown
    assert "<dt>The engine spoke</dt><dd>0:03–0:04, 0:13–0:14</dd>" in html


def test_without_any_time_there_is_no_picture_and_it_is_said() -> None:
    recording = replace(make.dossier().recording, probe=None)
    nothing = make.dossier(epochs=(), units=(), recording=recording)
    brief = assemble(nothing)
    assert brief.timeline.end is None
    assert to_svg(brief.timeline) == ""
    for text in written(brief):
        assert "No time of the recording is known yet." in text


def test_where_the_end_is_unknown_it_is_said() -> None:
    recording = replace(make.dossier().recording, probe=None)
    epoch = make.epoch(media_end=None, session_end=None, end_reason="worker_lost")
    brief = assemble(make.dossier(epochs=(epoch,), recording=recording))
    for text in written(brief):
        assert "the timeline stops at the last time that is." in text


# --- the picture -------------------------------------------------------------------------------


def drawn(svg: str, code: str) -> list[tuple[int, int]]:
    root = ElementTree.fromstring(svg)
    (path,) = (path for path in root.iter() if path.get("class") == code)
    return [
        (int(start), int(stop))
        for start, stop in re.findall(r"M(\d+) 0H(\d+)V1H\1z", path.get("d", ""))
    ]


def test_the_picture_has_each_stretch_at_its_place() -> None:
    """2,000 columns for 14 s: second 13 begins at column 1857."""
    svg = to_svg(twenty_seconds().timeline)
    assert drawn(svg, "skipped") == [(0, 286)]
    assert drawn(svg, "gap") == [(714, 1715)]
    assert drawn(svg, "speaking") == [(428, 572), (1857, 2000)]
    assert drawn(svg, "findings") == [(428, 572), (1857, 2000)]


def test_a_short_finding_in_a_long_recording_can_be_seen() -> None:
    said = make.origin(43_199_000, 43_200_000)
    epoch = make.epoch(media_end=make.media_end(source_end_ms=43_200_000))
    brief = assemble(make.dossier(epochs=(epoch,), findings=(make.finding(origin=said),)))
    ((start, stop),) = drawn(to_svg(brief.timeline), "findings")
    assert stop - start == 6
    assert stop == 2000


def test_an_hour_and_more_of_alternation_stays_a_small_picture() -> None:
    units = tuple(
        make.unit(
            second,
            sequence=second,
            decision=Decision.SPEAK if second % 2 else Decision.LISTEN,
            rms_dbfs=None if second % 3 else -20.0,
        )
        for second in range(6000)
    )
    epoch = make.epoch(media_end=make.media_end(source_end_ms=6_000_000))
    brief = assemble(make.dossier(units=units, epochs=(epoch,)))
    counts = {band.code: len(band.spans) for band in brief.timeline.bands}
    assert counts["speaking"] == counts["silence"] == SPANS_MAX
    assert brief.timeline.bands[0].joined == 3000 - SPANS_MAX
    assert len(to_svg(brief.timeline)) < 100_000
    assert "shorter breaks left out: 2,000" in written(brief)[1]


@settings(max_examples=30, deadline=None)
@given(st.integers(), st.integers(SPANS_MAX - 3, SPANS_MAX + 30))
def test_only_the_shortest_breaks_are_left_out(seed: int, stretches: int) -> None:
    draws = random.Random(seed)
    edges = list(itertools.accumulate(draws.randint(1, 50) for _ in range(2 * stretches)))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    spans, joined = bounded(pairs)
    assert len(spans) == min(len(pairs), SPANS_MAX)
    assert len(spans) + joined == len(pairs)
    assert (spans[0].start_ms, spans[-1].end_ms) == (pairs[0][0], pairs[-1][1])
    breaks = {(a[1], b[0]) for a, b in itertools.pairwise(pairs)}
    kept = {(a.end_ms, b.start_ms) for a, b in itertools.pairwise(spans)}
    assert kept <= breaks
    longest_left_out = max((end - start for start, end in breaks - kept), default=0)
    assert all(end - start >= longest_left_out for start, end in kept)
