"""The API's server is killed while it takes in a recording and while it writes a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from pipeline.ledger.storage import open_storage
from pipeline.ledger.sweep import sweep
from pipeline.settings import Settings
from tests.faults.host import Host
from tests.faults.serving import serving, sound
from tests.hosts import ROOT, until
from tests.pipeline.ledger.factories import rows
from tests.processes import needs_proc
from tests.service import await_ready, free_port
from worker.processes import is_gone

pytestmark = needs_proc

SECONDS = 40
"""Of sound, more than a megabyte: several pieces, of which half have been written."""

SOUND = sound(SECONDS)

EXPIRE = "UPDATE uploads SET expires_at = now() - interval '1 second'"
"""Nobody has gone on with any for an hour."""

AGE = "UPDATE blobs SET created_at = created_at - interval '2 days'"

MADE = "SELECT (SELECT count(*) FROM recordings), (SELECT count(*) FROM jobs)"


def made(host: Host) -> tuple[int, ...]:
    """Recordings and jobs, as anybody sees them."""
    [found] = rows(host.database, MADE)
    return tuple(found)


def incoming(host: Host) -> list[Path]:
    folder = host.settings.data_dir / "blobs" / "incoming"
    return list(folder.iterdir()) if folder.exists() else []


def files(host: Host) -> list[Path]:
    """Of recordings, whole or not."""
    return [path for path in (host.settings.data_dir / "blobs").rglob("*") if path.is_file()]


def execute(host: Host, statement: str) -> None:
    with host.database.transaction() as session:
        session.execute(text(statement))


def settled(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Once the database's server has seen that the process of the first request is gone."""

    def answered() -> httpx.Response | None:
        answer = ask()
        return None if answer.status_code == 409 else answer

    found = until(answered)
    assert found is not None
    return found


def test_a_killed_server_process_leaves_nothing_half_and_retries_are_one_recording_and_one_job(
    make_host: Callable[..., Host],
) -> None:
    host = make_host()
    with serving(host) as api:
        # Half of the bytes are there.
        with api.half_uploaded(SOUND, key="upload"):
            until(lambda: [path for path in incoming(host) if path.stat().st_size])
            os.kill(api.worker(), signal.SIGKILL)
        await_ready(api.http)
        (left,) = incoming(host)
        assert 0 < left.stat().st_size < len(SOUND)
        assert made(host) == (0, 0)

        # All of them are, under their own name, and the recording is not committed.
        host.plan(at="in_upload", do="kill")
        with pytest.raises(httpx.TransportError):
            api.upload(SOUND, key="upload")
        execute(host, EXPIRE)
        await_ready(api.http)
        until(lambda: incoming(host) == [])  # a new process begins with a look at what was left
        assert made(host) == (0, 0)
        assert len(files(host)) == 1
        execute(host, AGE)
        sweep(host.database, open_storage(host.settings), host.settings)
        assert files(host) == []
        stored = settled(lambda: api.upload(SOUND, key="upload"))
        assert stored.status_code == 201, stored.text
        again = api.upload(SOUND, key="upload")
        assert (again.status_code, again.json()) == (201, stored.json())

        # The job is written and not committed.
        host.plan(at="in_submit", do="kill")
        with pytest.raises(httpx.TransportError):
            api.submit(stored.json()["id"], key="job")
        await_ready(api.http)
        assert made(host) == (1, 0)
        assert api.http.get("/v1/jobs").json()["jobs"] == []
        submitted = settled(lambda: api.submit(stored.json()["id"], key="job"))
        assert submitted.status_code == 202, submitted.text
        again = api.submit(stored.json()["id"], key="job")
        assert (again.status_code, again.json()) == (202, submitted.json())
        assert made(host) == (1, 1)
        assert incoming(host) == []
    assert rows(host.database, "SELECT count(*) FROM uploads WHERE closed_at IS NULL") == [(0,)]
    host.check()


def test_a_killed_master_leaves_a_process_that_ends_what_it_had_begun_and_goes(
    make_host: Callable[..., Host], tmp_path: Path
) -> None:
    host = make_host()
    gate = tmp_path / "gate"
    gate.touch()
    answers: list[httpx.Response] = []
    with serving(host) as first:
        orphan = first.worker()
        recording_id = host.upload().id
        host.plan(at="before_submit", do="wait", while_there=str(gate))
        asked = threading.Thread(
            target=lambda: answers.append(first.submit(recording_id, key="job"))
        )
        asked.start()
        host.await_fault()
        with first.half_uploaded(SOUND, key="upload") as half:
            until(lambda: [path for path in incoming(host) if path.stat().st_size])
            first.process.kill()
            first.process.wait()
            with serving(host) as second:
                assert made(host) == (1, 0)
                busy = second.submit(recording_id, key="job")
                assert (busy.status_code, busy.json()["code"]) == (409, "idempotency_in_flight")
                gate.unlink()
                asked.join(timeout=60)
                half.send(SOUND[len(SOUND) // 2 :])
                stored = half.getresponse()
                assert stored.status == 201
                recording = json.loads(stored.read())
                (submitted,) = answers
                assert submitted.status_code == 202, submitted.text
                until(lambda: is_gone(orphan))
                assert made(host) == (2, 1)
                again = second.upload(SOUND, key="upload")
                assert (again.status_code, again.json()) == (201, recording)
                again = second.submit(recording_id, key="job")
                assert (again.status_code, again.json()) == (202, submitted.json())
                assert made(host) == (2, 1)
    assert incoming(host) == []
    host.check()


def child_of(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@pytest.mark.skipif("OMNAI_TEST_LONG" not in os.environ, reason="takes long")
def test_a_serve_whose_server_is_killed_fails_and_the_next_one_answers_at_the_same_address(
    database_url: str, valkey_url: str, tmp_path: Path
) -> None:
    settings = Settings(
        data_dir=tmp_path / "data",
        database_url=database_url,
        redis_url=valkey_url,
        bind=f"127.0.0.1:{free_port()}",
    )
    for is_killed in (True, False):
        serve = subprocess.Popen(
            [sys.executable, "-m", "omnai", "serve"],
            cwd=ROOT,
            env=os.environ | settings.to_environment(),
            start_new_session=True,
        )
        try:
            with httpx.Client(base_url=f"http://{settings.bind}") as http:
                await_ready(http)
            master = child_of(serve.pid)
            worker = child_of(master)
            if is_killed:
                os.kill(master, signal.SIGKILL)
                assert serve.wait(timeout=60) != 0
            else:
                serve.terminate()
                assert serve.wait(timeout=60) == 0
            until(lambda worker=worker: is_gone(worker))  # type: ignore[misc]
        finally:
            serve.kill()
            serve.wait()
