"""What Prometheus is told: names, meanings and labels; no label holds what anybody wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from api.readiness import STALE, STATES, shown_state
from pipeline.ledger.gauges import UNENDED, Gauges
from pipeline.ledger.queue import QueueState
from pipeline.ledger.tallies import GIVEN_UP, Tally
from pipeline.ledger.totals import LIVE
from pipeline.records import EndReason

OTHER = "other"
"""An engine or a reason that this release does not know; so labels have an end."""

TALLIES: Mapping[Tally, tuple[str, str]] = {
    Tally.BELLS_RERUNG: (
        "omnai_bells_rerung",
        "Times that the dispatcher rang for queued work that no bell waited for.",
    ),
    Tally.BELLS_FAILED: ("omnai_bells_failed", "Bells that the queue did not take."),
    Tally.EPOCHS_REAPED: (
        "omnai_epochs_reaped",
        "Epochs that the reaper ended because their process was lost.",
    ),
    Tally.GPUS_QUARANTINED: (
        "omnai_gpus_quarantined",
        "Times that a killed process did not go and its slot stayed held.",
    ),
    Tally.REFUSED_SPACE: (
        "omnai_space_refusals",
        "Times that work waited and a worker's disk was below the free-space mark.",
    ),
    Tally.UPLOADS_REFUSED_SPACE: (
        "omnai_upload_space_refusals",
        "Uploads, and parts of one, that were refused for want of room.",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Disk:
    """Of the data folder of the process that answers."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, kw_only=True)
class Here:
    """What this process alone can tell."""

    release: str
    engines: Collection[str]
    stale_s: float
    disk: Disk
    free_bytes_min: int
    """What has to stay free; 0 where there is no mark."""
    uploads_active: int
    uploads_waiting: int
    is_night_open: bool


class Figures(Collector):
    """One scrape. Without gauges the database could not be read, which is a figure too."""

    def __init__(self, here: Here, gauges: Gauges | None) -> None:
        self._here = here
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        yield from _of_process(self._here, is_database_up=self._gauges is not None)
        if self._gauges is not None:
            yield from _of_queue(self._here, self._gauges)
            yield from _of_epochs(self._here, self._gauges)
            yield from _of_workers(self._here, self._gauges)
            yield from _of_tallies(self._gauges.tallies)


def _of_process(here: Here, *, is_database_up: bool) -> Iterator[Metric]:
    yield InfoMetricFamily("omnai_build", "Which release answers.", value={"version": here.release})
    for name, meaning, value in (
        ("omnai_database_up", "Whether the database answered this scrape.", is_database_up),
        ("omnai_night_open", "Whether the night's window lets claims be made.", here.is_night_open),
        ("omnai_uploads_active", "Uploads that this process takes in.", here.uploads_active),
        ("omnai_uploads_waiting", "Uploads that wait for a place.", here.uploads_waiting),
        ("omnai_disk_size_bytes", "Size of the data folder's disk here.", here.disk.size_bytes),
        ("omnai_disk_free_bytes", "What is free of it for this process.", here.disk.free_bytes),
        (
            "omnai_disk_mark_bytes",
            "What has to stay free for uploads and claims; 0 is no mark.",
            here.free_bytes_min,
        ),
    ):
        yield GaugeMetricFamily(name, meaning, value=value)


def _of_queue(here: Here, gauges: Gauges) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "omnai_queue_state", "1 for the state that the queue is in.", labels=["state"]
    )
    for known in QueueState:
        state.add_metric([known.value], known is gauges.queue)
    yield state
    depth = GaugeMetricFamily(
        "omnai_jobs", "Jobs that have not ended, by state.", labels=["engine", "state"]
    )
    oldest = GaugeMetricFamily(
        "omnai_jobs_oldest_age_seconds",
        "How long the oldest of them has been in its state, or may have started.",
        labels=["engine", "state"],
    )
    counts: dict[tuple[str, str], int] = defaultdict(int)
    ages: dict[tuple[str, str], float] = defaultdict(float)
    for found in gauges.waiting:
        at = _known(found.engine, here.engines), found.state
        counts[at] += found.count
        ages[at] = max(ages[at], found.oldest_s)
    for engine in _engines(here, counts):
        for job_state in UNENDED:
            depth.add_metric([engine, job_state.value], counts[engine, job_state.value])
            oldest.add_metric([engine, job_state.value], ages[engine, job_state.value])
    yield from (depth, oldest)


