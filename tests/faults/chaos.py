"""Kills of workers, broker and database every few seconds, for as long as it is told to.

`python -m tests.faults.chaos --seconds 3600`: prints a table at the end, and ends with 1 where an
invariant does not hold, with the log of each epoch that a fault of OmnAI's own has ended.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import redis
from sqlalchemy import text

from pipeline.errors import OmnaiError
from pipeline.ledger import epochs, jobs, reruns, views
from pipeline.ledger.reruns import RerunStart
from pipeline.settings import PhaseLimits
from tests.faults.host import Host, opened_host
from tests.faults.invariants import Report
from tests.faults.servers import Servers, own_servers

BACKLOG = 3
"""Jobs that wait at any time."""

UNITS = (2, 12)
UNIT_S = 0.04

PAUSE_S = (0.5, 3.0)
"""Between two faults, at least."""

PATIENCE_S = 10.0
"""Until something runs again that the next fault can meet."""

UNIT_LIMIT_S = 15.0
"""Longer than the lease: what is stopped here is the reaper's to find."""

STOPPED_S = 8.0
"""Longer than the lease."""

REST_S = 120.0
"""From the last fault until everything has come to rest, on a busy machine."""

LINE_CHARS = 4000
"""Of a line about what does not hold; a fault's places in the code fit into it."""

LAST_LINES = 20
"""Of a log, to tell what a supervisor left for."""

POINTS = (
    "after_claim",
    "in_unit",
    "before_unit_commit",
    "in_unit_transaction",
    "after_unit_commit",
    "before_finish",
    "after_finish",
)


@dataclass
class Chaos:
    """Some hosts, their servers, and whatever befalls them; all chance comes from one seed."""

    hosts: list[Host]
    servers: Servers
    chance: random.Random
    faults: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    stopped: list[tuple[float, int]] = field(default_factory=list)
    """When a stopped process goes on."""
    left: list[str] = field(default_factory=list)
    """The end of the log of each supervisor that left by itself."""

    def run(self, seconds: float) -> Report:
        for host in self.hosts:
            self._start(host)
        self.hosts[0].await_loaded(len(self.hosts))
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            self._ask()
            self._strike()
            self._pause(self.chance.uniform(*PAUSE_S), ends_at)
        return self._rest()

    def _pause(self, seconds: float, ends_at: float) -> None:
        began = time.monotonic()
        while time.monotonic() < ends_at:
            self._keep_up()
            passed_s = time.monotonic() - began
            if passed_s > PATIENCE_S or (passed_s > seconds and self._runs()):
                return
            time.sleep(0.1)

    def _runs(self) -> bool:
        with suppress(OmnaiError):
            return any(not epoch.is_fenced for epoch in epochs.unreleased(self.hosts[0].database))
        return False

    def _rest(self) -> Report:
        """No fault any more: what waits is run, what was lost is told, and nothing is left."""
        for host in self.hosts:
            host.plan()
        host, ended = self.hosts[0], {state.value for state in jobs.ENDED}
        ends_at = time.monotonic() + REST_S
        while time.monotonic() < ends_at:
            self._keep_up(is_over=True)
            with suppress(OmnaiError):
                report = host.measure()
                if set(report.states) <= ended and not report.broken():
                    break
            time.sleep(0.3)
        return host.measure()

    def reasons(self) -> Counter[str]:
        """Why epochs ended."""
        with self.hosts[0].database.transaction() as session:
            found = session.execute(text("SELECT end_reason FROM epochs")).all()
        return Counter(row.end_reason or "(not ended)" for row in found)

    # --- what users do

    def _ask(self) -> None:
        host = self.hosts[0]
        with suppress(OmnaiError):  # somebody else holds a row for long, or moved the job meanwhile
            found, _ = views.page(host.database, owner=None, state=None, after=None, limit=30)
            waiting = sum(job.state.value == "queued" for job in found)
            for _ in range(BACKLOG - waiting):
                host.submit(self.chance.randint(*UNITS))
                self.asked["submitted"] += 1
            job = self.chance.choice(found) if found else None
            if job is None or self.chance.random() < 0.5:
                return
            if job.state in jobs.ENDED:
                reruns.request(
                    host.database, job.id, start=RerunStart.START, reason="again", by="root"
                )
                self.asked["run again"] += 1
            elif self.chance.random() < 0.5:
                jobs.request_cancel(host.database, job.id)
                self.asked["canceled"] += 1

    # --- what befalls them

    def _strike(self) -> None:
        host = self.chance.choice(self.hosts)
        kinds: dict[str, Callable[[Host], bool]] = {
            "engine's process killed": lambda host: self._signal(host, signal.SIGKILL),
            "engine's process killed at a point": self._kill_at_point,
            "engine's process stopped past its lease": self._stop_engine,
            "Celery killed": self._kill_celery,
            "supervisor killed": lambda host: self._end(host, signal.SIGKILL),
            "supervisor told to leave": lambda host: self._end(host, signal.SIGTERM),
            "whole host killed": self._kill_host,
            "broker killed": self._restart_broker,
            "broker lost with its data": self._lose_broker,
            "broker emptied": self._empty_broker,
            "database restarted": self._restart_database,
            "database away": lambda host: self._restart_database(host, away_s=1.5),
        }
        kind = self.chance.choice(sorted(kinds))
        if kinds[kind](host):
            self.faults[kind] += 1

    def _signal(self, host: Host, number: int) -> bool:
        """Whoever runs an epoch here."""
        with suppress(OmnaiError, ProcessLookupError):
            for epoch in epochs.unreleased(host.database, host=host.settings.host_name):
                os.kill(epoch.pid, number)
                if number == signal.SIGSTOP:
                    self.stopped.append((time.monotonic() + STOPPED_S, epoch.pid))
                return True
        return False

    def _kill_at_point(self, host: Host) -> bool:
        host.plan(unit_s=UNIT_S, at=self.chance.choice(POINTS), do="kill")
        return True

    def _stop_engine(self, host: Host) -> bool:
        return self._signal(host, signal.SIGSTOP)

    def _kill_celery(self, host: Host) -> bool:
        for pid in host.pids():
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if command[1:3] == [b"-m", b"worker"]:
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def _end(self, host: Host, number: int) -> bool:
        if host.processes[-1].poll() is not None:
            return False
        host.processes[-1].send_signal(number)
        return True

    def _kill_host(self, host: Host) -> bool:
        host.kill_all()
        return True

    def _restart_broker(self, _: Host) -> bool:
        self.servers.end_valkey()
        time.sleep(self.chance.uniform(0, 1))
        self.servers.valkey.start()
        return True

    def _lose_broker(self, _: Host) -> bool:
        self.servers.lose_valkey()
        self.servers.valkey.start()
        return True

    def _empty_broker(self, _: Host) -> bool:
        with redis.Redis.from_url(self.servers.valkey.url) as client:
            client.flushall()
        return True

    def _restart_database(self, _: Host, away_s: float = 0.0) -> bool:
        self.servers.end_postgres()
        time.sleep(away_s)
        self.servers.postgres.start()
        return True

    # --- what an operating system and a service manager do

    def _keep_up(self, *, is_over: bool = False) -> None:
        now = time.monotonic()
        for at, pid in self.stopped:
            if at <= now or is_over:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.stopped = [] if is_over else [(at, pid) for at, pid in self.stopped if at > now]
        for host in self.hosts:
            status = host.processes[-1].poll()
            if status is not None:
                if status > 0:
                    self.faults[f"(a supervisor left by itself with {status})"] += 1
                    self.left += host.log().splitlines()[-LAST_LINES:]
                self._start(host)

    def _start(self, host: Host) -> None:
        if not host.processes:
            host.plan(unit_s=UNIT_S)
        del host.processes[:-1]  # those were collected
        host.start()


