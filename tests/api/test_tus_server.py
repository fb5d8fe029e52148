"""Uploads in parts to a real server, which is killed too, by a client that others wrote."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError, TusUploadFailed

from api import make_app, parts
from api.parts import SYNC_BYTES
from api.service import EXTENSION, Service
from omnai.processes import api_command, environment
from pipeline.ledger import keys
from pipeline.ledger.database import connect
from pipeline.ledger.keys import Role
from pipeline.settings import Settings
from tests.service import await_ready, free_port

PART_TYPE = "application/offset+octet-stream"
TAIL_BYTES = 8 << 20


class Server:
    """The API as `omnai serve` starts it, with one place for uploads and one to wait in."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.settings, self._log = settings, log
        self.url = f"http://{settings.bind}"
        database = connect(str(settings.database_url))
        _, secret = keys.create(database, owner="ada", role=Role.ANALYST, label="", expires_at=None)
        database.dispose()
        self.headers = {"Authorization": f"Bearer {secret}", "Tus-Resumable": "1.0.0"}
        self.http = httpx.Client(base_url=self.url, headers=self.headers, timeout=60)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                api_command(self.settings),
                env=environment(self.settings),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await_ready(self.http)

    def kill(self) -> None:
        """Master and worker at once, as a loss of power takes them."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(60) == 0
        assert "Traceback" not in self._log.read_text()

    def client(self) -> TusClient:
        return TusClient(f"{self.url}/v1/uploads", headers=self.headers)

    def begin(self, length: int) -> str:
        answer = self.http.post("/v1/uploads", headers={"Upload-Length": str(length)})
        return str(answer.headers["Location"])

    def offset(self, place: str) -> int:
        return int(self.http.head(place).headers["Upload-Offset"])

    @contextmanager
    def half_sent(self, place: str, data: bytes, length: int) -> Iterator[socket.socket]:
        """A part whose first bytes have gone out, and whose others are still to come."""
        host, _, port = self.settings.bind.rpartition(":")
        with closing(socket.create_connection((host, int(port)), timeout=60)) as raw:
            lines = [f"PATCH {place} HTTP/1.1", "Host: x", f"Content-Length: {length}"]
            lines += [f"Content-Type: {PART_TYPE}", "Upload-Offset: 0", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in self.headers.items()]
            raw.sendall("\r\n".join([*lines, "", ""]).encode() + data)
            yield raw


@pytest.fixture(scope="module")
def server(
    module_database_url: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tus")
    (folder / "data").mkdir()
    made = Server(
        Settings(
            data_dir=folder / "data",
            database_url=module_database_url,
            redis_url=valkey_url,
            bind=f"127.0.0.1:{free_port()}",
            intake_max=1,
            intake_waiting_max=1,
        ),
        folder / "log",
    )
    made.start()
    yield made
    made.stop()
    made.http.close()


@pytest.fixture(scope="module")
def large(sample_bytes: bytes) -> bytes:
    """The sample with a free box behind it: longer than what is synced at once, and still valid."""
    length = SYNC_BYTES + TAIL_BYTES
    return sample_bytes + length.to_bytes(4, "big") + b"free" + bytes(length - 8)


def until(what: Any, *, accepted: Any) -> None:
    for _ in range(600):
        if what() == accepted:
            return
        time.sleep(0.1)
    pytest.fail(f"it is still {what()}, not {accepted}")


@pytest.mark.parametrize("has_checksum", [False, True])
def test_a_client_that_others_wrote_uploads_in_parts(
    server: Server, sample_bytes: bytes, has_checksum: bool
) -> None:
    uploader = server.client().uploader(
        file_stream=io.BytesIO(sample_bytes),
        chunk_size=200_000,
        metadata={"filename": "q3 ü.mp4"},
        upload_checksum=has_checksum,
    )
    uploader.upload()
    seen = server.http.get(uploader.url).json()
    assert (seen["state"], seen["filename"]) == ("kept", "q3 ü.mp4")
    recording = server.http.get(f"/v1/recordings/{seen['recording_id']}").json()
    assert recording["sha256"] == hashlib.sha256(sample_bytes).hexdigest()


def test_a_client_that_others_wrote_is_told_of_a_refusal(server: Server) -> None:
    uploader = server.client().uploader(file_stream=io.BytesIO(b"id,name\n" * 100))
    with pytest.raises(TusUploadFailed) as failed:
        uploader.upload()
    assert failed.value.status_code == 422
    with pytest.raises(TusCommunicationError):
        uploader.get_offset()
    assert server.http.get(uploader.url).json()["refusal"]["status"] == 422


def test_an_upload_goes_on_after_the_server_was_killed_in_the_middle_of_a_part(
    server: Server, large: bytes
) -> None:
    place = server.begin(len(large))
    sent = len(large) - TAIL_BYTES // 2
    with server.half_sent(place, large[:sent], len(large)):
        # What is synced is told while the part still comes.
        until(lambda: server.offset(place) > 0, accepted=True)
        server.kill()
    (file,) = (server.settings.data_dir / "blobs" / "incoming").iterdir()
    assert file.stat().st_size > 0
    server.start()
    offset = server.offset(place)
    assert SYNC_BYTES <= offset <= sent
    assert file.read_bytes()[:offset] == large[:offset]
    uploader = server.client().uploader(
        file_stream=io.BytesIO(large), url=server.url + place, chunk_size=len(large)
    )
    assert uploader.offset == offset
    uploader.upload()
    seen = server.http.get(place).json()
    recording = server.http.get(f"/v1/recordings/{seen['recording_id']}").json()
    assert recording["sha256"] == hashlib.sha256(large).hexdigest()
    assert not file.exists()


def test_a_part_whose_connection_breaks_counts_as_far_as_it_came(
    server: Server, sample_bytes: bytes
) -> None:
    place = server.begin(len(sample_bytes))
    with server.half_sent(place, sample_bytes[:100_000], len(sample_bytes)) as raw:
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(1000).startswith(b"HTTP/1.1 400")
    assert server.offset(place) == 100_000


def test_two_processes_do_not_write_to_one_upload(server: Server, sample_bytes: bytes) -> None:
    place = server.begin(len(sample_bytes))
    here = make_app(replace(server.settings, database_url=server.settings.database_url))
    service: Service = here.extensions[EXTENSION]
    with parts.holding(service, place.rpartition("/")[2]):
        answer = patch(server, place, sample_bytes)
        assert (answer.status_code, answer.json()["code"]) == (423, "upload_busy")
    service.database.dispose()
    assert patch(server, place, sample_bytes).status_code == 204


def test_of_two_parts_at_once_one_wins(server: Server, sample_bytes: bytes) -> None:
    place = server.begin(len(sample_bytes))
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(patch, server, place, sample_bytes[:1000]) for _ in range(2)]
    assert sorted(one.result().status_code for one in asked) in ([204, 409], [204, 423])
    assert server.offset(place) == 1000


def test_a_part_of_unknown_length_takes_no_more_than_is_missing(
    server: Server, sample_bytes: bytes
) -> None:
    def chunks(data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), 50_000):
            yield data[at : at + 50_000]

    place = server.begin(len(sample_bytes))
    long = patch(server, place, chunks(sample_bytes + b"x"))
    assert (long.status_code, long.json()["code"]) == (413, "upload_too_large")
    assert server.offset(place) == 0
    assert patch(server, place, chunks(sample_bytes)).headers["Upload-Recording"]


def test_more_uploads_than_places_wait_and_then_are_told_to_come_back(
    server: Server, sample_bytes: bytes
) -> None:
    place = server.begin(len(sample_bytes))
    with (
        ThreadPoolExecutor() as pool,
        server.half_sent(place, sample_bytes[:1000], len(sample_bytes)) as raw,
    ):
        refused: list[httpx.Response] = []
        waiting = [pool.submit(post, server, sample_bytes) for _ in range(2)]
        until(lambda: sum(one.done() for one in waiting), accepted=1)
        # Of the two, one waits; the other was refused, as is everything that comes from here on.
        refused = [one.result() for one in waiting if one.done()]
        refused.append(patch(server, server.begin(5), b"12345"))
        for answer in refused:
            assert (answer.status_code, answer.json()["code"]) == (503, "intake_busy")
            assert int(answer.headers["Retry-After"]) > 0
        assert server.http.get("/healthz").is_success
        assert server.http.get("/v1/jobs").is_success
        raw.sendall(sample_bytes[1000:])
        answered = http.client.HTTPResponse(raw)
        answered.begin()
        assert answered.status == 204
        statuses = sorted(one.result().status_code for one in waiting)
    assert statuses == [201, 503]


def test_there_are_more_threads_than_requests_that_may_wait() -> None:
    settings = Settings(waiters_max=3, intake_max=5, intake_waiting_max=7)
    command = api_command(settings)
    assert int(command[command.index("--threads") + 1]) > 3 + 5 + 7


def patch(server: Server, place: str, data: Any) -> httpx.Response:
    headers = server.headers | {"Upload-Offset": "0", "Content-Type": PART_TYPE}
    return httpx.patch(server.url + place, headers=headers, content=data, timeout=60)


def post(server: Server, data: bytes) -> httpx.Response:
    headers = server.headers | {"Content-Type": "video/mp4"}
    return httpx.post(f"{server.url}/v1/recordings", headers=headers, content=data, timeout=60)
