"""`omnai watch` over a real folder and a real API, while files come and grow."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipeline.ledger import views
from tests.api.site import SAMPLES, Site, running, site
from tests.omnai.watched.sound import sound

__all__ = ["running", "site"]

SETTLE_S = 0.4


class Watching:
    """`omnai watch` as a process, and what it says."""

    def __init__(self, folder: Path, url: str, key: str, *more: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "omnai", "watch", str(folder), "--json"),
                *("--portfolio", str(SAMPLES / "portfolio.json"), "--objective", "What of it?"),
                *("--settle-s", str(SETTLE_S), *more),
            ],
            env=os.environ | {"OMNAI_API_URL": url, "OMNAI_API_KEY": key},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))

    def next(self) -> dict[str, Any]:
        try:
            return self._said.get(timeout=60)
        except queue.Empty:
            raise AssertionError(self.end()) from None

    def said(self) -> list[dict[str, Any]]:
        """What it has said since, until it had nothing more to say for several looks."""
        time.sleep(6 * SETTLE_S)
        return [self._said.get() for _ in range(self._said.qsize())]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        if self._process.poll() is None:
            self._process.send_signal(number)
        status = self._process.wait(timeout=60)
        self._reader.join()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdout.close()
        error = "" if self._process.stderr.closed else self._process.stderr.read().decode()
        self._process.stderr.close()
        return status, error


@pytest.fixture
def watch(site: Site, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "recordings").mkdir()
    with ExitStack() as ends:
        secret = site.key()[1]

        def begin() -> Watching:
            watching = Watching(tmp_path / "recordings", site.origin, secret)
            ends.callback(watching.end)
            return watching

        yield begin


def jobs_of(site: Site) -> list[views.JobView]:
    found, _ = views.page(site.database, owner=site.owner, state=None, after=None, limit=50)
    return list(reversed(found))


def test_each_finished_recording_becomes_one_job_also_over_restarts(
    site: Site, tmp_path: Path, watch: Any
) -> None:
    folder = tmp_path / "recordings"
    (folder / "first.wav").write_bytes(sound(300))
    (folder / "notes.mp4.part").write_bytes(sound(310))
    outside = folder.parent / "outside.wav"
    outside.write_bytes(sound(320))
    (folder / "link.wav").symlink_to(outside)
    watching = watch()
    said = watching.next()
    assert (said["event"], said["file"]) == ("submitted", "first.wav")

    # One that is still being written to: pieces come faster than it could settle.
    content = sound(440, seconds=4)
    with (folder / "second.wav").open("wb") as file:
        for start in range(0, len(content), 8_000):
            file.write(content[start : start + 8_000])
            file.flush()
            time.sleep(SETTLE_S / 4)
    said = watching.next()
    assert (said["event"], said["file"]) == ("submitted", "second.wav")
    assert watching.said() == []
    assert watching.end() == (0, "")

    found = jobs_of(site)
    assert [job.filename for job in found] == ["first.wav", "second.wav"]
    assert said["job_id"] == found[1].id
    recording = site.app.test_client().get(
        f"/v1/recordings/{found[1].recording_id}/media",
        headers={"Authorization": f"Bearer {site.key()[1]}"},
    )
    assert recording.data == content

    # A file that was touched, renamed or copied is no other recording.
    os.utime(folder / "first.wav")
    (folder / "second.wav").rename(folder / "renamed.wav")
    watching = watch()
    said = watching.next()
    assert (said["event"], said["file"], said["job_id"]) == ("repeated", "renamed.wav", found[1].id)
    assert watching.said() == []
    assert watching.end(signal.SIGINT) == (0, "")
    assert len(jobs_of(site)) == 2
