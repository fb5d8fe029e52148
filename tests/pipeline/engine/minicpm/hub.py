"""A model hub of one repository on this machine, which may break off in the middle of a file."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CHUNK = 1 << 16


@dataclass
class Hub:
    """What it serves, how, and what it was asked."""

    repository: str
    revision: str
    files: dict[str, bytes]
    sha: str | None = None
    """The revision that it says it has."""
    breaks_off_after: int | None = None
    """Bytes of a body after which the connection is cut."""
    status: int = 200
    """Of every answer."""
    file_status: int = 200
    """Of every answer about a file."""
    url: str = ""
    gets: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and range of every file that was asked for."""
    tokens: set[str | None] = field(default_factory=set)
    sent: int = 0

    def listing(self) -> dict[str, Any]:
        return {
            "id": self.repository,
            "sha": self.sha or self.revision,
            "siblings": [
                {"rfilename": path, "size": len(content)} for path, content in self.files.items()
            ],
        }


def git_digest(content: bytes) -> str:
    """What the hub calls a file that lies in git itself."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, *, with_body: bool) -> None:
            hub.tokens.add(self.headers.get("Authorization"))
            path = self.path.partition("?")[0]
            if hub.status != 200:
                self.reply(hub.status, b"{}", {}, with_body)
                return
            if path == f"/api/models/{hub.repository}/revision/{hub.revision}":
                body = json.dumps(hub.listing()).encode()
                self.reply(200, body, {"Content-Type": "application/json"}, with_body)
                return
            name = path.removeprefix(f"/{hub.repository}/resolve/{hub.revision}/")
            if name not in hub.files:
                self.reply(404, b"", {"X-Error-Code": "EntryNotFound"}, with_body)
                return
            if hub.file_status != 200:
                self.reply(hub.file_status, b"", {}, with_body)
                return
            self.file(name, hub.files[name], with_body)

        def file(self, name: str, content: bytes, with_body: bool) -> None:
            asked = self.headers.get("Range")
            headers = {
                "ETag": f'"{git_digest(content)}"',
                "X-Repo-Commit": hub.revision,
            }
            status = 200
            if with_body:
                hub.gets.append((name, asked))
            if asked is not None:
                first = int(asked.removeprefix("bytes=").rstrip("-"))
                headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
                content, status = content[first:], 206
            self.reply(status, content, headers, with_body)

        def reply(
            self, status: int, body: bytes, headers: Mapping[str, str], with_body: bool
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if not with_body:
                return
            stop = hub.breaks_off_after
            for at in range(0, len(body), CHUNK):
                if stop is not None and at >= stop:
                    self.close_connection = True
                    return
                self.wfile.write(body[at : at + CHUNK])
                hub.sent += len(body[at : at + CHUNK])

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return Handler


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