@contextmanager
def prepared(folder: Path, *, hosts: int, seed: int) -> Iterator[Chaos]:
    with ExitStack() as held:
        servers = held.enter_context(own_servers(folder / "servers"))
        opened = [
            held.enter_context(
                opened_host(
                    folder / str(number),
                    diary=folder / "diary",
                    host_name=f"host-{number}",
                    database_url=servers.postgres.url,
                    redis_url=servers.valkey.url,
                    data_dir=folder / "data",  # as storage that they share
                    log_format="json",
                    phase_limits=PhaseLimits(unit=UNIT_LIMIT_S, drain=UNIT_LIMIT_S),
                )
            )
            for number in range(hosts)
        ]
        yield Chaos(hosts=opened, servers=servers, chance=random.Random(seed))


def broken(hosts: Sequence[Host], report: Report) -> list[str]:
    """What does not hold, and the log of each epoch that a fault of OmnAI's own has ended."""
    lines = report.broken()
    for key in report.internal:
        lines.append(f"The log of {key.job_id} epoch {key.number}:")
        lines += [line for host in hosts for line in host.log_of(key)]
    return lines


def told(chaos: Chaos, report: Report, *, seconds: float, seed: int) -> str:
    """The table at the end."""

    def lines(title: str, counted: Counter[str]) -> list[str]:
        rows = sorted(counted.items(), key=lambda row: (-row[1], row[0]))
        return ["", title, *(f"{count:8} {name}" for name, count in rows)]

    kills = sum(count for kind, count in chaos.faults.items() if not kind.startswith("("))
    figures = {
        "jobs": report.states.total(),
        "epochs": report.epochs,
        "calls into the engine": report.calls,
        "units kept": report.units,
        "faults": kills,
        "lost rows": len(report.lost),
        "rows of units never fed": len(report.invented),
        "repeated units": len(report.repeated),
        "two calls at once in one engine": len(report.collisions),
        "epochs that nobody asked for": len(report.unasked),
        "jobs in no known state": len(report.unsettled),
        "briefs missing or wrong": len(report.untold),
        "epochs ended by a fault of OmnAI's own": len(report.internal),
    }
    return "\n".join(
        [
            f"{seconds:g} s on {len(chaos.hosts)} hosts, seed {seed}",
            "",
            *(f"{count:8} {name}" for name, count in figures.items()),
            *lines("jobs by state", report.states),
            *lines("epochs by their end", chaos.reasons()),
            *lines("asked", chaos.asked),
            *lines("faults by kind", chaos.faults),
            *(["", "logged last by who left by itself", *chaos.left] if chaos.left else []),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if given.seed is None else given.seed
    with (
        tempfile.TemporaryDirectory(prefix="omnai-chaos-") as folder,
        prepared(Path(folder), hosts=given.hosts, seed=seed) as chaos,
    ):
        report = chaos.run(given.seconds)
        sys.stdout.write(told(chaos, report, seconds=given.seconds, seed=seed) + "\n")
        faults = broken(chaos.hosts, report)
        for line in faults:
            sys.stdout.write(f"{line[:LINE_CHARS]}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
