"""The two natives that one suite runs against: our tiny one, and the snapshot you name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.native.harness import Native

SNAPSHOT = "MINICPMO_SNAPSHOT"

NEEDS_TORCH = "needs torch and transformers: `pip install -e '.[native]'`"

# The model's own code is not ours to mend, and a snapshot of any size may be named.
_FOREIGN = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(3600)]

_loaded: dict[str, Native] = {}


@pytest.fixture(params=["tiny", pytest.param("snapshot", marks=_FOREIGN)])
def native(request: pytest.FixtureRequest) -> Iterator[Native]:
    """Loaded once, and given to each test as it was after loading."""
    kind: str = request.param
    for library in ("torch", "transformers"):
        pytest.importorskip(library, reason=NEEDS_TORCH)
    if kind == "snapshot" and not os.environ.get(SNAPSHOT):
        pytest.skip(f"{SNAPSHOT} names no folder with the model's code and weights of any size")
    if kind not in _loaded:
        _loaded[kind] = load(kind)
    _loaded[kind].restore()
    yield _loaded[kind]
    _loaded[kind].restore()


def load(kind: str) -> Native:
    from tests.native import harness

    if kind == "tiny":
        return harness.Native(harness.load_double(), is_double=True)
    return harness.Native(harness.load_snapshot(Path(os.environ[SNAPSHOT])), is_double=False)
