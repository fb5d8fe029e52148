"""Search through the API: whose findings, which ones, and the way to their moments."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.ledger.database import Database
from tests.api.conftest import Person
from tests.api.reviewed import ended

PATH = "/v1/findings"


@pytest.fixture
def jobs(database: Database) -> tuple[str, str]:
    """One of ada and one of bob."""
    mine = ended(database, "ada", "A chart falls.", "営業利益率 improves.")
    return mine, ended(database, "bob", "A chart rises.")


def found(person: Person, **query: Any) -> list[dict[str, Any]]:
    answer = person.get(PATH, query_string=query)
    assert answer.status_code == 200, answer.text
    hits: list[dict[str, Any]] = answer.get_json()["findings"]
    return hits


def test_a_hit_leads_to_its_moment(ada: Person, jobs: tuple[str, str]) -> None:
    (hit,) = found(ada, text="利益")
    assert (hit["job_id"], hit["key"], hit["evidence"]) == (
        jobs[0],
        "1.1.0",
        "営業利益率 improves.",
    )
    assert [holding["id"] for holding in hit["holdings"]] == ["h2", "h1"]
    assert (hit["title"], hit["event_date"], hit["state"]) == ("Q3 call", "2026-09-09", "open")
    listed = ada.get(f"/v1/jobs/{jobs[0]}/findings").get_json()["findings"][1]
    assert hit["links"]["play"] == listed["source"]["play"]
    assert "/media#t=" in hit["links"]["play"]
    assert ada.get(hit["links"]["job"]).status_code == 200
    assert ada.get(hit["links"]["notes"]).status_code == 200


def test_everybody_finds_their_own(
    ada: Person, bob: Person, admin: Person, jobs: tuple[str, str]
) -> None:
    assert [hit["job_id"] for hit in found(bob)] == [jobs[1]]
    assert [hit["evidence"] for hit in found(ada, text="chart")] == ["A chart falls."]
    assert len(found(admin, text="chart")) == 2


def test_filters_narrow_what_is_found(ada: Person, jobs: tuple[str, str]) -> None:
    ada.post(f"/v1/jobs/{jobs[0]}/findings/1.0.0/notes", json={"action": "accept"})
    (hit,) = found(ada, state="accepted")
    assert (hit["key"], hit["note_count"]) == ("1.0.0", 1)
    day = hit["submitted_at"][:10]
    assert len(found(ada, submitted_from=day, submitted_to=day, holding="acme")) == 2
    assert found(ada, submitted_from="9999-12-31", submitted_to="9999-12-31") == []
    assert found(ada, submitted_to="0001-01-01") == []
    assert found(ada, holding="Globex") == []
    assert found(ada, job_state="succeeded") == []
    recording_id = ada.get(f"/v1/jobs/{jobs[0]}").get_json()["recording_id"]
    assert len(found(ada, recording_id=recording_id)) == 2


def test_pages_follow_each_other(admin: Person, jobs: tuple[str, str]) -> None:
    read: list[str] = []
    query: dict[str, Any] = {"limit": 1}
    while True:
        page = admin.get(PATH, query_string=query).get_json()
        read += [hit["evidence"] for hit in page["findings"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert read == ["A chart rises.", "A chart falls.", "営業利益率 improves."]


@pytest.mark.parametrize(
    ("query", "code", "where"),
    [
        ({"text": "%"}, "word_missing", "text"),
        ({"text": ""}, "word_missing", "text"),
        ({"holding": "-"}, "word_missing", "holding"),
        ({"submitted_from": "2026-02-30"}, "day_invalid", "submitted_from"),
        ({"submitted_to": "today"}, "string_pattern_mismatch", "submitted_to"),
        ({"recording_id": "x"}, "recording_unknown", "recording_id"),
        ({"state": "new"}, "enum", "state"),
        ({"words": "x"}, "field_unknown", "words"),
    ],
)
def test_filters_that_nothing_could_fit_are_refused(
    ada: Person, query: dict[str, str], code: str, where: str
) -> None:
    answer = ada.get(PATH, query_string=query)
    assert answer.status_code == 422
    told = [(found["parameter"], found["code"]) for found in answer.get_json()["errors"]]
    assert told == [(where, code)]
    assert ada.get(PATH, query_string={"after": "x"}).get_json()["code"] == "cursor_refused"
