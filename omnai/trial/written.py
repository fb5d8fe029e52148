"""The product's own loop over some units, into a ledger that is thrown away."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omnai.stores import Stores, opened
from omnai.trial.figures import Timing
from pipeline.engine.session import Engine
from pipeline.ledger import jobs, views
from pipeline.ledger.views import UnitView
from pipeline.prompt import prompt_sha256, system_text
from pipeline.records import Options, RecordingRecord, Request, SessionContext, Unit
from pipeline.run import Outcome, Watch
from pipeline.settings import Settings

OBJECTIVE = "Say in one sentence what is shown or said, whenever it changes."

ROWS = 1_000
"""Units read at once."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """What the ledger held at the end."""

    timings: tuple[Timing, ...]
    outcome: Outcome


def run_written(engine: Engine, units: Iterator[Unit], settings: Settings) -> Written:
    """Watch the units as a worker does, each committed before the next is fed.

    The database is started for this run in the data folder and removed after it, whatever
    OMNAI_DATABASE_URL names: nobody's jobs are beside it. Raises ServicesError.
    """
    with _thrown_away(settings) as stores:
        text = system_text(OBJECTIVE, ())
        options = Options()
        key = jobs.start_local(
            stores.database,
            recording=RecordingRecord(
                filename="bench", sha256=hashlib.sha256().hexdigest(), size_bytes=0, probe=None
            ),
            request=Request(
                objective=OBJECTIVE,
                title=None,
                event_date=None,
                engine=engine.describe().name,
                options=options,
            ),
            holdings=(),
            portfolio_sha256=hashlib.sha256().hexdigest(),
            engine=engine.describe(),
            prompt_sha256=prompt_sha256(text),
            slot=f"{settings.host_name}/bench",
            host=settings.host_name,
            pid=os.getpid(),
        )
        watch = Watch(
            key,
            SessionContext(epoch=key.number, prompt=text, holdings=(), options=options),
            engine=engine,
            database=stores.database,
            frames=stores.frames,
            frame_ring=settings.frame_ring,
        )
        outcome = watch.run(units)
        return Written(
            timings=tuple(_timing(view) for view in _rows(stores, key.job_id)), outcome=outcome
        )


@contextmanager
def _thrown_away(settings: Settings) -> Iterator[Stores]:
    """On the disk that a worker's would be on: a write is as slow as its disk."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=settings.data_dir) as folder:
        own = replace(settings, data_dir=Path(folder), database_url=None, redis_url=None)
        with opened(own) as stores:
            yield stores


def _rows(stores: Stores, job_id: str) -> Iterator[UnitView]:
    after: int | None = None
    while page := views.units(stores.database, job_id, epoch=1, after_sequence=after, limit=ROWS):
        yield from page
        after = page[-1].unit.sequence


def _timing(view: UnitView) -> Timing:
    unit = view.unit
    return Timing(
        decision=unit.decision,
        is_drain=unit.drain is not None,
        source_ms=unit.end_ms - unit.start_ms,
        tokens=view.tokens,
        queue_wait_ms=view.queue_wait_ms,
        engine=view.clocks,
        ledger_ms=view.ledger_ms,
        total_ms=view.total_ms,
    )
