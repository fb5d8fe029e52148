"""Worker hosts that are really killed, on servers that are really stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline.settings import PhaseLimits
from tests.faults.host import UNIT_LIMIT_S, Host, opened_host
from tests.faults.servers import Servers, own_servers


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Of this module alone; whoever stops one starts it again."""
    with own_servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture(scope="module")
def module_host(
    servers: Servers, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Host]:
    """A started worker; a test takes `host`. A module may have a limit for units of its own."""
    limit_s: float = getattr(request.module, "UNIT_LIMIT_S", UNIT_LIMIT_S)
    with opened_host(
        tmp_path_factory.mktemp("host"),
        database_url=servers.postgres.url,
        redis_url=servers.valkey.url,
        phase_limits=PhaseLimits(unit=limit_s, drain=limit_s),
    ) as host:
        host.start()
        host.await_loaded()
        yield host


@pytest.fixture
def host(module_host: Host) -> Iterator[Host]:
    """The started worker with nothing to do; what it wrote down begins with the test, and
    everything it ever did keeps the invariants after it."""
    assert module_host.processes[-1].poll() is None, module_host.log()
    module_host.plan()
    module_host.turn_page()
    yield module_host
    module_host.plan()
    module_host.cancel_all()
    module_host.check()


@pytest.fixture
def make_host(database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Hosts on the servers of the whole run, which nobody stops, and a database of the test's."""
    with ExitStack() as opened:
        made = 0

        def make(**changes: object) -> Host:
            nonlocal made
            made += 1
            given = {"database_url": database_url, "redis_url": valkey_url}
            return opened.enter_context(opened_host(tmp_path / str(made), **(given | changes)))

        yield make
