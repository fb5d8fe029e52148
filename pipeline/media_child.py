"""Starts the media process, reads its messages under a deadline, and ends it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeline.errors import MediaStopped, OmnaiError, RecordingRefused
from pipeline.plain import to_plain
from pipeline.records import Gap, MediaEnd, Probe, Unit
from pipeline.settings import MediaLimits
from pipeline.wire import Failure, MediaRequest, Message, Pulse, Refusal, WireError, decode

ROOT = Path(__file__).resolve().parents[1]

CLOSE_S = 2.0
"""How long a process that was told to go may take before it is killed."""

CAPABILITIES_S = 60.0


class _Silent(Exception):
    """Nothing came within the deadline."""


class MediaChild:
    """One media process over one recording; the OS pipe between them holds at most one unit.

    Iterating gives Probe, then Unit and Gap in order, then MediaEnd. Raises RecordingRefused where
    the recording cannot be analysed, MediaStopped where the process crashed, hung or met a limit
    (what came before stays valid), OmnaiError for a fault of OmnAI's own.
    """

    def __init__(
        self,
        path: Path,
        *,
        limits: MediaLimits,
        longest_edge_px: int,
        start_s: int = 0,
        is_probe_only: bool = False,
    ) -> None:
        request = MediaRequest(
            path=str(path.resolve()),
            start_s=start_s,
            longest_edge_px=longest_edge_px,
            limits=limits,
            is_probe_only=is_probe_only,
        )
        self._silence_s = limits.silence_s
        self._last_source_ms: int | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-m", "pipeline.media", json.dumps(to_plain(request))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=_environment(),
            start_new_session=True,  # Ctrl-C in a terminal is the parent's to answer
        )

    def __enter__(self) -> MediaChild:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Probe | Unit | Gap | MediaEnd]:
        while True:
            message = self._next()
            match message:
                case None:
                    return
                case Pulse():
                    continue
                case Refusal() if self._last_source_ms is not None:
                    raise self._stopped(message.code, message.message)  # something was fed from it
                case Refusal():
                    raise RecordingRefused(message.code, message.message)
                case Failure():
                    raise OmnaiError(f"the media process failed:\n{message.traceback}")
                case Unit():
                    self._last_source_ms = message.end_ms
                    yield message
                case Probe() | Gap() | MediaEnd():
                    yield message

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End the process; idempotent."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(OSError):
                process.stdin.close()  # it leaves when this end closes
        if process.poll() is None:
            try:
                process.wait(timeout=CLOSE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _next(self) -> Message | None:
        try:
            message = decode(self._read_exactly)
        except _Silent:
            self._process.kill()
            raise self._stopped(
                "decoder_hung", f"the decoder was silent for {self._silence_s:g} s"
            ) from None
        except WireError as error:
            # A crash breaks a message off; so would hostile code, which is not believed either.
            self._process.kill()
            self._process.wait()
            raise self._stopped(*self._why_it_ended()) from error
        if message is None and self._process.wait() != 0:
            raise self._stopped(*self._why_it_ended())
        return message

    def _read_exactly(self, length: int) -> bytes:
        """Up to `length` bytes; waits at most the deadline for each piece."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        parts: list[bytes] = []
        deadline = time.monotonic() + self._silence_s
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while length > 0:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise _Silent
                part = os.read(descriptor, min(length, 1 << 20))
                if not part:
                    break
                parts.append(part)
                length -= len(part)
        return b"".join(parts)

    def _stopped(self, code: str, message: str) -> MediaStopped:
        at = self._last_source_ms
        where = "before the first unit" if at is None else f"after source time {at / 1000:.3f} s"
        return MediaStopped(code, f"{message}, {where}", last_source_ms=at)

    def _why_it_ended(self) -> tuple[str, str]:
        if self._process.returncode == -signal.SIGXCPU:
            return "cpu_limit", "decoding used up its processor time"
        return "decoder_crashed", self._how_it_ended()

    def _how_it_ended(self) -> str:
        code = self._process.returncode
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return f"the decoder crashed ({signal.Signals(-code).name})"
        return f"the decoder ended with status {code}"


def ask_capabilities() -> dict[str, Any]:
    """Versions, decoders and demuxers of the decoder library; OmnaiError where it cannot load."""
    try:
        asked = subprocess.run(
            [sys.executable, "-B", "-m", "pipeline.media.capabilities"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=ROOT,
            env=_environment(),
            timeout=CAPABILITIES_S,
            check=True,
        )
        answer: dict[str, Any] = json.loads(asked.stdout)
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise OmnaiError(f"the decoder library does not load: {''.join(last)}") from error
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise OmnaiError("the decoder library does not answer") from error
    return answer


def _environment() -> dict[str, str]:
    """Nothing of ours: no settings, tokens or URLs reach the process that reads hostile bytes."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ")
        if name in os.environ
    }
    # One heap per thread would use up the address space; -B and this keep it from writing files.
    return kept | {"MALLOC_ARENA_MAX": "2", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
