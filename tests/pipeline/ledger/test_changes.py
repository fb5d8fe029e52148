"""News of changes: after the commit, not before, and again after an outage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import NullPool, create_engine, text

from pipeline.errors import SettingsRefused
from pipeline.ledger import briefs, changes, epochs, jobs
from pipeline.ledger.changes import EVERY_JOB
from pipeline.ledger.database import Database
from pipeline.records import EndReason, JobState, Phase
from tests.pipeline.ledger.factories import digest, record_unit
from tests.pipeline.ledger.queued import claimed, submit

QUIET_S = 0.05

News = Iterator[str | None]


@pytest.fixture
def news(database: Database, module_database_url: str) -> Iterator[News]:
    with changes.listen(module_database_url, quiet_s=QUIET_S) as listening:
        assert next(listening) == EVERY_JOB
        yield listening


def heard(news: News) -> list[str]:
    """What is told until it has been quiet for half a second."""
    ids: list[str] = []
    quiet_from = time.monotonic()
    while time.monotonic() - quiet_from < 0.5:
        told = next(news)
        if told is not None:
            ids.append(told)
            quiet_from = time.monotonic()
    return ids


def test_a_job_is_told_after_its_commit_and_not_before(database: Database, news: News) -> None:
    job_id = submit(database)
    assert heard(news) == [job_id]
    with database.transaction() as session:
        session.execute(text("UPDATE jobs SET priority = 3"))
        assert heard(news) == []
    assert heard(news) == [job_id]


def test_what_is_rolled_back_is_never_told(database: Database, news: News) -> None:
    submit(database)
    heard(news)

    def change_and_fail() -> None:
        with database.transaction() as session:
            session.execute(text("UPDATE jobs SET priority = 3"))
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        change_and_fail()
    assert heard(news) == []


def test_every_step_of_a_job_is_told(database: Database, news: News) -> None:
    job_id = submit(database)
    assert heard(news) == [job_id]
    key = claimed(database).key
    assert set(heard(news)) == {job_id}
    steps: list[Callable[[], object]] = [
        lambda: epochs.stamp_alive(database, key),
        lambda: epochs.enter(database, key, Phase.PREPARE),
        lambda: record_unit(database, key),
        lambda: briefs.store(
            database,
            job_id,
            status="partial",
            document=b"{}",
            canonical_sha256=digest("brief"),
            release="0.1",
        ),
        lambda: jobs.finish(
            database, key, outcome=JobState.FAILED, end_reason=EndReason.ENGINE_ERROR
        ),
        lambda: epochs.release(database, key),
    ]
    for step in steps:
        step()
        assert set(heard(news)) == {job_id}


def test_reading_tells_nothing(database: Database, news: News) -> None:
    job_id = submit(database)
    heard(news)
    jobs.state_of(database, job_id)
    briefs.latest(database, job_id)
    assert heard(news) == []


def test_one_may_leave_while_it_is_quiet(module_database_url: str) -> None:
    with changes.listen(module_database_url, quiet_s=QUIET_S) as news:
        began = time.monotonic()
        assert [next(news) for _ in range(3)] == [EVERY_JOB, None, None]
        assert time.monotonic() - began < 5
    assert list(news) == []


def test_one_may_leave_while_it_is_busy(database: Database, news: News) -> None:
    job_id = submit(database)
    told: list[str | None] = []
    deadline = time.monotonic() + 5
    while None not in told:
        assert time.monotonic() < deadline
        with database.transaction() as session:
            session.execute(text("UPDATE jobs SET priority = priority + 1"))
        told.append(next(news))
    assert job_id in told


def test_leaving_gives_the_connection_back(module_database_url: str) -> None:
    with changes.listen(module_database_url, quiet_s=QUIET_S) as news:
        next(news)
        assert listeners(module_database_url) == 1
    deadline = time.monotonic() + 5
    while listeners(module_database_url):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cut_connection_comes_back_and_says_so(
    database: Database,
    news: News,
    module_database_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cut(module_database_url)
    missed = submit(database)
    told = [next(news) for _ in range(100)]
    assert told.count(EVERY_JOB) == 1
    assert missed not in told[: told.index(EVERY_JOB)]
    job_id = submit(database)
    assert heard(news) == [job_id]
    [away] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert away.__dict__["action"] == "changes_away"


def test_an_absent_server_leaves_one_free_to_go(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgresql+psycopg://me:hunter2@127.0.0.1:1/none"
    with changes.listen(url, quiet_s=QUIET_S) as news:
        assert [next(news) for _ in range(20)] == [None] * 20
    assert "hunter2" not in caplog.text
    assert len(caplog.records) == 1


def test_another_databases_url_is_refused() -> None:
    with (
        pytest.raises(SettingsRefused),
        changes.listen("sqlite:///omnai.db"),
    ):
        pass


def listeners(url: str) -> int:
    return execute(
        url,
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'omnai-changes'",
    )


def cut(url: str) -> None:
    execute(
        url,
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'omnai-changes'",
    )


def execute(url: str, statement: str) -> int:
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return int(connection.execute(text(statement)).scalar_one())
