"""Coverage is counted from the completed units, and every millisecond is in one category."""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.brief.document import Brief, Coverage, CoverageLine, EndBasis
from pipeline.brief.figures import share
from pipeline.records import Dossier, Gap, JobState, Options, Remark
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble


def coverage(dossier: Dossier) -> Coverage:
    return assemble(dossier, release="1").coverage


def line(brief_coverage: Coverage, code: str) -> CoverageLine:
    groups = brief_coverage.time + brief_coverage.picture + brief_coverage.sound
    return next(line for line in groups if line.code == code)


def spans(found: CoverageLine) -> list[tuple[int, int]]:
    return [(span.start_ms, span.end_ms) for span in found.spans.listed]


def test_a_whole_recording_is_all_analysed() -> None:
    found = coverage(make.dossier())
    assert found.source_end.basis is EndBasis.DECODED
    assert [(entry.code, entry.duration_ms, entry.share_pct) for entry in found.time] == [
        ("fed", 10_000, Decimal("100.0")),
        ("gap", 0, Decimal("0.0")),
        ("skipped", 0, Decimal("0.0")),
        ("not_reached", 0, Decimal("0.0")),
    ]
    assert spans(line(found, "fed")) == [(0, 10_000)]


def test_every_kind_of_second_is_counted_by_hand() -> None:
    """20.5 s: 2 skipped, 3 fed, gap to 12.25 (fed second 12 counts as fed), rest after 14 missing.

    Fed are 2, 3, 4, 12 and 13; the gap runs from 4.9 to 12.25, of which 5–12 no unit covers.
    """
    units = (
        make.unit(2, sequence=0),
        make.unit(3, sequence=1, frame_ms=None, held_frame_ms=2_000, rms_dbfs=None),
        make.unit(4, sequence=2, frame_ms=None, real_samples=14_400, filled_samples=1_600),
        make.unit(12, sequence=3, real_samples=0, filled_samples=16_000, rms_dbfs=None),
        make.unit(13, sequence=4),
    )
    epoch = make.epoch(
        start_s=2,
        gaps=(Gap(start_ms=4_900, end_ms=12_250),),
        end_reason="decode_error",
        media_end=None,
        session_end=None,
    )
    dossier = make.dossier(
        state=JobState.FAILED,
        units=units,
        epochs=(epoch,),
        request=make.request(options=Options(start_s=2)),
        recording=replace(make.dossier().recording, probe=make.probe(packet_end_ms=20_500)),
    )
    found = coverage(dossier)
    assert found.source_end.basis is EndBasis.PACKETS
    assert {entry.code: spans(entry) for entry in found.time} == {
        "fed": [(2_000, 5_000), (12_000, 14_000)],
        "gap": [(5_000, 12_000)],
        "skipped": [(0, 2_000)],
        "not_reached": [(14_000, 20_500)],
    }
    # 5, 7, 2 and 6.5 of 20.5 s
    assert [str(entry.share_pct) for entry in found.time] == ["24.4", "34.1", "9.8", "31.7"]
    assert {entry.code: entry.duration_ms for entry in found.picture} == {
        "own_frame": 3_000,
        "held_picture": 1_000,
        "no_picture": 1_000,
    }
    assert {entry.code: entry.duration_ms for entry in found.sound} == {
        "sound": 3_000,
        "digital_silence": 1_000,
        "no_audio": 1_000,
    }
    assert found.filled_ms == 1_100


def test_an_unknown_end_gives_no_percentages_and_no_guess_of_what_is_missing() -> None:
    dossier = make.dossier(
        epochs=(make.epoch(media_end=None, session_end=None, end_reason="worker_lost"),),
        recording=replace(make.dossier().recording, probe=None),
    )
    found = coverage(dossier)
    assert found.source_end.basis is EndBasis.UNKNOWN
    assert found.source_end.at is None
    assert line(found, "fed").duration_ms == 10_000
    assert {entry.share_pct for entry in found.time + found.picture + found.sound} == {None}
    assert line(found, "not_reached").duration_ms is None


def test_a_last_second_cut_short_counts_its_own_length() -> None:
    units = (*make.units(range(9)), make.unit(9, sequence=9, end_ms=9_300))
    ended = make.epoch(media_end=make.media_end(source_end_ms=9_300))
    found = coverage(make.dossier(units=units, epochs=(ended,)))
    assert line(found, "fed").duration_ms == 9_300
    assert line(found, "fed").share_pct == Decimal("100.0")


