"""What must hold after every fault, by the engine's own diary and PostgreSQL's own rows.

I1: one call is in an engine at a time. I2: what was acknowledged is there, once, and nothing else.
I3: no unit of an epoch enters the engine twice, and no epoch begins that nobody asked for. I4: a
job has ended, or waits, or is run by a process that gives signs of life. I5: the brief of each
ended job that ran lists exactly what was completed. I6: what befalls a worker from outside ends no
epoch as a fault of OmnAI's own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from pipeline.ledger.database import Database
from pipeline.ledger.epochs import EpochKey

UnitKey = tuple[str, int, int]
"""Job, epoch, sequence."""

_UNITS = "SELECT job_id::text, epoch, sequence FROM units"

_EPOCHS = """
    SELECT jobs.id::text AS job_id, jobs.state, count(epochs.number) AS opened,
           (SELECT count(*) FROM reruns WHERE reruns.job_id = jobs.id) AS asked
      FROM jobs LEFT JOIN epochs ON epochs.job_id = jobs.id GROUP BY jobs.id
"""

_UNSETTLED = """
    SELECT jobs.id::text AS job_id, jobs.state, epochs.number
      FROM jobs LEFT JOIN epochs ON epochs.job_id = jobs.id AND epochs.fenced_at IS NULL
     WHERE CASE WHEN jobs.state IN ('succeeded', 'failed', 'canceled', 'queued')
                THEN epochs.number IS NOT NULL
                ELSE epochs.number IS NULL
                     OR epochs.alive_at < now() - make_interval(secs => :stale_s) END
"""

_RAN = """
    SELECT jobs.id::text AS job_id, epochs.number, epochs.ended_at,
           count(units.second) AS units, count(units.drain) AS drained
      FROM jobs JOIN epochs ON epochs.job_id = jobs.id
      LEFT JOIN units ON units.job_id = epochs.job_id AND units.epoch = epochs.number
     WHERE jobs.state IN ('succeeded', 'failed', 'canceled')
     GROUP BY jobs.id, epochs.number, epochs.ended_at ORDER BY jobs.id, epochs.number
"""

_SECONDS = """
    SELECT job_id::text, count(DISTINCT second) AS seconds FROM units
     WHERE second IS NOT NULL GROUP BY job_id
"""

_INTERNAL = """
    SELECT job_id::text, number FROM epochs WHERE end_reason = 'internal' ORDER BY started_at
"""

_BRIEFS = """
    SELECT DISTINCT ON (job_id) job_id::text, document FROM briefs
     ORDER BY job_id, revision DESC
"""


@dataclass(frozen=True)
class Diary:
    """What the doubles wrote down, of all their processes, oldest first."""

    entries: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, path: Path) -> Diary:
        if not path.exists():
            return cls(())
        return cls(tuple(json.loads(line) for line in path.read_text().splitlines()))

    def of(self, event: str) -> list[UnitKey]:
        return [
            (entry["job"], entry["epoch"], entry["sequence"])
            for entry in self.entries
            if entry["event"] == event
        ]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was counted; everything from `collisions` on must be empty."""

    states: Counter[str]
    epochs: int
    units: int
    calls: int
    """Into the engine."""
    collisions: Sequence[UnitKey]
    """Calls that began while another was in the engine of the same slot."""
    lost: Sequence[UnitKey]
    """Acknowledged, and not there."""
    invented: Sequence[UnitKey]
    """There, and never in the engine."""
    repeated: Sequence[UnitKey]
    """In the engine more than once."""
    unasked: Sequence[str]
    """Jobs with more epochs than somebody asked for."""
    unsettled: Sequence[str]
    """Jobs that claim to run where nobody runs them, or run where they claim not to."""
    untold: Sequence[str]
    """Ended jobs whose brief is missing or lists something else than what was completed."""
    internal: Sequence[EpochKey]
    """Epochs that an error ended which nothing of OmnAI's had foreseen."""

    def broken(self) -> list[str]:
        """What does not hold, in words; nothing where all is well."""
        told = {
            "I1: two calls at once in one engine": self.collisions,
            "I2: acknowledged units that are not there": self.lost,
            "I2: units that were never fed": self.invented,
            "I3: units fed twice": self.repeated,
            "I3: epochs that nobody asked for": self.unasked,
            "I4: jobs in no known state": self.unsettled,
            "I5: briefs that are missing or wrong": self.untold,
            "I6: epochs ended by a fault of OmnAI's own": [
                f"{key.job_id} epoch {key.number}" for key in self.internal
            ],
        }
        return [f"{words}: {list(found)}" for words, found in told.items() if found]


def measure(database: Database, diary: Diary, *, stale_s: float) -> Report:
    with database.transaction(is_snapshot=True) as session:

        def rows(statement: str, **values: object) -> Sequence[Any]:
            return session.execute(text(statement), values).all()

        stored = {(row.job_id, row.epoch, row.sequence) for row in rows(_UNITS)}
        opened = rows(_EPOCHS)
        unsettled = rows(_UNSETTLED, stale_s=stale_s)
        ran = rows(_RAN)
        internal = rows(_INTERNAL)
        seconds = {row.job_id: row.seconds for row in rows(_SECONDS)}
        told = {row.job_id: json.loads(bytes(row.document)) for row in rows(_BRIEFS)}
    calls = Counter(diary.of("entry"))
    return Report(
        states=Counter(row.state for row in opened),
        epochs=sum(row.opened for row in opened),
        units=len(stored),
        calls=calls.total(),
        collisions=diary.of("collision"),
        lost=sorted(set(diary.of("stored")) - stored),
        invented=sorted(stored - set(calls)),
        repeated=sorted(key for key, count in calls.items() if count > 1),
        unasked=[row.job_id for row in opened if row.opened > 1 + row.asked],
        unsettled=[f"{row.job_id} {row.state} epoch {row.number}" for row in unsettled],
        untold=sorted(set(_untold(ran, seconds, told))),
        internal=[EpochKey(job_id=row.job_id, number=row.number) for row in internal],
    )


def _untold(
    ran: Sequence[Any], seconds: dict[str, int], told: dict[str, dict[str, Any]]
) -> Iterator[str]:
    listed = {
        (job_id, epoch["number"]): (epoch["units"], epoch["drain_units"])
        for job_id, brief in told.items()
        for epoch in brief["provenance"]["epochs"]
    }
    for row in ran:
        if row.job_id not in told:
            yield f"{row.job_id}: none"
            continue
        if listed.get((row.job_id, row.number)) != (row.units, row.drained):
            yield f"{row.job_id}: epoch {row.number} has {row.units} units"
        fed_ms = told[row.job_id]["coverage"]["time"][0]["duration_ms"]
        if fed_ms != 1000 * seconds.get(row.job_id, 0):
            yield f"{row.job_id}: {fed_ms} ms are said to be fed"
