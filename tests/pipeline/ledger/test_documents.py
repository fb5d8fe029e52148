"""Stored documents: every record comes back as it was, through real jsonb."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from pipeline.ledger.database import Database
from pipeline.ledger.documents import from_document, to_document
from pipeline.records import EngineInfo, MediaEnd, MediaStream, Options, Probe, Remark, SessionEnd

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
counts = st.integers()
scalars = st.none() | st.booleans() | counts | words | st.floats(allow_nan=False)
engines = st.builds(
    EngineInfo,
    name=words,
    revision=words,
    device=words,
    settings=st.dictionaries(words, scalars),
)
streams = st.builds(
    MediaStream,
    index=counts,
    kind=words,
    codec=st.none() | words,
    is_chosen=st.booleans(),
    reason=words,
    details=st.dictionaries(words, st.none() | counts | words),
)
documents = st.one_of(
    engines,
    st.builds(
        Probe,
        format=words,
        size_bytes=counts,
        origin_ms=counts,
        declared_duration_ms=st.none() | counts,
        packet_end_ms=st.none() | counts,
        streams=st.lists(streams, max_size=3).map(tuple),
    ),
    st.builds(
        MediaEnd,
        **dict.fromkeys(
            (
                "source_end_ms",
                "units",
                "real_samples",
                "filled_samples",
                "synthetic_samples",
                "own_frames",
                "held_frames",
                "clipped_samples",
                "replaced_samples",
            ),
            counts,
        ),
        remarks=st.lists(
            st.builds(Remark, code=words, message=words, start_ms=st.none() | counts), max_size=3
        ).map(tuple),
    ),
    st.builds(SessionEnd, is_audio_consumed=st.booleans(), is_utterance_open=st.booleans()),
    st.builds(Options, seed=counts, start_s=counts),
)


def same(left: object, right: object) -> bool:
    """Equal, and of the same types all the way down: 1, 1.0 and True are equal to each other."""
    return left == right and repr(_sorted(left)) == repr(_sorted(right))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return sorted((name, _sorted(item)) for name, item in value.items())
    if hasattr(value, "__dataclass_fields__"):
        return [_sorted(getattr(value, name)) for name in value.__dataclass_fields__]
    if isinstance(value, tuple):
        return [_sorted(item) for item in value]
    # `numeric` has no negative zero.
    return 0.0 if isinstance(value, float) and value == 0 else value


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(document=documents)
def test_every_record_comes_back_from_jsonb_as_it_was(database: Database, document: object) -> None:
    statement = text("SELECT CAST(:document AS jsonb)")
    with database.transaction() as session:
        stored = session.scalar(statement, {"document": json.dumps(to_document(document))})
    assert same(from_document(type(document), stored), document)


@pytest.mark.parametrize(
    "settings",
    [
        {"inf": float("inf"), "nan": float("nan"), "huge": 1e300, "least": 1e16, "one": 1.0},
        {"float": "inf"},
        {"float": float("inf")},
    ],
)
def test_floats_that_jsonb_has_no_digits_for_survive(settings: dict[str, float | str]) -> None:
    info = EngineInfo(name="n", revision="r", device="d", settings=settings)
    stored = json.loads(json.dumps(to_document(info), allow_nan=False))
    assert repr(from_document(EngineInfo, stored).settings) == repr(settings)


def test_text_that_postgresql_cannot_keep_is_replaced_in_names_and_values() -> None:
    info = EngineInfo(name="a\x00", revision="r", device="d", settings={"b\ud800": "c\x00"})
    stored = to_document(info)
    assert from_document(EngineInfo, stored) == EngineInfo(
        name="a\ufffd", revision="r", device="d", settings={"b\ufffd": "c\ufffd"}
    )


def test_what_a_later_release_added_is_passed_over() -> None:
    stored = {"is_audio_consumed": True, "is_utterance_open": False, "mood": "good"}
    expected = SessionEnd(is_audio_consumed=True, is_utterance_open=False)
    assert from_document(SessionEnd, stored) == expected


@pytest.mark.parametrize("stored", [{"inf": "x"}, {"float": 1, "more": 2}, {"float": "wide"}, [1]])
def test_what_is_no_float_is_refused(stored: object) -> None:
    with pytest.raises(ValueError, match="float"):
        from_document(float, stored)  # type: ignore[arg-type]
