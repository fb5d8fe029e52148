"""What Prometheus is told: valid, by its conventions, bounded, and nothing that anybody wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as as_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from api import make_app
from api.metrics import figures
from api.service import EXTENSION, Service
from pipeline.ledger import jobs, tallies, workers
from pipeline.ledger.database import Database
from pipeline.ledger.tallies import Tally
from pipeline.ledger.workers import WorkerState
from pipeline.records import EndReason
from pipeline.settings import Settings
from tests.api.conftest import Person
from tests.pipeline.ledger import factories, queued

DOCUMENT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
ALARMS = DOCUMENT.partition("\n## Alarms\n")[2].partition("\n## ")[0]

MARK = "Zanzibar"

LABELS = {"engine", "state", "reason", "host", "slot", "phase", "version"}
UNITS = ("_seconds", "_bytes", "_ratio")


def families(text: str) -> dict[str, Metric]:
    """By Prometheus's own reading."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """By the values of its labels, those that are 0 left out."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in families(text).values()
        for sample in family.samples
        if sample.name == name and sample.value
    }


def fill(database: Database) -> None:
    """Something for every figure, with one word in whatever people write."""
    said = {"title": MARK, "objective": f"{MARK}?"}
    recording = queued.upload(database, MARK)
    queued.submit(database, MARK, recording=recording, request=factories.make_request(**said))
    holding = factories.make_holding(id=MARK, name=MARK, ticker=MARK, aliases=(MARK,))
    for slot, engine in (("here/0", "rehearsal"), ("here/1", MARK)):
        key = factories.start(
            database,
            recording=factories.make_recording(filename=MARK),
            request=factories.make_request(**said),
            holdings=(holding,),
            engine=factories.make_engine(name=engine, settings={MARK: 1}),
            slot=slot,
            host="here",
        )
        for sequence in range(3):
            factories.record_unit(
                database, key, sequence, reply=factories.make_reply(sequence, text=MARK)
            )
        factories.rows(database, "UPDATE units SET total_ms = 800 RETURNING 1")
    jobs.give_up(database, key, end_reason=EndReason.ENGINE_ERROR, end_detail=MARK)
    factories.rows(
        database, f"UPDATE epochs SET end_reason = '{MARK}' WHERE ended_at IS NOT NULL RETURNING 1"
    )
    worker_id = workers.register(database, host="here", slot="here/0", engine="rehearsal", pid=1)
    workers.set_state(database, worker_id, WorkerState.READY)
    workers.register(database, host="here", slot="here/1", engine=MARK, pid=2)
    for tally in Tally:
        tallies.add(database, tally, 2)
    tallies.add(database, tallies.given_up(EndReason.WORKER_LOST), 3)
    tallies.add(database, MARK)


@pytest.fixture(scope="module")
def watched(
    module_database_url: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flask]:
    """A service in which something has happened."""
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("watched"),
        database_url=module_database_url,
        redis_url=valkey_url,
        host_name="here",
        metrics_open=True,
    )
    app = make_app(settings)
    service: Service = app.extensions[EXTENSION]
    fill(service.database)
    yield app
    service.watcher.close()
    service.database.dispose()


def scrape(app: Flask) -> str:
    answer = app.test_client().get("/metrics")
    assert answer.status_code == 200
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["Cache-Control"] == "private, no-store"
    return answer.text


@pytest.fixture(scope="module")
def scraped(watched: Flask) -> str:
    return scrape(watched)


def test_it_needs_an_admins_key_unless_the_operator_opens_it(
    app: Flask, ada: Person, admin: Person, settings: Settings
) -> None:
    refused = app.test_client().get("/metrics")
    assert (refused.status_code, refused.get_json()["code"]) == (401, "key_missing")
    assert (ada.get("/metrics").status_code, admin.get("/metrics").status_code) == (403, 200)
    opened = make_app(replace(settings, metrics_open=True))
    service: Service = opened.extensions[EXTENSION]
    assert opened.test_client().get("/metrics").status_code == 200
    assert opened.test_client().get("/v1/jobs").status_code == 401
    service.watcher.close()
    service.database.dispose()


