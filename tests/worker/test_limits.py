"""The table of limits in docs/operations.md against the numbers in the code."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

from pipeline import heartbeat, run
from pipeline.ledger import idempotency
from pipeline.settings import Settings
from worker import dispatcher, loop, reaper, supervisor, watchdog


def test_the_table_of_limits_tells_the_numbers_of_the_code(repository: Path) -> None:
    text = (repository / "docs" / "operations.md").read_text()
    section = text.partition("## Limits and clocks\n")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| ([^|]+?) \| ([\d, ]+?) \|", section, flags=re.MULTILINE))
    settings = Settings()
    periods = (reaper.PERIOD_S, watchdog.PERIOD_S, dispatcher.PERIOD_S, reaper.PUBLISH_PERIOD_S)
    assert told == {
        **{
            f"progress in `{phase}`": f"{seconds:g}"
            for phase, seconds in asdict(settings.phase_limits).items()
        },
        "a brief made by a supervisor": f"{settings.phase_limits.publish:g}",
        "a sign of life (`OMNAI_STALE_S`)": f"{settings.stale_s:g}",
        "between two signs of life": f"{heartbeat.INTERVAL_S:g}",
        "a killed process goes": f"{watchdog.GONE_S:g}",
        "a unit's write while the database is away": f"{run.OUTAGE_S:g}",
        "the same once the process was told to go": f"{run.OUTAGE_LEAVING_S:g}",
        "nobody is judged after the database was away": f"{loop.GRACE_S:g}",
        "Celery's own process after the engine's has gone": f"{supervisor.LEAVE_S:g}",
        "reaper, watchdog, dispatcher, publisher look": ", ".join(f"{s:g}" for s in periods),
        "a brief that nobody made": f"{reaper.PUBLISH_AFTER_S:g}",
        "an idempotency key without an answer": f"{idempotency.UNANSWERED.total_seconds():g}",
    }
