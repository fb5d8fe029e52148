"""The embedded services: started, shared, left behind by the killed, and never lost."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
import sqlalchemy

from omnai.services import EmbeddedServices, ServicesStatus, ServiceState
from omnai.services.errors import DataOfAnotherVersion, RootUnusable, ServiceFailed

USER_PROCESS = """
import sys, time
from pathlib import Path
from omnai.services import EmbeddedServices
with EmbeddedServices(Path(sys.argv[1]), is_durable=False).in_use() as status:
    print(status.postgres.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedServices:
    return EmbeddedServices(tmp_path_factory.mktemp("shared") / "services", is_durable=False)


@pytest.fixture
def embedded(shared: EmbeddedServices) -> Iterator[EmbeddedServices]:
    """Initialised once for all tests, and stopped before and after each."""
    shared.stop()
    yield shared
    shared.stop()


def states(status: ServicesStatus) -> set[ServiceState]:
    return {service.state for service in status.all}


def query(url: str | None, statement: str) -> object:
    assert url is not None
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        return connection.execute(sqlalchemy.text(statement)).scalar()


def execute(url: str | None, statement: str) -> None:
    assert url is not None
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(statement))


def client(url: str | None) -> redis.Redis:
    assert url is not None
    return redis.Redis.from_url(url)


def kill(status: ServicesStatus) -> None:
    for service in status.all:
        assert service.pid is not None
        os.kill(service.pid, signal.SIGKILL)