def _of_epochs(here: Here, gauges: Gauges) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "omnai_epochs_ended", "Epochs that ended, by why.", labels=["engine", "reason"]
    )
    held = CounterMetricFamily(
        "omnai_engine_seconds",
        "Seconds for which epochs have held a worker's slot: a GPU's, for minicpmo.",
        labels=["engine"],
    )
    reasons = {reason.value for reason in EndReason}
    counts: dict[tuple[str, str], int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for total in gauges.totals:
        engine = _known(total.engine, here.engines)
        seconds[engine] += total.held_s
        if total.reason != LIVE:
            counts[engine, _known(total.reason, reasons)] += total.count
    for engine in _engines(here, [*counts, *((engine, "") for engine in seconds)]):
        held.add_metric([engine], seconds[engine])
        for reason in (*sorted(reasons), OTHER):
            ended.add_metric([engine, reason], counts[engine, reason])
    yield from (ended, held)
    yield from _of_paces(here, gauges)
    ages = {
        name: GaugeMetricFamily(f"omnai_epoch_{name}_age_seconds", meaning, labels=labels)
        for name, meaning, labels in (
            ("alive", "Since a running epoch's process said that it lives.", ["host", "slot"]),
            (
                "progress",
                "Since a running epoch got on, and with what.",
                ["host", "slot", "phase"],
            ),
        )
    }
    for live in gauges.live:
        ages["alive"].add_metric([live.host, live.slot], live.alive_age_s)
        ages["progress"].add_metric([live.host, live.slot, live.phase], live.progress_age_s)
    yield from ages.values()


def _of_paces(here: Here, gauges: Gauges) -> Iterator[Metric]:
    """Of the newest units of the newest epochs; nothing where none ran within a day."""
    paces = [pace for pace in gauges.paces if pace.engine in here.engines]
    for name, meaning, values in (
        ("units", "Units that the other recent figures are of.", [p.units for p in paces]),
        ("unit_median_seconds", "What half of them took at most.", [p.median_s for p in paces]),
        ("unit_p95_seconds", "What 95% of them took at most.", [p.p95_s for p in paces]),
        ("unit_max_seconds", "What the slowest took.", [p.max_s for p in paces]),
        ("realtime_ratio", "Source seconds a second.", [p.realtime for p in paces]),
    ):
        family = GaugeMetricFamily(f"omnai_recent_{name}", meaning, labels=["engine"])
        for pace, value in zip(paces, values, strict=True):
            if value is not None:
                family.add_metric([pace.engine], value)
        yield family


def _of_workers(here: Here, gauges: Gauges) -> Iterator[Metric]:
    count = GaugeMetricFamily(
        "omnai_workers", "Worker slots, by what they do.", labels=["engine", "state"]
    )
    age = GaugeMetricFamily(
        "omnai_worker_alive_age_seconds",
        "Since a worker process said that it lives.",
        labels=["host", "slot", "engine"],
    )
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for seen in gauges.workers:
        engine = _known(seen.engine, here.engines)
        counts[engine, shown_state(seen.state, seen.age_s, here.stale_s)] += 1
        age.add_metric([seen.host, seen.slot, engine], seen.age_s)
    for engine in _engines(here, counts):
        for state in (*STATES, STALE):
            count.add_metric([engine, state], counts[engine, state])
    yield from (count, age)


def _of_tallies(tallies: Mapping[str, int]) -> Iterator[Metric]:
    for tally, (name, meaning) in TALLIES.items():
        yield CounterMetricFamily(name, meaning, value=tallies.get(tally.value, 0))
    given_up = CounterMetricFamily(
        "omnai_epochs_given_up",
        "Epochs that somebody other than their own process ended, by why.",
        labels=["reason"],
    )
    for reason in sorted(EndReason):
        given_up.add_metric([reason.value], tallies.get(f"{GIVEN_UP}{reason.value}", 0))
    yield given_up


def _engines(here: Here, found: Collection[tuple[str, str]]) -> list[str]:
    """Those of this release always, so that a figure of none is 0 and not absent."""
    return sorted({*here.engines, *(engine for engine, _ in found)})


def _known(name: str, names: Collection[str]) -> str:
    return name if name in names else OTHER
