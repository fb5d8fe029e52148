"""`omnai demo` as a person runs it: what it shows, and that nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from omnai.services import EmbeddedServices
from pipeline.ledger import jobs, keys, views
from pipeline.ledger.database import connect
from tests.processes import needs_proc

pytestmark = needs_proc

LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in\?token=\S+")


@dataclass
class Demo:
    """One installation in which demos run."""

    data: Path
    out: Path

    @contextmanager
    def run(self) -> Iterator[subprocess.Popen[str]]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            bind = f"127.0.0.1:{probe.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "omnai", "demo", "--out", str(self.out)],
            env=os.environ | {"OMNAI_DATA_DIR": str(self.data), "OMNAI_BIND": bind},
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group of its own, as a shell gives it
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate()

    def left(self) -> list[str]:
        """Command lines of whatever still runs on the data folder."""
        mark = str(self.data).encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and entry.name != str(os.getpid()):
                    command = (entry / "cmdline").read_bytes()
                    if mark in command or mark in (entry / "environ").read_bytes():
                        found.append(command.replace(b"\0", b" ").decode())
        return found

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in (self.data / "logs").glob("*.log"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    root = tmp_path_factory.mktemp("demo")
    return Demo(data=root / "data", out=root / "out")


def port_of(link: str) -> int:
    port = urlsplit(link).port
    assert port is not None
    return port


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_demo_shows_findings_and_a_link_writes_the_briefs_and_ends_what_it_started(
    demo: Demo,
) -> None:
    with demo.run() as process:
        said, warned = process.communicate(timeout=120)
    assert (process.returncode, warned) == (0, ""), f"{said}\n{demo.logs()}"
    (link,) = LINK.findall(said)
    assert "succeeded: 7 findings in 1:12" in said
    assert "EQ-001" in said
    assert "Rehearsal measured" in said
    for form in ("html", "md", "json"):
        assert str(demo.out / f"brief.{form}") in said
        assert (demo.out / f"brief.{form}").stat().st_size > 1000
    # Not a line of a library's or of our log is among these.
    assert "INFO" not in said
    assert "Warm shutdown" not in said
    assert demo.left() == []
    assert not is_listening(port_of(link))
    assert not (demo.data / "services" / "kept").exists()


def test_ctrl_c_in_the_middle_leaves_no_process_no_key_and_no_waiting_job(demo: Demo) -> None:
    with demo.run() as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("submitted"):
                break
        (link,) = LINK.findall("".join(lines))
        with httpx.Client(trust_env=False) as browser:
            assert browser.get(link, follow_redirects=True).status_code == 200
        os.killpg(process.pid, signal.SIGINT)
        said, warned = process.communicate(timeout=60)
    assert process.returncode == 130, f"{said}\n{warned}\n{demo.logs()}"
    assert said.splitlines()[-1] == "interrupted; everything that was started has ended"
    assert warned == ""
    assert demo.left() == []
    assert not is_listening(port_of(link))

    with EmbeddedServices(demo.data / "services").in_use() as services:
        assert services.postgres.url is not None
        database = connect(services.postgres.url)
        try:
            assert all(key.revoked_at is not None for key in keys.listed(database))
            found, _ = views.page(database, owner=None, state=None, after=None, limit=10)
            assert len(found) == 2
            assert {job.state for job in found} <= jobs.ENDED
        finally:
            database.dispose()
    assert demo.left() == []