def test_every_figure_says_what_happened(scraped: str) -> None:
    assert values(scraped, "omnai_jobs") == {
        ("rehearsal", "queued"): 1,
        ("rehearsal", "running"): 1,
    }
    assert values(scraped, "omnai_epochs_ended_total") == {("other", "other"): 1}
    assert values(scraped, "omnai_workers") == {("rehearsal", "ready"): 1, ("other", "loading"): 1}
    assert values(scraped, "omnai_recent_unit_median_seconds") == {("rehearsal",): 0.8}
    assert set(values(scraped, "omnai_epoch_progress_age_seconds")) == {
        ("here", "unit", "here/0"),
        ("here", "unit", "here/1"),
    }
    assert values(scraped, "omnai_epochs_given_up_total") == {("worker_lost",): 3}
    for name in (
        *("bells_rerung", "bells_failed", "epochs_reaped", "gpus_quarantined"),
        *("space_refusals", "upload_space_refusals"),
    ):
        assert values(scraped, f"omnai_{name}_total") == {(): 2}
    for name in ("disk_free_bytes", "disk_size_bytes", "database_up", "engine_seconds_total"):
        assert values(scraped, f"omnai_{name}"), name


def test_no_label_holds_what_somebody_wrote(scraped: str) -> None:
    assert MARK.lower() not in scraped.lower()


def test_names_units_and_kinds_follow_the_conventions(watched: Flask, scraped: str) -> None:
    found = families(scraped)
    assert len(found) > 25
    for name, family in found.items():
        assert re.fullmatch(r"omnai(_[a-z0-9]+)+", name)
        assert family.documentation.endswith(".")
        assert family.type in ("gauge", "counter")
        for sample in family.samples:
            assert set(sample.labels) <= LABELS
            assert sample.name.endswith("_total") == (family.type == "counter")
            assert sample.value >= 0
    units = {name for name in found if re.search("age|median|free|held|seconds|bytes", name)}
    assert all(name.endswith(UNITS) for name in units)
    registry = CollectorRegistry()
    registry.register(figures(watched.extensions[EXTENSION]))
    strict = generate_latest(registry).decode()
    assert {family.name for family in as_openmetrics(strict)} >= {"omnai_epochs_ended"}


def names(text: str) -> Iterator[str]:
    for family in families(text).values():
        yield from (sample.name for sample in family.samples)


def test_the_document_names_every_figure_and_no_other(scraped: str) -> None:
    told = set(re.findall(r"\bomnai_[a-z0-9_]+", ALARMS))
    assert told == set(names(scraped))


def test_more_jobs_owners_and_engines_make_no_more_series(watched: Flask, scraped: str) -> None:
    service: Service = watched.extensions[EXTENSION]
    database = service.database
    for number in range(12):
        queued.submit(
            database,
            f"owner-{number}",
            request=factories.make_request(engine=f"engine-{number}", title=f"t{number}"),
            engine=f"engine-{number}",
        )
        factories.start(
            database,
            engine=factories.make_engine(name=f"engine-{number}"),
            slot=f"here/{number + 2}",
        )
    factories.rows(
        database,
        "UPDATE epochs SET fenced_at = now(), ended_at = now(), released_at = now(),"
        " end_reason = 'r' || slot WHERE slot NOT IN ('here/0', 'here/1') RETURNING 1",
    )
    more = scrape(watched)
    assert values(more, "omnai_jobs")["other", "queued"] == 12
    assert values(more, "omnai_epochs_ended_total") == {("other", "other"): 13}
    # The jobs of all engines that are not known are told as one's: ten lines.
    assert len(more.splitlines()) - len(scraped.splitlines()) == 2 * 5


def test_a_database_that_is_away_is_a_figure_too(settings: Settings) -> None:
    away = replace(
        settings,
        database_url="postgresql+psycopg://nobody@127.0.0.1:1/none",
        metrics_open=True,
    )
    app = make_app(away)
    answer = app.test_client().get("/metrics")
    assert answer.status_code == 200
    found = families(answer.text)
    assert [sample.value for sample in found["omnai_database_up"].samples] == [0]
    assert "omnai_disk_free_bytes" in found
    assert "omnai_jobs" not in found
