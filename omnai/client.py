"""A client of the HTTP API, as any program would be one."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx

from omnai.sending import Sending
from pipeline.errors import InputRefused, OmnaiError, Problem

CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 300.0
"""An upload is answered once it has been probed, and a large file takes a while to read."""
WAIT_S = 30
PAUSE_S = 1.0
CHUNK_BYTES = 1 << 20

ENDED = frozenset({"succeeded", "failed", "canceled"})


class ApiUnreachable(OmnaiError):
    """The API cannot be reached; is `omnai serve` running there?"""

    code = "api_unreachable"


class ApiFailed(OmnaiError):
    """The API failed."""

    code = "api_failed"

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class Client:
    """One connection to one API with one key. Refusals are raised as InputRefused."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}", "User-Agent": "omnai"},
            timeout=httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            trust_env=False,  # a proxy would see the key
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def upload(self, file: Path, on_bytes: Callable[[int], None]) -> dict[str, Any]:
        """Send a recording; `on_bytes` is told how much more of it has gone, or less.

        Goes on after an interruption.
        """
        with file.open("rb") as source:
            return self.upload_open(source, file.name, on_bytes)

    def upload_open(
        self, source: BinaryIO, name: str, on_bytes: Callable[[int], None]
    ) -> dict[str, Any]:
        """The same for a file that is open already, under a name that need not be its own."""
        return Sending(self._send, source, name, on_bytes).run()

    def submit(self, submission: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Ask for a job; safe to repeat on a broken connection, because it carries a key."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return self._json("POST", "/v1/jobs", json=dict(submission), headers=headers)

    def job(self, job_id: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/jobs/{quote(job_id, safe='')}")

    def jobs(self, *, state: str | None, limit: int) -> list[dict[str, Any]]:
        """The newest jobs, up to `limit`."""
        return self._listed("/v1/jobs", "jobs", {"state": state} if state else {}, limit=limit)

    def watch(self, job_id: str) -> Iterator[dict[str, Any]]:
        """The job now and at each change, until it has ended."""
        etag: str | None = None
        while True:
            headers = {"Prefer": f"wait={WAIT_S}"}
            if etag is not None:
                headers["If-None-Match"] = etag
            asked = time.monotonic()
            answer = self._send("GET", f"/v1/jobs/{quote(job_id, safe='')}", headers=headers)
            if answer.status_code != httpx.codes.NOT_MODIFIED:
                etag = answer.headers.get("ETag")
                job: dict[str, Any] = answer.json()
                yield job
                if job["state"] in ENDED:
                    return
            # Where too many wait already, the answer comes at once.
            time.sleep(max(0.0, PAUSE_S - (time.monotonic() - asked)))

    def findings(self, job_id: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/jobs/{quote(job_id, safe='')}/findings")

    def brief(self, job_id: str, form: str) -> bytes:
        parts: list[bytes] = []
        self.write_brief(job_id, form, parts.append)
        return b"".join(parts)

    def write_brief(
        self,
        job_id: str,
        form: str,
        write: Callable[[bytes], object],
        *,
        against: str | None = None,
    ) -> None:
        """Hand the brief on piece by piece: one with its pictures may be large."""
        path = f"/v1/jobs/{quote(job_id, safe='')}/brief"
        query = {"format": form} | ({"against": against} if against else {})
        with self._answered("GET", path, params=query) as answer:
            for part in answer.iter_bytes(CHUNK_BYTES):
                write(part)

    def note(self, job_id: str, key: str, *, action: str, text: str) -> dict[str, Any]:
        return self._json(
            "POST",
            f"/v1/jobs/{quote(job_id, safe='')}/findings/{quote(key, safe='')}/notes",
            json={"action": action, "text": text},
            headers={"Idempotency-Key": str(uuid.uuid4())},
        )

    def search(self, filters: Mapping[str, str], *, limit: int) -> list[dict[str, Any]]:
        """The newest findings that fit, up to `limit`."""
        return self._listed("/v1/findings", "findings", filters, limit=limit)

    def cancel(self, job_id: str) -> dict[str, Any]:
        return self._json("POST", f"/v1/jobs/{quote(job_id, safe='')}/cancel")

    def delete_job(self, job_id: str) -> None:
        self._send("DELETE", f"/v1/jobs/{quote(job_id, safe='')}")

    def keep_job(self, job_id: str, *, until: str | None) -> dict[str, Any]:
        path = f"/v1/jobs/{quote(job_id, safe='')}"
        return self._json("PATCH", path, json={"keep_until": until})

    def hold_job(self, job_id: str, *, is_held: bool) -> dict[str, Any]:
        method = "POST" if is_held else "DELETE"
        return self._json(method, f"/v1/jobs/{quote(job_id, safe='')}/hold")

    def recordings(self, *, is_held: bool, limit: int) -> list[dict[str, Any]]:
        """The newest recordings, up to `limit`; of all, or only those under legal hold."""
        filters = {"held": "true"} if is_held else {}
        return self._listed("/v1/recordings", "recordings", filters, limit=limit)

    def hold_recording(self, recording_id: str, *, is_held: bool) -> dict[str, Any]:
        method = "POST" if is_held else "DELETE"
        return self._json(method, f"/v1/recordings/{quote(recording_id, safe='')}/hold")

    def queue(self) -> dict[str, Any]:
        return self._json("GET", "/v1/queue")

    def set_queue(self, action: str) -> dict[str, Any]:
        """`pause`, `drain` or `resume`; the state that the queue is in then."""
        return self._json("POST", f"/v1/queue/{action}")

    def night(self, *, since: str | None, until: str | None) -> dict[str, Any]:
        asked = {"since": since, "until": until}
        query = {name: at for name, at in asked.items() if at is not None}
        return self._json("GET", "/v1/night", params=query)

    def rerun(self, job_id: str, *, start: str | int, reason: str) -> dict[str, Any]:
        return self._json(
            "POST",
            f"/v1/jobs/{quote(job_id, safe='')}/epochs",
            json={"from": start, "reason": reason},
            headers={"Idempotency-Key": str(uuid.uuid4())},
        )

    def _listed(
        self, path: str, name: str, filters: Mapping[str, str], *, limit: int
    ) -> list[dict[str, Any]]:
        """Page after page."""
        found: list[dict[str, Any]] = []
        after: str | None = None
        while len(found) < limit:
            query: dict[str, Any] = {"limit": min(limit - len(found), 100), **filters}
            query |= {"after": after} if after else {}
            page = self._json("GET", path, params=query)
            found += page[name]
            after = page["next"]
            if after is None:
                break
        return found

    def _json(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._send(method, path, **request).json()
        return answer

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        with self._answered(method, path, **request) as answer:
            answer.read()
        return answer

    @contextlib.contextmanager
    def _answered(self, method: str, path: str, **request: Any) -> Iterator[httpx.Response]:
        """An answer whose content is still to come."""
        try:
            with self._http.stream(method, path, **request) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refusal(answer)
                yield answer
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Not the library's text: it may carry the address with what stands in it.
            raise ApiUnreachable(f"{ApiUnreachable.__doc__} ({type(error).__name__})") from None


def _refusal(answer: httpx.Response) -> OmnaiError:
    """A problem document as the error that a local command would have raised."""
    body: dict[str, Any] = {}
    with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError):
        read = answer.json()
        body = read if isinstance(read, dict) else {}
    code = str(body.get("code", f"http_{answer.status_code}"))
    detail = str(body.get("detail", f"the API answered {answer.status_code}"))
    if answer.is_server_error:
        return ApiFailed(code, detail)
    listed = body.get("errors") or [{"code": code, "detail": detail}]
    return InputRefused(
        *(
            Problem(
                code=str(entry.get("code", code)),
                where=str(entry.get("pointer") or entry.get("parameter") or ""),
                message=str(entry.get("detail", detail)),
            )
            for entry in listed
        )
    )
