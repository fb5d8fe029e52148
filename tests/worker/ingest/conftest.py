"""A small internet of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worker.ingest.servers import World, opened_world


@pytest.fixture
def world() -> Iterator[World]:
    with opened_world() as world:
        yield world
