"""The natives that one suite runs against: our tiny one and the snapshot you name, with the decoder
each came with and with the fast one."""

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


KINDS = (
    "tiny",
    "tiny-fast",
    pytest.param("snapshot", marks=_FOREIGN),
    pytest.param("snapshot-fast", marks=_FOREIGN),
)


@pytest.fixture(params=KINDS)
def native(request: pytest.FixtureRequest) -> Iterator[Native]:
    """Loaded once, and given to each test as it was after loading."""
    kind: str = request.param
    for library in ("torch", "transformers"):
        pytest.importorskip(library, reason=NEEDS_TORCH)
    if kind.startswith("snapshot") and not os.environ.get(SNAPSHOT):
        pytest.skip(f"{SNAPSHOT} names no folder with the model's code and weights of any size")
    if kind not in _loaded:
        _loaded[kind] = load(kind)
    _loaded[kind].restore()
    yield _loaded[kind]
    _loaded[kind].restore()


def load(kind: str) -> Native:
    from tests.native import harness

    model, _, decoder = kind.partition("-")
    is_double = model == "tiny"
    loaded = (
        harness.load_double() if is_double else harness.load_snapshot(Path(os.environ[SNAPSHOT]))
    )
    if decoder:
        loaded = harness.with_fast_decoder(loaded)
    return harness.Native(loaded, kind=kind)
