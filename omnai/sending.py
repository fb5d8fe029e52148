"""A recording on its way to the API, in parts, so that a broken connection costs only its last."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import httpx

from pipeline.errors import InputRefused, OmnaiError, Problem

CHUNK_BYTES = 1 << 20

PAUSES_S = (1, 2, 4, 8, 16, *(30,) * 9)
"""Between attempts that bring nothing forward: five minutes, in which anything is restarted."""

CHECKING_S = 1.0

VERSION = {"Tus-Resumable": "1.0.0"}

PASSING = frozenset(
    {
        "api_unreachable",
        "blobs_unavailable",
        "database_unavailable",
        "http_502",
        "http_503",
        "http_504",
        "intake_busy",
        "upload_broken_off",
        "upload_busy",
        "upload_offset_wrong",
    }
)
"""What a later attempt may not meet; `http_…` are those of a proxy in between."""


class Sending:
    """One file; `send` makes one request and raises what the API refuses."""

    def __init__(
        self,
        send: Callable[..., httpx.Response],
        source: BinaryIO,
        name: str,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._send = send
        self._source = source
        self._name = name
        self._on_bytes = on_bytes
        self._length_bytes = source.seek(0, os.SEEK_END)
        self._told_bytes = 0

    def run(self) -> dict[str, Any]:
        """The recording. Goes on from where the API has it until nothing moves for minutes."""
        place = self._begin()
        seen: dict[str, Any] = {"state": "receiving", "offset_bytes": 0}
        reached, failures = 0, 0
        while True:
            try:
                if seen["state"] == "kept":
                    kept: dict[str, Any] = self._get(f"/v1/recordings/{seen['recording_id']}")
                    return kept
                self._go_on(place, seen)
                seen = self._get(place)
            except OmnaiError as error:
                if not _is_passing(error) or failures == len(PAUSES_S):
                    raise
                time.sleep(PAUSES_S[failures])
                failures += 1
                seen = {"state": "unknown"}
            if seen.get("offset_bytes", 0) > reached:
                reached, failures = seen["offset_bytes"], 0

    def _begin(self) -> str:
        name = base64.b64encode(self._name.encode("utf-8", "replace")).decode()
        headers = {"Upload-Length": str(self._length_bytes), "Upload-Metadata": f"filename {name}"}
        return str(self._send("POST", "/v1/uploads", headers=VERSION | headers).headers["Location"])

    def _go_on(self, place: str, seen: dict[str, Any]) -> None:
        if seen["state"] == "receiving":
            self._put(place, seen["offset_bytes"])
        elif seen["state"] == "checking":
            time.sleep(CHECKING_S)
        elif seen["state"] == "refused":
            refusal = seen["refusal"]
            problem = Problem(code=refusal["code"], where="", message=refusal["detail"])
            raise InputRefused(problem)

    def _put(self, place: str, offset_bytes: int) -> None:
        headers = {
            "Content-Length": str(self._length_bytes - offset_bytes),
            "Content-Type": "application/offset+octet-stream",
            "Upload-Offset": str(offset_bytes),
        }
        self._send("PATCH", place, headers=VERSION | headers, content=self._chunks(offset_bytes))

    def _chunks(self, offset_bytes: int) -> Iterator[bytes]:
        self._source.seek(offset_bytes)
        self._on_bytes(offset_bytes - self._told_bytes)  # back where something was lost
        self._told_bytes = offset_bytes
        while chunk := self._source.read(CHUNK_BYTES):
            yield chunk
            self._on_bytes(len(chunk))
            self._told_bytes += len(chunk)

    def _get(self, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._send("GET", path).json()
        return answer


def _is_passing(error: OmnaiError) -> bool:
    if isinstance(error, InputRefused):
        return all(problem.code in PASSING for problem in error.problems)
    return error.code in PASSING
