"""A dump that is made while a job runs, restored beside it: the reaper brings it to rest."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy

from omnai.services.postgres import program
from pipeline.ledger import claims, jobs, migrate
from pipeline.ledger.database import connect
from pipeline.publish import publish
from pipeline.records import JobState
from pipeline.release import RELEASE
from tests.conftest import DATABASE_SETTING, _execute
from tests.hosts import until
from tests.pipeline.ledger.factories import rows
from tests.worker.conftest import Host
from worker import reaper
from worker.enqueue import ring


def run(name: str, *given: str | Path) -> None:
    done = subprocess.run(
        [program(name), *given], env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def address(url: str) -> str:
    """As PostgreSQL's own programs read it."""
    return (
        sqlalchemy.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    )


@contextmanager
def empty_database(beside: str) -> Iterator[str]:
    name = f"omnai_test_{uuid.uuid4().hex[:12]}"
    _execute(beside, f'CREATE DATABASE "{name}" TEMPLATE template0')
    try:
        yield sqlalchemy.make_url(beside).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(beside, f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.skipif(
    DATABASE_SETTING in os.environ, reason="the programs at hand are the embedded server's"
)
def test_a_dump_of_a_running_job_comes_to_rest_where_it_is_restored(
    make_host: Callable[..., Host], postgres_url: str, tmp_path: Path
) -> None:
    host = make_host()
    host.pace(unit_s=0.2)
    job_id, waiting = host.submit(), host.submit()
    host.start()
    ring(host.settings)
    host.running(units=3)
    dump = tmp_path / "omnai.dump"
    assert host.settings.database_url is not None
    run("pg_dump", "--format=custom", "--file", dump, address(host.settings.database_url))
    with empty_database(postgres_url) as url:
        run("pg_restore", "--no-owner", "--exit-on-error", "--dbname", address(url), dump)
        assert migrate.is_current(url)
        assert host.state(job_id) is JobState.RUNNING  # the original goes on
        restored = connect(url)
        try:
            other = replace(host.settings, database_url=url, host_name="restored", stale_s=1.0)
            units = len(rows(restored, "SELECT 1 FROM units"))
            assert units >= 3

            def at_rest() -> bool:
                reaper.reap(restored, other)
                return jobs.state_of(restored, job_id) in jobs.ENDED

            until(at_rest)
            ((reason, released),) = rows(
                restored, "SELECT end_reason, released_at IS NOT NULL FROM epochs"
            )
            # Another host's slot is not this one's to free.
            assert (reason, released) == ("worker_lost", False)
            publish(restored, job_id, release=RELEASE)
            ((status,),) = rows(restored, "SELECT status FROM briefs")
            assert status == "partial"
            # Nothing runs again by itself: what was queued is, and what ran has ended.
            reaper.reap(restored, other)
            assert jobs.state_of(restored, job_id) is JobState.FAILED
            assert jobs.state_of(restored, waiting) is JobState.QUEUED
            assert claims.waiting(restored, engine=None) == 1
            assert len(rows(restored, "SELECT 1 FROM units")) == units
            assert len(rows(restored, "SELECT 1 FROM epochs")) == 1
        finally:
            restored.dispose()
