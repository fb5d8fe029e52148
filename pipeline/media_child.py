"""Starts the media process, reads its messages under a deadline, and ends it."""

from __future__ import annotations

import contextlib
import fcntl
import io
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

from pipeline.characters import is_control
from pipeline.errors import MediaStopped, OmnaiError, RecordingRefused
from pipeline.plain import to_plain
from pipeline.records import Coming, Gap, MediaEnd, MediaEvent, Probe, Unit
from pipeline.settings import MediaLimits
from pipeline.wire import (
    BrokenOff,
    Failure,
    MediaRequest,
    Message,
    Order,
    Pulse,
    Refusal,
    WireError,
    decode,
    length,
)

ROOT = Path(__file__).resolve().parents[1]

CLOSE_S = 2.0
"""How long a process that was told to go may take before it is killed."""

LOOK_S = 0.05
"""How long the rest of a message that has begun may take where nothing waits for it: it is written
in one go, as fast as it is read."""

ROOM_BYTES = 256 * 1024
"""Of the pipe where the next unit is looked for: a unit of some 100,000 bytes, and the next one's
beginning, without which the process would only begin with it once this one is read."""

ROUNDING_S = 2
"""Seconds that the clock's zero and the last unit's padding may add to what the packets said."""

FAULT_CHARS_MAX = 4000
"""Of a fault's own words, which end in a log."""

CAPABILITIES_S = 60.0

KEPT_BYTES_MAX = 4 * 1024**2
"""Of memory that the media process has freed, how much may stay with it; a larger piece, as two
pictures of 1080p, goes back at once."""

SKIPPED_SHARE = 1 / 50
"""Of a second's wall time, what a second before the wanted start may take: only its sound is
decoded, and that runs at hundreds of times its own speed."""


class _Silent(Exception):
    """Nothing came within the deadline."""


class _Stretch:
    """Wall time spent waiting for one thing; what the caller does in between is not counted."""

    def __init__(self, limit_s: float, code: str, what: str) -> None:
        self._left_s = limit_s
        self._code = code
        self._message = f"{what} took more than {limit_s:g} s"

    def spend(self, seconds: float) -> tuple[str, str] | None:
        """The code and message of the limit, where it is passed."""
        self._left_s -= seconds
        return (self._code, self._message) if self._left_s < 0 else None


