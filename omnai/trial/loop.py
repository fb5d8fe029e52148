"""A recording through the product's own loop, with the rehearsal engine, into a new database."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from omnai.stores import Stores, opened
from pipeline import prompt
from pipeline.engine.registry import ENGINES
from pipeline.errors import OmnaiError
from pipeline.ledger import jobs
from pipeline.records import (
    Holding,
    JobState,
    MediaEvent,
    Options,
    RecordingRecord,
    Request,
    SessionContext,
)
from pipeline.run import Watch
from pipeline.settings import Settings

ENGINE = "rehearsal"
OBJECTIVE = "Say in one sentence what is shown or said, whenever it changes."

HOLDINGS = (
    Holding(
        id="1",
        name="Sample Holding",
        ticker=None,
        exchange=None,
        currency="USD",
        asset_type="equity",
        weight_pct=Decimal(100),
    ),
)
"""The rehearsal speaks in findings about a holding, and those are what the loop stores."""


class LoopEnded(OmnaiError):
    """The loop broke off before the end of the recording."""

    code = "loop_ended"


@dataclass(frozen=True, kw_only=True)
class Loop:
    """The loop over one recording, once for every call."""

    path: Path
    settings: Settings
    stores: Stores

    def __call__(self, events: Iterable[MediaEvent]) -> None:
        """Feed and store all events as a job of its own. Raises LoopEnded."""
        request = Request(
            objective=OBJECTIVE, title=None, event_date=None, engine=ENGINE, options=Options()
        )
        text = prompt.system_text(OBJECTIVE, HOLDINGS)
        engine = ENGINES[ENGINE]()
        key = jobs.start_local(
            self.stores.database,
            recording=RecordingRecord(
                filename=self.path.name,
                sha256=hashlib.sha256(uuid.uuid4().bytes).hexdigest(),  # nobody reads the file here
                size_bytes=self.path.stat().st_size,
                probe=None,
            ),
            request=request,
            holdings=HOLDINGS,
            portfolio_sha256=hashlib.sha256(b"").hexdigest(),
            engine=engine.describe(),
            prompt_sha256=prompt.prompt_sha256(text),
            slot=f"{self.settings.host_name}/bench/{uuid.uuid4()}",
            host=self.settings.host_name,
            pid=os.getpid(),
        )
        watch = Watch(
            key,
            SessionContext(
                epoch=key.number, prompt=text, holdings=HOLDINGS, options=request.options
            ),
            engine=engine,
            database=self.stores.database,
            frames=self.stores.frames,
            frame_ring=self.settings.frame_ring,
        )
        outcome = watch.run(events)
        if outcome.state is not JobState.SUCCEEDED:
            raise LoopEnded(outcome.end_detail)


@contextmanager
def throw_away_loop(path: Path, settings: Settings) -> Iterator[Loop]:
    """A loop over an embedded database in a temporary folder, which is gone afterwards."""
    with TemporaryDirectory(prefix="omnai-bench-") as folder:
        own = replace(
            settings, data_dir=Path(folder), database_url=None, redis_url=None, blobs=None
        )
        with opened(own) as stores:
            yield Loop(path=path, settings=own, stores=stores)