def test_drain_units_are_no_source_time() -> None:
    drained = (*make.units(range(10)), make.unit(None, sequence=10), make.unit(None, sequence=11))
    assert coverage(make.dossier(units=drained)) == coverage(make.dossier())


def test_a_second_of_two_epochs_is_counted_once() -> None:
    units = (*make.units(range(10)), *make.units(range(5, 10), epoch=2, frame_ms=None))
    dossier = make.dossier(units=units, epochs=(make.epoch(), make.epoch(2, start_s=5)))
    found = coverage(dossier)
    assert line(found, "fed").duration_ms == 10_000
    assert line(found, "own_frame").duration_ms == 5_000
    assert line(found, "no_picture").duration_ms == 5_000


def test_a_remark_that_two_epochs_report_alike_is_listed_once() -> None:
    ended = make.media_end(remarks=(Remark(code="decode_errors", message="Damaged.", count=3),))
    dossier = make.dossier(epochs=(make.epoch(media_end=ended), make.epoch(2, media_end=ended)))
    (remark,) = coverage(dossier).remarks
    assert (remark.count, remark.epochs) == (3, (1, 2))


def test_a_share_is_never_rounded_to_all_or_nothing() -> None:
    assert str(share(43_199_999, 43_200_000)) == "99.9"
    assert str(share(1, 43_200_000)) == "0.1"
    assert str(share(1, 3)) == "33.3"
    assert str(share(1, 8)) == "12.5"
    assert share(0, 0) is None


@st.composite
def dossiers(draw: st.DrawFn) -> Dossier:
    """Any units, gaps, starts and ends: also ones that contradict each other."""
    numbers = range(1, 1 + draw(st.integers(0, 3)))
    moment = st.integers(0, 40_000)
    epochs = tuple(
        make.epoch(
            number,
            start_s=draw(st.integers(0, 30)),
            gaps=tuple(
                Gap(start_ms=start, end_ms=start + length)
                for start, length in draw(st.lists(st.tuples(moment, moment), max_size=2))
            ),
            media_end=draw(
                st.none() | st.builds(lambda ms: make.media_end(source_end_ms=ms), moment)
            ),
        )
        for number in numbers
    )
    units = tuple(
        make.unit(
            second,
            epoch=number,
            sequence=sequence,
            end_ms=second * 1000 + draw(st.integers(0, 1000)),
            frame_ms=draw(st.none() | st.just(second * 1000)),
            held_frame_ms=draw(st.none() | st.just(0)),
            real_samples=draw(st.sampled_from([0, 16_000])),
            rms_dbfs=draw(st.none() | st.just(-30.0)),
        )
        for number in numbers
        # Few enough that no list of stretches is cut: 12 fed, 6 gaps and a start make 20 at most.
        for sequence, second in enumerate(sorted(draw(st.sets(st.integers(0, 40), max_size=4))))
    )
    probe = make.probe(packet_end_ms=draw(st.none() | moment))
    recording = replace(make.dossier().recording, probe=probe)
    return make.dossier(epochs=epochs, units=units, recording=recording)


@settings(max_examples=80, deadline=None)
@given(dossiers())
def test_the_categories_divide_the_span_without_remainder(dossier: Dossier) -> None:
    found = coverage(dossier)
    listed = sorted(span for entry in found.time for span in spans(entry))
    assert all(entry.spans.omitted == 0 for entry in found.time)
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(listed))
    assert all(end > start for start, end in listed)
    if found.source_end.at is not None and found.source_end.at.ms:
        end_ms = found.source_end.at.ms
        assert (listed[0][0], listed[-1][1]) == (0, end_ms)
        assert sum(entry.duration_ms or 0 for entry in found.time) == end_ms
    fed = line(found, "fed").duration_ms
    assert sum(entry.duration_ms or 0 for entry in found.picture) == fed
    assert sum(entry.duration_ms or 0 for entry in found.sound) == fed


def test_long_lists_of_ranges_are_cut_and_the_rest_is_counted() -> None:
    units = tuple(
        make.unit(second, sequence=second, frame_ms=None if second % 2 else second * 1000)
        for second in range(100)
    )
    brief: Brief = assemble(
        make.dossier(units=units, epochs=(make.epoch(media_end=make.media_end(units=100)),)),
        release="1",
    )
    own = line(brief.coverage, "own_frame")
    assert (len(own.spans.listed), own.spans.omitted) == (20, 30)
    assert own.duration_ms == 50_000
