"""The contract of every engine: one session over one epoch, one unit at a time."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pipeline.clock import SAMPLES_PER_UNIT
from pipeline.errors import EngineError, EpochUncertain, SessionStopped, UnitRefused
from pipeline.records import (
    FRAME_BYTES_MAX,
    Decision,
    EngineInfo,
    Reply,
    SessionContext,
    SessionEnd,
    Unit,
)

DRAIN_UNITS_MAX = 8
"""Synthetic units that may finish an open utterance (docs: model interface, "Natural drain")."""

REPLIES_KEPT = 16
"""Answers kept to repeat without a second call (docs: model interface, "Stop, failure")."""

FRAME_EDGE_MAX_PX = 1920
FRAME_PIXELS_MAX = 1920 * 1080

PCM_BYTES = SAMPLES_PER_UNIT * 4
SILENCE = bytes(PCM_BYTES)


def payload_sha256(pcm: bytes, jpeg: bytes | None) -> str:
    """Digest of what one unit feeds: its samples, then its encoded frame where it has one."""
    digest = hashlib.sha256(pcm)
    if jpeg is not None:
        digest.update(jpeg)
    return digest.hexdigest()


class Engine(ABC):
    """Loaded once in a process; opens one session after another, never two at once.

    All calls, and all calls on its sessions except `Session.stop`, come from the thread that opened
    the session.
    """

    @abstractmethod
    def describe(self) -> EngineInfo:
        """What it is and the settings it runs with; costs nothing and may be called at any time."""

    @abstractmethod
    def open(self, context: SessionContext) -> Session:
        """Reset all state of earlier sessions, take in the prompt, and return a session.

        Opening again with the same context before the first unit is fed gives the same session.
        Raises EngineError while another session is open, SessionStopped when stopped meanwhile,
        EpochUncertain when the engine failed half-way.
        """

    @property
    def is_lost(self) -> bool:
        """Whether a reset failed: nothing is opened again, and the process must be replaced."""
        return False

    def stop_opening(self) -> None:  # noqa: B027 - most engines open at once
        """Ask an `open` in progress to end with SessionStopped; returns at once, from any thread.

        Without effect at any other time.
        """


class Session(ABC):
    """One epoch inside the engine.

    Order: `step` for every unit, then `drain` once at the source's natural end, then `close`.
    `stop` may come at any moment from any thread. After EpochUncertain or SessionStopped only
    `close` is left; it is idempotent, always resets the engine and frees it for the next session.
    """

    def __init__(self, context: SessionContext) -> None:
        self.context = context
        self._thread = threading.get_ident()
        self._stop = threading.Event()
        self._kept: OrderedDict[int, Reply] = OrderedDict()
        self._next_sequence = 0
        self._next_second: int | None = None
        self._is_over = False
        self._is_draining = False
        self._end: SessionEnd | None = None

    # --- for the loop

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has been fed yet."""
        return self._next_sequence == 0 and not self._is_over

    @property
    def is_closed(self) -> bool:
        return self._end is not None

    def step(self, unit: Unit, *, epoch: int, sequence: int) -> Reply:
        """Feed one unit and return what the engine made of it.

        An exact repeat of one of the last 16 units is answered from memory. Raises UnitRefused
        (nothing was fed, the session is unchanged), SessionStopped, or EpochUncertain (something
        was fed and the outcome is unknown). A stop during the call discards its output.
        """
        handed_over = time.monotonic()
        self._check_caller()
        payload = payload_sha256(unit.pcm, unit.frame.jpeg if unit.frame else None)
        repeat = self._admit(unit, payload, epoch=epoch, sequence=sequence)
        if repeat is not None:
            return repeat
        began = time.monotonic()
        self._take_in(unit)
        handed_over += time.monotonic() - began  # the engine's own work is no waiting
        self._check_alive()
        reply = self._call(unit, payload, sequence=sequence, drain=None, handed_over=handed_over)
        self._next_second = unit.second + 1
        return reply

    def expect(self, unit: Unit) -> None:  # noqa: B027 - most engines have nothing to begin with
        """The unit that most likely follows the next one fed; what it needs may be begun.

        Changes nothing of the session, and never raises: a unit that is refused is refused when it
        is fed.
        """

    def drain(self, *, epoch: int) -> Iterator[Reply]:
        """Feed silence until the engine's buffer is empty and the open utterance has ended.

        Yields at most 8 replies, each before the next unit is fed, so that it can be stored first.
        Yields nothing where nothing is left. Raises as `step` does.
        """
        self._check_caller()
        self._check_epoch(epoch)
        self._is_draining = True
        for drain in range(1, DRAIN_UNITS_MAX + 1):
            self._check_alive()
            if not self._needs_drain():
                return
            yield self._call(
                None,
                payload_sha256(SILENCE, None),
                sequence=self._next_sequence,
                drain=drain,
                handed_over=time.monotonic(),
            )

    def stop(self) -> None:
        """Ask the session to end; returns at once. Idempotent, from any thread."""
        self._stop.set()

    def close(self) -> SessionEnd:
        """Reset the engine and say how the session ended. Idempotent; never raises for a stop.

        Comes from the thread that opened the session, so that it waits for the call in flight.
        """
        if self._end is None:
            self._check_caller()
            self._end = SessionEnd(
                is_audio_consumed=self._is_audio_consumed(), is_utterance_open=self._is_turn_open()
            )
            self._is_over = True
            self._reset()
        return self._end

    # --- for engines

    def _take_in(self, unit: Unit) -> None:  # noqa: B027 - most engines take units as they are
        """Decode an admitted unit before it is fed; nothing of the session may change.

        May raise UnitRefused.
        """

    @abstractmethod
    def _feed(self, unit: Unit | None, *, sequence: int) -> Reply:
        """Feed an admitted unit, or one second of silence where it is None.

        The reply's sequence, drain, payload digest and clocks are filled in by the caller. May
        raise anything; whatever it raises makes the epoch uncertain, unless a stop was asked for.
        """

    @abstractmethod
    def _needs_drain(self) -> bool:
        """Whether real samples or an open utterance are left."""

    @abstractmethod
    def _is_audio_consumed(self) -> bool: ...

    @abstractmethod
    def _is_turn_open(self) -> bool: ...

    @abstractmethod
    def _reset(self) -> None:
        """Forget everything of this session; must return after any failure.

        Where the engine cannot be reset it says so by `Engine.is_lost`.
        """

    # --- inside

    def _call(
        self,
        unit: Unit | None,
        payload: str,
        *,
        sequence: int,
        drain: int | None,
        handed_over: float,
    ) -> Reply:
        began = time.monotonic()
        try:
            made = self._feed(unit, sequence=sequence)
        except BaseException as error:
            self._is_over = True
            if self._stop.is_set():
                raise SessionStopped from error
            if not isinstance(error, Exception):
                raise
            message = f"the engine failed at unit {sequence}: {type(error).__name__}"
            raise EpochUncertain(message) from error
        if self._stop.is_set():
            self._is_over = True
            raise SessionStopped
        reply = replace(
            made,
            sequence=sequence,
            drain=drain,
            payload_sha256=payload,
            queue_wait_ms=(began - handed_over) * 1000,
            inference_ms=(time.monotonic() - began) * 1000,
        )
        self._next_sequence = sequence + 1
        self._kept[sequence] = reply
        if len(self._kept) > REPLIES_KEPT:
            self._kept.popitem(last=False)
        return reply

    def _admit(self, unit: Unit, payload: str, *, epoch: int, sequence: int) -> Reply | None:
        """Check everything before the first native call; return a kept reply for a repeat."""
        self._check_epoch(epoch)
        kept = self._kept.get(sequence)
        if kept is not None and kept.drain is None:
            if kept.payload_sha256 == payload:
                return kept
            raise UnitRefused(
                "conflict", f"unit {sequence} was already fed with another payload; feed it once"
            )
        if sequence != self._next_sequence:
            raise UnitRefused(
                "sequence", f"unit {sequence} is out of order; expected {self._next_sequence}"
            )
        if self._is_draining:
            raise UnitRefused("draining", "the source has ended; no unit may follow the drain")
        if self._next_second is not None and unit.second < self._next_second:
            raise UnitRefused(
                "second", f"source second {unit.second} was passed; at least {self._next_second}"
            )
        check_unit(unit)
        return None

    def _check_caller(self) -> None:
        if threading.get_ident() != self._thread:
            raise EngineError("the engine was called from a thread that did not open the session")

    def _check_epoch(self, epoch: int) -> None:
        if epoch != self.context.epoch:
            raise UnitRefused(
                "epoch", f"epoch {epoch} is not the open one; this is epoch {self.context.epoch}"
            )

    def _check_alive(self) -> None:
        if self._stop.is_set():
            self._is_over = True
            raise SessionStopped
        if self._is_over:
            raise EngineError("the session is over; close it and open a new epoch")


