"""The published schema is that of the document model, and every brief fits it."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import jsonschema
import pytest

from pipeline.brief.document import SCHEMA
from pipeline.brief.json_schema import published, written
from pipeline.brief.render_json import to_json
from tests.pipeline.brief import factories as make
from tests.pipeline.brief.factories import assemble


@lru_cache(maxsize=1)
def whole() -> bytes:
    before = make.past(make.past_finding(observed="Orders fell."))
    return to_json(assemble(make.full(), previous=before))


def document() -> Any:
    return json.loads(whole())


@lru_cache(maxsize=1)
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(published())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_published_schema_is_made_from_the_model() -> None:
    assert published() == written(), (
        "The document model changed. Where readers must know, raise the number in SCHEMA; then "
        "write pipeline.brief.json_schema.written() to pipeline/brief/schema/."
    )


def test_a_brief_with_everything_in_it_fits() -> None:
    found = document()
    validator().validate(found)
    assert found["schema"] == SCHEMA == "omnai.brief/2"
    for part in ("findings", "evidence", "changes"):
        assert found[part]


def test_a_brief_of_nothing_fits() -> None:
    nothing = make.dossier(epochs=(), units=(), holdings=(), findings=(), evidence=())
    validator().validate(json.loads(to_json(assemble(nothing))))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("schema",), "omnai.brief/1"),
        (("sha256",), "0"),
        (("status", "kind"), "whole"),
        (("findings", 0, "source", "play", "start_ms"), 1.5),
        (("findings", 0, "holdings", 0, "weight_pct"), 50),
        (("findings", 0, "state"), "closed"),
        (("findings", 0, "notes", 0, "action"), "sell"),
        (("timeline", "bands", 0, "spans"), None),
        (("changes", 0, "groups", 0, "changes", 0, "kind"), "odd"),
        (("provenance", "inference_ms"), "1"),
    ],
)
def test_a_wrong_value_does_not_fit(path: tuple[str | int, ...], wrong: object) -> None:
    found = document()
    *way, last = path
    place = found
    for step in way:
        place = place[step]
    place[last] = wrong
    assert not validator().is_valid(found)


def test_every_name_of_the_document_must_be_there() -> None:
    for name in document():
        found = document()
        del found[name]
        assert not validator().is_valid(found), name
