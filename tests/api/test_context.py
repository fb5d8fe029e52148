"""A context that is too long is refused at submission, or fails its job before any model call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask

from api.service import EXTENSION
from pipeline.ledger import dossiers
from pipeline.ledger.database import Database
from pipeline.records import EngineInfo, JobState, SessionContext
from tests.api.conftest import Person, codes, work
from tests.doubles import ScriptedEngine
from tests.pipeline.engine.minicpm import vocabulary

LONG = "a" * 3_990


class Native(ScriptedEngine):
    """Bears the native engine's name; says whether it was called."""

    opened = 0

    def describe(self) -> EngineInfo:
        return replace(super().describe(), name="minicpmo")

    def open(self, context: SessionContext):  # type: ignore[no-untyped-def]
        self.opened += 1
        return super().open(context)


@pytest.fixture
def app(app: Flask) -> Iterator[Flask]:
    service = app.extensions[EXTENSION]
    app.extensions[EXTENSION] = replace(service, engines=("minicpmo", "rehearsal"))
    return app  # type: ignore[return-value]


@pytest.fixture
def model_folder(app: Flask) -> Path:
    folder: Path = app.extensions[EXTENSION].settings.model_folder
    return folder


def test_what_the_tokenizer_finds_too_long_is_refused_with_count_and_limit(
    ada: Person, recording_id: str, model_folder: Path
) -> None:
    vocabulary.write(model_folder)
    refused = ada.submit(recording_id, engine="minicpmo", objective=LONG)
    assert refused.status_code == 422
    assert codes(refused) == {"": "context_too_long"}
    (told,) = refused.get_json()["errors"]
    assert "at most 4000 are accepted" in told["detail"]
    assert ada.submit(recording_id, engine="minicpmo").status_code == 202
    assert ada.submit(recording_id, engine="rehearsal", objective=LONG).status_code == 202


def test_it_is_told_together_with_whatever_else_is_wrong(ada: Person, model_folder: Path) -> None:
    vocabulary.write(model_folder)
    refused = ada.submit("nothing", engine="minicpmo", objective=LONG)
    assert codes(refused) == {"/recording_id": "recording_unknown", "": "context_too_long"}


def test_without_a_tokenizer_the_worker_fails_the_job_before_any_call_into_the_engine(
    app: Flask, ada: Person, recording_id: str, model_folder: Path, database: Database
) -> None:
    job_id = ada.submit(recording_id, engine="minicpmo", objective=LONG).get_json()["id"]
    vocabulary.write(model_folder)
    engine = Native()
    assert not work(app, engine)
    assert (engine.opened, engine.fed) == (0, [])
    job = ada.get(f"/v1/jobs/{job_id}").get_json()
    assert (job["state"], job["end_reason"]) == ("failed", "context_too_long")
    assert "at most 4000 are accepted" in job["end_detail"]
    assert dossiers.load(database, job_id).epochs == ()
    assert dossiers.load(database, job_id).state is JobState.FAILED
