"""The clocks of the worker, the API and the database are wrong, and the first two step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnai.services import postgres
from pipeline.records import JobState
from tests.faults import clock
from tests.faults.host import Host, opened_host, site
from tests.faults.servers import own_servers
from tests.faults.serving import serving
from tests.hosts import until
from tests.pipeline.ledger.factories import rows
from tests.processes import needs_proc

pytestmark = needs_proc

WRONG_S = 2 * 3600
"""By how much a clock is off; every limit in the product is shorter."""

DATABASE_WRONG_S = -5 * 3600
"""Behind every other clock, so that by any of them whoever gives signs of life is long silent."""

WALL_CLOCK = ["inference_started_at", "inference_ended_at", "emitted_at"]
"""What a unit keeps of its worker's own clock, as the schema says; it is shown to nobody."""

MOMENTS = """
    SELECT table_name, column_name FROM information_schema.columns
     WHERE table_schema = 'public' AND data_type = 'timestamp with time zone'
       AND column_name LIKE '%\\_at' AND column_name NOT IN ('expires_at', 'changed_at')
       AND column_name <> ALL (:wall)
"""
"""`changed_at` is the queue's, which a migration opens."""

MINUTE = timedelta(minutes=1)
"""Between two clocks that are read one after the other."""


@pytest.fixture(scope="module")
def library() -> Iterator[Path | None]:
    found = clock.library()
    yield found
    if found is not None:
        clock.clear()


def python_clock(file: Path) -> dict[str, str]:
    return {**site(), clock.CLOCK: str(file)}


def test_clocks_that_are_wrong_and_step_end_and_repeat_nothing(
    library: Path | None, database_url: str, valkey_url: str, tmp_path: Path
) -> None:
    if library is not None:
        pytest.skip("libfaketime is there, which shifts more")
    with opened_host(tmp_path / "host", database_url=database_url, redis_url=valkey_url) as host:
        check_wrong_clocks(host, tmp_path, python_clock)


def test_clocks_that_are_wrong_for_every_call_and_none_of_them_the_databases(
    library: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three that never agree, none of them the right one; the database's is the one that counts."""
    if library is None:
        pytest.skip("no libfaketime that works here is installed")
    clock.step(tmp_path / "database.clock", DATABASE_WRONG_S)
    given = postgres._environment() | clock.preloaded(library, tmp_path / "database.clock")
    monkeypatch.setattr(postgres, "_environment", lambda: given)
    with (
        own_servers(tmp_path / "servers") as servers,
        opened_host(
            tmp_path / "host", database_url=servers.postgres.url, redis_url=servers.valkey.url
        ) as host,
    ):
        off = database_now(host) - datetime.now(timezone.utc)
        assert abs(off - timedelta(seconds=DATABASE_WRONG_S)) < MINUTE
        check_wrong_clocks(host, tmp_path, partial(clock.preloaded, library))
    clock.clear()


def check_wrong_clocks(
    host: Host, folder: Path, clock_of: Callable[[Path], dict[str, str]]
) -> None:
    worker_clock, api_clock = folder / "worker.clock", folder / "api.clock"
    clock.step(worker_clock, WRONG_S)
    clock.step(api_clock, -WRONG_S)
    began = database_now(host)
    host.start(**clock_of(worker_clock))
    host.await_loaded()
    with serving(host, **clock_of(api_clock)) as api:
        right = datetime.now(timezone.utc)
        told = parsedate_to_datetime(api.http.get("/healthz").headers["Date"])
        assert abs(told - right + timedelta(seconds=WRONG_S)) < MINUTE
        logged = datetime.fromisoformat(host.log().splitlines()[-1].split("Z ")[0] + "+00:00")
        assert abs(logged - right - timedelta(seconds=WRONG_S)) < MINUTE

        host.plan(unit_s=0.15)
        job_id = api.ask(host, count=30).json()["id"]
        for step_s in (-WRONG_S, WRONG_S, 0):
            seen = len(host.events("entry", job_id))
            until(lambda seen=seen: len(host.events("entry", job_id)) > seen + 8)  # type: ignore[misc]
            clock.step(worker_clock, step_s)
            clock.step(api_clock, -step_s)
        host.await_state(job_id, JobState.SUCCEEDED)
        shown = api.job(job_id)
    assert host.reasons(job_id) == ["completed"]
    assert len(host.events("claim")) == 1
    times = [
        datetime.fromisoformat(value.replace("Z", "+00:00"))
        for name, value in flat(shown)
        if name.endswith("_at") and value is not None
    ]
    assert len(times) >= 2
    stored = stored_times(host)
    assert {"jobs.running_at", "epochs.alive_at", "units.committed_at"} <= stored.keys()
    times += [moment for several in stored.values() for moment in several]
    assert began <= min(times), stored
    assert max(times) <= database_now(host), stored
    host.check()


def stored_times(host: Host) -> dict[str, Sequence[datetime]]:
    """The first and the last moment of each column that tells when something happened."""
    found = {}
    for table, column in rows(host.database, MOMENTS, wall=WALL_CLOCK):
        [moments] = rows(host.database, f"SELECT min({column}), max({column}) FROM {table}")
        if None not in moments:
            found[f"{table}.{column}"] = moments
    return found


def database_now(host: Host) -> datetime:
    [(now,)] = rows(host.database, "SELECT clock_timestamp()")
    assert isinstance(now, datetime)
    return now


def flat(found: Any) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from flat(value)
        else:
            yield name, value