def wait_until_stopped(services: EmbeddedServices) -> None:
    deadline = time.monotonic() + 10
    while states(services.status()) != {ServiceState.STOPPED}:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def other_user(embedded: EmbeddedServices) -> Iterator[subprocess.Popen[str]]:
    """Another process inside `in_use`."""
    with subprocess.Popen(
        [sys.executable, "-c", USER_PROCESS, embedded.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        yield process
        process.kill()


def test_both_servers_answer_at_the_addresses_given(embedded: EmbeddedServices) -> None:
    status = embedded.start()
    assert query(status.postgres.url, "SHOW timezone") == "UTC"
    assert query(status.postgres.url, "SHOW server_encoding") == "UTF8"
    with client(status.valkey.url) as valkey:
        assert valkey.ping()
        assert valkey.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert valkey.config_get("appendonly") == {"appendonly": "yes"}
    assert [service.problem for service in status.all] == [None, None]


def test_starting_twice_starts_once(embedded: EmbeddedServices) -> None:
    assert embedded.start() == embedded.start()


def test_stopping_twice_is_allowed(embedded: EmbeddedServices) -> None:
    embedded.start()
    assert states(embedded.stop()) == {ServiceState.STOPPED}
    assert states(embedded.stop()) == {ServiceState.STOPPED}


def test_the_status_of_a_folder_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    services = EmbeddedServices(tmp_path / "services")
    assert states(services.status()) == {ServiceState.STOPPED}
    assert states(services.stop()) == {ServiceState.STOPPED}
    assert list(tmp_path.iterdir()) == []


def test_the_last_user_to_leave_stops_them(embedded: EmbeddedServices) -> None:
    with embedded.in_use() as first:
        with embedded.in_use() as second:
            assert first == second
        assert states(embedded.status()) == {ServiceState.RUNNING}
    assert states(embedded.status()) == {ServiceState.STOPPED}


def test_kept_services_stay_until_stopped(embedded: EmbeddedServices) -> None:
    assert embedded.start(keep=True).is_kept
    with embedded.in_use():
        pass
    assert states(embedded.status()) == {ServiceState.RUNNING}
    assert not embedded.stop().is_kept


def test_a_stop_waits_for_those_who_use_them(embedded: EmbeddedServices) -> None:
    embedded.start(keep=True)
    with embedded.in_use():
        assert states(embedded.stop()) == {ServiceState.RUNNING}
    assert states(embedded.status()) == {ServiceState.STOPPED}


def test_another_process_shares_them(
    embedded: EmbeddedServices, other_user: subprocess.Popen[str]
) -> None:
    with embedded.in_use():
        pass
    assert states(embedded.status()) == {ServiceState.RUNNING}
    other_user.communicate("")
    assert states(embedded.status()) == {ServiceState.STOPPED}


def test_the_next_user_adopts_what_a_killed_one_left(
    embedded: EmbeddedServices, other_user: subprocess.Popen[str]
) -> None:
    pid = embedded.status().postgres.pid
    other_user.kill()
    other_user.wait()
    with embedded.in_use() as status:
        assert status.postgres.pid == pid
    assert states(embedded.status()) == {ServiceState.STOPPED}


def test_many_processes_at_once_start_one_server_each(embedded: EmbeddedServices) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", USER_PROCESS, embedded.root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    pids = set()
    for process in processes:
        assert process.stdout is not None
        pids.add(process.stdout.readline())
    for process in processes:
        process.communicate("")
        assert process.returncode == 0
    assert len(pids) == 1
    assert states(embedded.status()) == {ServiceState.STOPPED}


def test_a_terminals_interrupt_does_not_reach_them(embedded: EmbeddedServices) -> None:
    for service in embedded.start().all:
        assert service.pid is not None
        assert os.getsid(service.pid) != os.getsid(0)


def test_what_was_committed_survives_a_crash(embedded: EmbeddedServices) -> None:
    status = embedded.start()
    execute(status.postgres.url, "CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer")
    with client(status.valkey.url) as valkey:
        valkey.set("answer", 42)
    kill(status)
    wait_until_stopped(embedded)
    status = embedded.start()
    assert query(status.postgres.url, "SELECT answer FROM kept") == 42
    with client(status.valkey.url) as valkey:
        assert valkey.get("answer") == b"42"


def test_a_stale_file_that_names_a_living_process_is_no_obstacle(
    embedded: EmbeddedServices,
) -> None:
    status = embedded.start()
    pid_file = embedded.root / "postgres" / "postmaster.pid"
    content = pid_file.read_text()
    kill(status)
    wait_until_stopped(embedded)
    pid_file.write_text(content.replace(str(status.postgres.pid), str(os.getpid()), 1))
    assert states(embedded.start()) == {ServiceState.RUNNING}


def test_a_server_that_stops_answering_is_reported(embedded: EmbeddedServices) -> None:
    embedded.start()
    (embedded.sockets / ".s.PGSQL.5432").unlink()
    status = embedded.status().postgres
    assert status.state is ServiceState.RUNNING
    assert "does not answer" in (status.problem or "")


def test_only_the_caller_may_enter(embedded: EmbeddedServices) -> None:
    embedded.start()
    for folder in (embedded.root, embedded.sockets, embedded.root / "postgres"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_no_tcp_port_is_opened(embedded: EmbeddedServices) -> None:
    status = embedded.start()
    assert query(status.postgres.url, "SHOW listen_addresses") == ""
    with client(status.valkey.url) as valkey:
        assert valkey.config_get("port") == {"port": "0"}


@pytest.mark.parametrize("folder", ["d" * 60 + "/" + "e" * 60, "a folder, with 'quotes' é"])
def test_a_path_that_no_socket_can_have_works(tmp_path: Path, folder: str) -> None:
    services = EmbeddedServices(tmp_path / folder / "services", is_durable=False)
    assert services.root not in services.sockets.parents
    with services.in_use() as status:
        assert query(status.postgres.url, "SELECT 1") == 1
        with client(status.valkey.url) as valkey:
            assert valkey.ping()
    services.sockets.rmdir()


def test_a_socket_folder_that_others_may_enter_is_refused(embedded: EmbeddedServices) -> None:
    embedded.start()
    embedded.stop()
    embedded.sockets.chmod(0o755)
    try:
        with pytest.raises(RootUnusable, match="only you can enter"):
            embedded.start()
    finally:
        embedded.sockets.chmod(0o700)


def test_data_of_another_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "postgres"
    data.mkdir()
    (data / "PG_VERSION").write_text("15\n")
    services = EmbeddedServices(tmp_path, is_durable=False)
    with pytest.raises(DataOfAnotherVersion, match="PostgreSQL 15"):
        services.start()
    assert (data / "PG_VERSION").read_text() == "15\n"
    assert "PostgreSQL 15" in (services.status().postgres.problem or "")


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "thesis.txt").touch()
    with pytest.raises(RootUnusable, match="neither empty nor"):
        EmbeddedServices(tmp_path, is_durable=False).start()
    assert (tmp_path / "postgres" / "thesis.txt").exists()


def test_a_folder_that_others_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    tmp_path.chmod(0o755)
    with pytest.raises(RootUnusable, match="something else"):
        EmbeddedServices(tmp_path, is_durable=False).start()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_making_that_was_interrupted_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "postgres.unfinished" / "base").mkdir(parents=True)
    with EmbeddedServices(tmp_path, is_durable=False).in_use() as status:
        assert query(status.postgres.url, "SELECT 1") == 1
    assert not (tmp_path / "postgres.unfinished").exists()


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RootUnusable, match="Not a directory"):
        EmbeddedServices(tmp_path / "file" / "services").start()


def test_a_server_that_cannot_start_says_why(embedded: EmbeddedServices) -> None:
    embedded.start()
    embedded.stop()
    settings = embedded.root / "postgres" / "postgresql.conf"
    content = settings.read_text()
    settings.write_text("no such setting\n")
    try:
        with pytest.raises(ServiceFailed, match="syntax error"), embedded.in_use():
            pass
    finally:
        settings.write_text(content)
    assert states(embedded.status()) == {ServiceState.STOPPED}


def test_the_private_fixtures_are_apart_from_each_other(postgres_url: str, valkey_url: str) -> None:
    assert query(postgres_url, "SELECT current_database()") != "omnai"
    with client(valkey_url) as valkey:
        assert valkey.ping()
    with pytest.raises(sqlalchemy.exc.OperationalError) as failure:
        query(str(sqlalchemy.make_url(postgres_url).set(database="absent")), "SELECT 1")
    assert isinstance(failure.value.orig, psycopg.OperationalError)
