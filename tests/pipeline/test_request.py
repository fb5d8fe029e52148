"""A request is built from bounded input, or refused with everything that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputRefused
from pipeline.ledger.documents import from_document
from pipeline.records import MediaStream, Options, Probe, Request
from pipeline.request import build_request, recording_problems

ENGINES = ("minicpmo", "rehearsal")


def build(**given: object) -> Request:
    options = given.pop("options", {})
    assert isinstance(options, Mapping)
    whole: dict[str, object] = {
        "objective": "What moves margins?",
        "title": None,
        "event_date": None,
        "engine": "rehearsal",
        **given,
    }
    return build_request(
        objective=whole["objective"],
        title=whole["title"],
        event_date=whole["event_date"],
        engine=whole["engine"],
        options=options,
        engines=ENGINES,
    )


def problems(**given: object) -> list[tuple[str, str]]:
    with pytest.raises(InputRefused) as refused:
        build(**given)
    return [(problem.code, problem.where) for problem in refused.value.problems]


def test_defaults_are_those_of_the_contract() -> None:
    options = build().options
    assert (options.output_max_tokens_per_unit, options.frame_longest_edge_px) == (20, 448)
    assert (options.max_slice_nums, options.start_s) == (2, 0)


def test_what_is_given_is_kept_and_trimmed() -> None:
    request = build(
        objective="  Margins?\r\n\tAnd capex?  ",
        title=" Q3 call ",
        event_date="2026-03-31",
        options={"seed": 2**32 - 1, "start_s": 90},
    )
    assert request.objective == "Margins?\n\tAnd capex?"
    assert request.title == "Q3 call"
    assert request.event_date == date(2026, 3, 31)
    assert request.options == Options(seed=4294967295, start_s=90)


def test_a_blank_title_and_date_are_none() -> None:
    request = build(title="  ", event_date="")
    assert (request.title, request.event_date) == (None, None)


def test_everything_wrong_is_said_at_once() -> None:
    found = problems(
        objective=" ",
        title=7,
        event_date="31.3.2026",
        engine="gpt",
        options={"sed": 1, "seed": "1", "max_slice_nums": 10, "start_s": 1.0},
    )
    assert found == [
        ("objective_missing", "/objective"),
        ("title_type", "/title"),
        ("event_date_invalid", "/event_date"),
        ("engine_unknown", "/engine"),
        ("option_unknown", "/options/sed"),
        ("option_type", "/options/seed"),
        ("option_out_of_bounds", "/options/max_slice_nums"),
        ("option_type", "/options/start_s"),
    ]


@pytest.mark.parametrize(
    ("name", "least", "greatest"),
    [
        ("output_max_tokens_per_unit", 8, 64),
        ("frame_longest_edge_px", 112, 1920),
        ("max_slice_nums", 1, 9),
        ("seed", 0, 4294967295),
        ("start_s", 0, 86400),
        ("live_update_interval_seconds", 1, 30),
    ],
)
def test_options_are_accepted_from_the_least_to_the_greatest(
    name: str, least: int, greatest: int
) -> None:
    assert getattr(build(options={name: least}).options, name) == least
    assert getattr(build(options={name: greatest}).options, name) == greatest
    assert problems(options={name: least - 1}) == [("option_out_of_bounds", f"/options/{name}")]
    if name != "start_s":
        assert problems(options={name: greatest + 1}) == [
            ("option_out_of_bounds", f"/options/{name}")
        ]


@pytest.mark.parametrize("value", [True, None, "8", 8.0, float("nan"), [8], {}])
def test_options_are_whole_numbers(value: object) -> None:
    assert problems(options={"max_slice_nums": value}) == [
        ("option_type", "/options/max_slice_nums")
    ]


def test_an_unknown_option_is_named_with_a_hint() -> None:
    with pytest.raises(InputRefused, match="did you mean max_slice_nums"):
        build(options={"max_slices_num": 2})
    with pytest.raises(InputRefused, match="accepted: output_max_tokens_per_unit"):
        build(options={"zoom": 2})


@pytest.mark.parametrize("text", ["a\x00b", "a\x1bb", "a\ud800b", "a\u202eb", "a\x85b"])
def test_control_characters_are_refused_where_they_stand(text: str) -> None:
    with pytest.raises(InputRefused, match="character 2"):
        build(objective=text)
    assert problems(title=text) == [("text_control_character", "/title")]


def test_line_breaks_belong_in_an_objective_and_not_in_a_title() -> None:
    assert build(objective="a\nb").objective == "a\nb"
    assert problems(title="a\nb") == [("text_control_character", "/title")]


def test_texts_have_a_longest_length() -> None:
    assert len(build(objective="x" * 4000).objective) == 4000
    assert problems(objective="x" * 4001) == [("objective_too_long", "/objective")]
    assert build(title="x" * 200).title == "x" * 200
    assert problems(title="x" * 201) == [("title_too_long", "/title")]


@pytest.mark.parametrize(
    "day",
    [
        "20260331",
        "2026-W14-2",
        "2026-02-30",
        "2026-3-1",
        "2026-03-31T00:00",
        "٢٠٢٦-03-31",
        20260331,
    ],
)
def test_other_dates_are_refused(day: object) -> None:
    assert problems(event_date=day) == [("event_date_invalid", "/event_date")]


def test_a_date_is_taken_as_it_is_and_a_moment_is_not_a_date() -> None:
    assert build(event_date=date(2026, 1, 2)).event_date == date(2026, 1, 2)
    moment = datetime(2026, 1, 2, tzinfo=timezone.utc)
    assert problems(event_date=moment) == [("event_date_invalid", "/event_date")]


@pytest.mark.parametrize("engine", [None, 5, ["rehearsal"]])
def test_an_engine_that_is_no_text_is_refused(engine: object) -> None:
    assert problems(engine=engine) == [("engine_type", "/engine")]


@given(st.dictionaries(st.text(max_size=20), st.none() | st.integers() | st.text(), max_size=5))
def test_any_options_are_accepted_or_refused(options: dict[str, object]) -> None:
    try:
        build(options=options)
    except InputRefused as refused:
        assert refused.problems  # noqa: PT017


def test_a_stream_may_be_left_to_us_and_nothing_else_may() -> None:
    options = build(options={"audio_stream": None, "video_stream": 0}).options
    assert (options.audio_stream, options.video_stream) == (None, 0)
    assert problems(options={"audio_stream": "1", "video_stream": -1, "seed": None}) == [
        ("option_type", "/options/audio_stream"),
        ("option_out_of_bounds", "/options/video_stream"),
        ("option_type", "/options/seed"),
    ]


def test_options_of_a_job_from_before_streams_could_be_chosen_are_read() -> None:
    options = from_document(Options, {"seed": 7, "start_s": 3})
    assert options == Options(seed=7, start_s=3)
    assert not options.is_stream_chosen


def probe(*streams: MediaStream, end_ms: int | None = None) -> Probe:
    return Probe(
        format="mov",
        size_bytes=1,
        origin_ms=0,
        declared_duration_ms=None,
        packet_end_ms=end_ms,
        streams=streams,
    )


def stream(index: int, kind: str, *, is_usable: bool = True) -> MediaStream:
    return MediaStream(
        index=index, kind=kind, codec="aac", is_chosen=False, reason="", is_usable=is_usable
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (Options(), []),
        (Options(audio_stream=1, video_stream=0), []),
        (Options(audio_stream=0), ["1 (aac), 2 (aac) or null"]),
        (Options(video_stream=3), ["accepted: 0 (aac) or null"]),
        (Options(audio_stream=9, video_stream=9), ["no audio stream 9", "no video stream 9"]),
    ],
)
def test_a_stream_that_the_recording_does_not_have_is_refused_with_those_it_has(
    options: Options, told: list[str]
) -> None:
    cover = stream(3, "video", is_usable=False)
    found = probe(stream(0, "video"), stream(1, "audio"), stream(2, "audio"), cover)
    refused = recording_problems(options, found)
    assert [problem.code for problem in refused] == ["stream_unknown"] * len(told)
    for problem, words in zip(refused, told, strict=True):
        assert words in problem.message
    sound = recording_problems(Options(video_stream=0), probe(stream(0, "audio")))
    assert "null, for it has none" in sound[0].message


@pytest.mark.parametrize(
    ("start_s", "end_ms", "accepted"),
    [
        (71, 71_001, None),
        (71, 71_000, "0 to 70 are accepted"),
        (90, 71_001, "0 to 71 are accepted"),
        (0, 0, None),
        (1, 0, "0 to 0 are accepted"),
        (90, None, None),
    ],
)
def test_a_first_second_that_the_recording_does_not_have_is_refused(
    start_s: int, end_ms: int | None, accepted: str | None
) -> None:
    refused = recording_problems(Options(start_s=start_s), probe(end_ms=end_ms))
    if accepted is None:
        assert refused == []
        return
    [problem] = refused
    assert (problem.code, problem.where) == ("start_past_end", "/options/start_s")
    assert accepted in problem.message
