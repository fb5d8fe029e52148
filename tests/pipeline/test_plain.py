"""Records to plain JSON and back: what fits comes back as it was, what does not is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.plain import from_plain, to_plain
from pipeline.records import Holding, Options, Remark, Request, SessionEnd


class Colour(str, Enum):
    RED = "red"


@dataclass(frozen=True, kw_only=True)
class Painted:
    colour: Colour
    coats: tuple[float, ...] = ()
    notes: Mapping[str, str | int | float | bool | None] | None = None
    dried_at: datetime | None = None


words = st.text()
counts = st.integers()
floats = st.floats(allow_nan=False, allow_infinity=False)
records = st.one_of(
    st.builds(
        Holding,
        id=words,
        name=words,
        ticker=st.none() | words,
        exchange=st.none() | words,
        currency=words,
        asset_type=words,
        weight_pct=st.decimals(allow_nan=False, allow_infinity=False),
        aliases=st.lists(words, max_size=3).map(tuple),
    ),
    st.builds(
        Request,
        objective=words,
        title=st.none() | words,
        event_date=st.none() | st.dates(),
        engine=words,
        options=st.builds(Options, seed=counts),
    ),
    st.builds(
        Painted,
        colour=st.sampled_from(Colour),
        coats=st.lists(floats, max_size=3).map(tuple),
        notes=st.none()
        | st.dictionaries(words, st.none() | st.booleans() | counts | floats | words, max_size=4),
        dried_at=st.none()
        | st.datetimes(timezones=st.just(timezone.utc)).map(lambda moment: moment.replace(fold=0)),
    ),
    st.builds(Remark, code=words, message=words, count=counts, start_ms=st.none() | counts),
)


@given(records)
def test_every_record_comes_back_from_json_as_it_was(record: object) -> None:
    back = from_plain(type(record), json.loads(json.dumps(to_plain(record), allow_nan=False)))
    # 1, 1.0 and True are equal to each other, but not written alike.
    assert repr(back) == repr(record)


def test_the_plain_form_is_what_json_has() -> None:
    painted = Painted(
        colour=Colour.RED,
        coats=(1.5, 2.0),
        notes={"a": None, "b": True},
        dried_at=datetime(2026, 3, 5, 1, 2, 3, tzinfo=timezone.utc),
    )
    assert to_plain({"all": [painted, Decimal("2.50"), date(2026, 3, 5)]}) == {
        "all": [
            {
                "colour": "red",
                "coats": [1.5, 2.0],
                "notes": {"a": None, "b": True},
                "dried_at": "2026-03-05T01:02:03+00:00",
            },
            "2.50",
            "2026-03-05",
        ]
    }


def test_a_field_that_may_be_left_out_is_filled_in() -> None:
    assert from_plain(Painted, {"colour": "red"}) == Painted(colour=Colour.RED)


def test_an_unknown_field_is_refused_unless_a_later_release_may_have_written_it() -> None:
    end = {"is_audio_consumed": True, "is_utterance_open": False, "mood": "good"}
    with pytest.raises(ValueError, match="mood"):
        from_plain(SessionEnd, end)
    expected = SessionEnd(is_audio_consumed=True, is_utterance_open=False)
    assert from_plain(SessionEnd, end, is_from_later=True) == expected


@pytest.mark.parametrize("is_from_later", [False, True])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SessionEnd, None),
        (SessionEnd, []),
        (SessionEnd, {}),
        (SessionEnd, {"is_audio_consumed": True}),
        (SessionEnd, {"is_audio_consumed": 1, "is_utterance_open": False}),
        (SessionEnd, {"is_audio_consumed": "true", "is_utterance_open": False}),
        (Painted, {"colour": "blue"}),
        (Painted, {"colour": []}),
        (Painted, {"colour": "red", "coats": "1.5"}),
        (Painted, {"colour": "red", "coats": [True]}),
        (Painted, {"colour": "red", "notes": {"a": []}}),
        (Painted, {"colour": "red", "notes": []}),
        (Painted, {"colour": "red", "dried_at": "yesterday"}),
        (Painted, {"colour": "red", "dried_at": 5}),
        (int, True),
        (int, 1.0),
        (str, 1),
        (Decimal, "many"),
        (Decimal, 1),
        (date, "2026-02-30"),
    ],
)
def test_what_is_not_the_record_is_refused(kind: type, value: Any, is_from_later: bool) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_plain(kind, value, is_from_later=is_from_later)


def test_a_refusal_names_what_is_missing_or_unknown() -> None:
    with pytest.raises(ValueError, match="SessionEnd lacks is_audio_consumed, is_utterance_open"):
        from_plain(SessionEnd, {})
    with pytest.raises(ValueError, match="Colour"):
        from_plain(Painted, {"colour": "blue"})


@pytest.mark.parametrize("value", [{1}, b"bytes", {"a": object()}, Painted])
def test_what_has_no_plain_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="no plain form"):
        to_plain(value)


def test_a_form_replaces_the_usual_one_all_the_way_down() -> None:
    made = to_plain(
        {"b": Remark(code="a", message="m", start_ms=1)}, {str: str.upper, int: lambda n: n + 1}
    )
    assert made["B"]["code"] == "A"
    assert made["B"]["start_ms"] == 2
    coats = {"colour": "red", "coats": [1.5, [2], 3.0]}
    assert from_plain(Painted, coats, forms={float: _from_list}).coats == (1.5, 2.0, 3.0)
    with pytest.raises(ValueError, match="no list"):
        from_plain(Painted, {"colour": "red", "coats": ["1.5"]}, forms={float: _from_list})


def _from_list(value: object) -> float:
    if isinstance(value, list):
        return float(value[0])
    raise ValueError("no list")