def check_unit(unit: Unit) -> None:
    """Raise UnitRefused where a unit must not reach an engine (design.md, rule 4)."""
    if len(unit.pcm) != PCM_BYTES:
        raise UnitRefused(
            "samples", f"{len(unit.pcm)} bytes of audio; a unit has {SAMPLES_PER_UNIT} float32"
        )
    counted = unit.real_samples + unit.filled_samples + unit.synthetic_samples
    if counted != SAMPLES_PER_UNIT:
        raise UnitRefused("samples", f"its counts add up to {counted}, not {SAMPLES_PER_UNIT}")
    samples = np.frombuffer(unit.pcm, dtype="<f4")
    if not bool(np.isfinite(samples).all()):
        raise UnitRefused("samples", "its audio has a NaN or infinite sample")
    if float(np.abs(samples).max()) > 1.0:
        raise UnitRefused("samples", "its audio leaves [-1, 1]")
    frame = unit.frame
    if frame is None:
        return
    if len(frame.jpeg) > FRAME_BYTES_MAX:
        raise UnitRefused(
            "frame", f"its frame has {len(frame.jpeg)} bytes; at most {FRAME_BYTES_MAX}"
        )
    longest = max(frame.width_px, frame.height_px)
    if longest > FRAME_EDGE_MAX_PX or frame.width_px * frame.height_px > FRAME_PIXELS_MAX:
        raise UnitRefused(
            "frame",
            f"its frame is {frame.width_px}×{frame.height_px}; at most 1920×1080 pixels in all",
        )


def listening_reply(*, window_start_sequence: int, cached_tokens: int | None = None) -> Reply:
    """A reply that listens; the caller of `_feed` fills in the rest."""
    return Reply(
        sequence=-1,
        drain=None,
        decision=Decision.LISTEN,
        text="",
        is_end_of_turn=False,
        tokens=0,
        generation_id=None,
        window_start_sequence=window_start_sequence,
        cached_tokens=cached_tokens,
        payload_sha256="",
        queue_wait_ms=0.0,
        inference_ms=0.0,
    )


def context_digest(context: SessionContext) -> str:
    """Tells whether two contexts are the same, for `Engine.open`."""
    return hashlib.sha256(json.dumps(repr(context)).encode()).hexdigest()