class MediaChild:
    """One media process over one recording; the OS pipe between them holds a unit or two.

    Iterating gives Probe, then Unit and Gap in order, then MediaEnd; once. Raises RecordingRefused
    where the recording cannot be analysed, MediaStopped where the process crashed, hung or met a
    limit (what came before stays valid), OmnaiError for a fault of OmnAI's own.

    Where it `tells_coming`, Coming goes before a unit whose successor has arrived too; nothing is
    waited for, and what is wrong with the successor is raised in its turn.
    """

    _program: tuple[str, ...] = ("pipeline.media",)

    def __init__(
        self,
        path: Path,
        *,
        limits: MediaLimits,
        longest_edge_px: int,
        start_s: int = 0,
        audio_stream: int | None = None,
        video_stream: int | None = None,
        is_probe_only: bool = False,
        tells_coming: bool = False,
    ) -> None:
        request = MediaRequest(
            path=str(path.resolve()),
            start_s=start_s,
            longest_edge_px=longest_edge_px,
            limits=limits,
            audio_stream=audio_stream,
            video_stream=video_stream,
            is_probe_only=is_probe_only,
        )
        self._limits = limits
        self._start_s = start_s
        self._is_probe_only = is_probe_only
        self._tells_coming = tells_coming
        self._arrived = bytearray()
        """Read from the pipe and of a message that is not taken yet."""
        self._coming: Message | None = None
        """The next message, where it was read before its turn."""
        self._order = Order(start_s=start_s)
        self._units = 0
        self._silence_s = limits.silence_s
        self._last_source_ms: int | None = None
        self._process = self._start(json.dumps(to_plain(request)))

    def _start(self, argument: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", *self._program, argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=_environment(),
            start_new_session=True,  # Ctrl-C in a terminal is the parent's to answer
        )
        if self._tells_coming and sys.platform == "linux":
            assert process.stdout is not None
            with contextlib.suppress(OSError):  # a user may have only so much of it
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, ROOM_BYTES)
        return process

    def __enter__(self) -> MediaChild:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[MediaEvent]:
        stretch = _Stretch(self._limits.scan_s, "scan_too_slow", "reading the file's time stamps")
        while True:
            began = time.monotonic()
            message = self._next()
            passed = stretch.spend(time.monotonic() - began)
            match message:
                case Pulse() if passed is not None:
                    self._process.kill()
                    raise self._stopped(*passed)
                case Pulse():
                    continue
                case Refusal() if self._last_source_ms is not None:
                    raise self._stopped(message.code, message.message)  # something was fed from it
                case Refusal():
                    raise RecordingRefused(message.code, message.message)
                case Failure():
                    raise OmnaiError(f"the media process failed:\n{_readable(message.traceback)}")
                case Unit():
                    self._check_length(message)
                    self._last_source_ms = message.end_ms
                    stretch = self._second()
                    if self._tells_coming:
                        yield from self._look()
                    yield message
                case Probe():
                    stretch = self._second(skipped_s=self._start_s)
                    yield message
                    if self._is_probe_only:
                        return
                case Gap():
                    yield message
                case MediaEnd():
                    yield message
                    return  # how it leaves now changes nothing

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End it at once, from any thread or signal handler; what it had sent may be cut off."""
        self._process.kill()

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

    def _check_length(self, unit: Unit) -> None:
        """Damaged or forged time stamps can hide from the first pass how much there is."""
        limits = self._limits
        self._units += 1
        for seconds, most, code, what in (
            (unit.second, limits.span_s, "span_too_long", "seconds from first to last"),
            (self._units, limits.duration_s, "too_long", "seconds of content"),
        ):
            if seconds > most + ROUNDING_S:
                self._process.kill()
                raise self._stopped(code, f"it has more than the {most:,} {what} accepted")

    def _second(self, *, skipped_s: int = 0) -> _Stretch:
        limit_s = self._limits.second_s * (1 + skipped_s * SKIPPED_SHARE)
        return _Stretch(limit_s, "decoding_too_slow", "decoding one source second")

    def _look(self) -> Iterator[Coming]:
        if self._has_next():
            with contextlib.suppress(WireError):
                self._coming = decode(io.BytesIO(self._arrived).read)
                self._arrived.clear()
        if isinstance(self._coming, Unit):
            yield Coming(unit=self._coming)

    def _has_next(self) -> bool:
        """Whether all of the next message is here. For one that has not begun it waits not at all,
        for the rest of another a moment."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + LOOK_S
        with selectors.DefaultSelector() as selector, contextlib.suppress(WireError):
            selector.register(descriptor, selectors.EVENT_READ)
            while missing := length(self._arrived) - len(self._arrived):
                left_s = deadline - time.monotonic() if self._arrived else 0.0
                part = os.read(descriptor, missing) if selector.select(max(left_s, 0.0)) else b""
                if not part:
                    return False
                self._arrived += part
            return True
        return False

    def _next(self) -> Message:
        try:
            coming, self._coming = self._coming, None
            message = coming or decode(self._read_exactly)
            if message is None:
                raise BrokenOff("the stream ends before its end")
            self._order.take(message)
        except _Silent:
            self._process.kill()
            raise self._stopped(
                "decoder_hung", f"the decoder was silent for {self._silence_s:g} s"
            ) from None
        except WireError as error:
            # A crash breaks off; so would hostile code, which is not believed either.
            raise self._stopped(*self._why_it_ended(error)) from error
        return message

    def _read_exactly(self, length: int) -> bytes:
        """Up to `length` bytes; waits at most the deadline for each piece."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        parts = [bytes(self._arrived[:length])]
        del self._arrived[:length]
        length -= len(parts[0])
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

    def _why_it_ended(self, error: WireError) -> tuple[str, str]:
        is_stray = not isinstance(error, BrokenOff)
        try:
            is_stray = self._process.wait(timeout=CLOSE_S) == 0 and is_stray
        except subprocess.TimeoutExpired:
            is_stray = True
            self._process.kill()
        if is_stray:
            return "decoder_crashed", "the decoder stopped making sense and was ended"
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


def _readable(text: str) -> str:
    """Words of a process that is not trusted, for a log: no control characters, and bounded."""
    shown = "".join(c if c == "\n" or not is_control(c) else "\ufffd" for c in text)
    return shown if len(shown) <= FAULT_CHARS_MAX else "…" + shown[-FAULT_CHARS_MAX:]


def _environment() -> dict[str, str]:
    """Nothing of ours: no settings, tokens or URLs reach the process that reads hostile bytes."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ")
        if name in os.environ
    }
    return kept | {
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
        "MALLOC_ARENA_MAX": "2",  # one heap per thread would use up the address space
        # Set, they stay: by itself glibc keeps for later what the index of a long file took once.
        "MALLOC_MMAP_THRESHOLD_": str(KEPT_BYTES_MAX),
        "MALLOC_TRIM_THRESHOLD_": str(KEPT_BYTES_MAX),
        "OPENBLAS_NUM_THREADS": "1",  # a thread that runs already is outside what is confined later
    }
