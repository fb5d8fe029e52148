"""An S3-compatible server for tests, and one before it that breaks what passes through."""

from __future__ import annotations

import http.client
import http.server
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pipeline.ledger.bucket import Bucket

CREDENTIALS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "test-key-id",
    "AWS_SECRET_ACCESS_KEY": "test-secret-key",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""Where boto3 finds them; the server takes any."""


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server of its own process, so that its memory is not counted as ours."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _await(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError("the server did not come up within 60 s")


def made_bucket(url: str) -> str:
    """The name of a new and empty one."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    client(url).create_bucket(Bucket=name)
    return name


@cache
def client(url: str) -> Any:
    """For what the code under test has no business doing."""
    return Bucket(name="any", prefix="", endpoint=url)._client


@dataclass
class Faults:
    """What the server in between does to what passes."""

    flips: int = 0
    """So many uploads still get another last byte."""
    cuts: list[int] = field(default_factory=list)
    """So many bytes of each next answer to GET come, then the connection ends."""
    silence: threading.Event | None = None
    """Until it is set, no more of an answer to GET comes than so many of its bytes."""
    spoken_bytes: int | None = None
    """None for not even that there is one."""
    asked: list[str] = field(default_factory=list)
    """Methods and paths, and the range where there is one."""


@contextmanager
def breaking(url: str) -> Iterator[tuple[str, Faults]]:
    """The address of a server that passes everything on to `url`, with faults."""
    faults = Faults()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            asked_range = self.headers.get("Range", "")
            faults.asked.append(f"{self.command} {self.path} {asked_range}".strip())
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.command == "PUT" and faults.flips:
                faults.flips -= 1
                body = body[:-1] + bytes([body[-1] ^ 1])
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            silence = faults.silence if self.command == "GET" else None
            if silence is not None and faults.spoken_bytes is None:
                silence.wait(60)
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                    self.send_header(name, value)
            length = answer.headers.get("Content-Length", str(len(content)))
            self.send_header("Content-Length", length)
            cut = faults.cuts.pop(0) if self.command == "GET" and faults.cuts else None
            self.close_connection = True
            self.send_header("Connection", "close")
            with suppress(ConnectionError):
                self.end_headers()
            content = content if cut is None else content[:cut]
            said = 0
            with suppress(ConnectionError):  # nobody may want the rest
                if silence is not None and faults.spoken_bytes is not None:
                    said = self.wfile.write(content[: faults.spoken_bytes])
                    silence.wait(60)
                self.wfile.write(content[said:])

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", faults
    finally:
        if faults.silence is not None:
            faults.silence.set()
        server.shutdown()
        thread.join()
        server.server_close()
