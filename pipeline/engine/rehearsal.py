"""The engine that needs no model: it measures each unit's signal and reports it as findings."""

from __future__ import annotations

import io
import re
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from PIL import Image

from pipeline.engine.session import Engine, Session, context_digest, listening_reply
from pipeline.errors import EngineError
from pipeline.level import rms_dbfs
from pipeline.prompt import Label
from pipeline.records import Decision, EngineInfo, Reply, SessionContext, Unit

REVISION = "1"
"""Raised whenever the same recording would be spoken of in another way."""

SILENCE_DBFS = -60.0
"""Quieter than this counts as silence: a quiet room recorded well lies at about -55."""

ONSET_AFTER_UNITS = 2
"""Silent seconds before a sound that count as an onset."""

QUIET_UNITS = 10
"""Silent seconds in a row that are worth a remark."""

CHANGE_GREY_LEVELS = 8.0
"""Mean change of a small grey picture that counts as another picture: a new slide changes by more
than 10 of 255, a talking head by 2."""

THUMBNAIL_PX = (32, 18)

CONTROL_TOKENS = 2
"""Of a unit's tokens, the speak marker and the chunk end are not text, as in the model."""

THUMBNAIL = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """The signal of one unit."""

    level_dbfs: float | None
    picture: THUMBNAIL | None

    @property
    def is_silent(self) -> bool:
        return self.level_dbfs is None or self.level_dbfs < SILENCE_DBFS


class RehearsalEngine(Engine):
    """Deterministic, on the CPU. The same units, holdings and seed give the same words."""

    def __init__(self) -> None:
        self._session: _RehearsalSession | None = None

    def describe(self) -> EngineInfo:
        return EngineInfo(
            name="rehearsal",
            revision=REVISION,
            device="cpu",
            settings={
                "silence_dbfs": SILENCE_DBFS,
                "change_grey_levels": CHANGE_GREY_LEVELS,
                "understands_content": False,
            },
        )

    def open(self, context: SessionContext) -> Session:
        held = self._session
        if held is not None and not held.is_closed:
            is_same = context_digest(held.context) == context_digest(context)
            if is_same and held.is_untouched:
                return held
            raise EngineError("a session is open; close it before another is opened")
        self._session = _RehearsalSession(context)
        return self._session


class _RehearsalSession(Session):
    def __init__(self, context: SessionContext) -> None:
        super().__init__(context)
        self._forget()

    def _feed(self, unit: Unit | None, *, sequence: int) -> Reply:
        if unit is not None:
            self._listen(unit, sequence)
        if not self._pieces:
            return listening_reply(window_start_sequence=max(sequence - 1, 0))
        return self._speak(sequence)

    def _needs_drain(self) -> bool:
        return bool(self._pieces)

    def _is_audio_consumed(self) -> bool:
        return True

    def _is_turn_open(self) -> bool:
        return bool(self._pieces)

    def _reset(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._before: _Measured | None = None
        self._silent_units = 0
        self._pieces: deque[str] = deque()
        self._turns = 0
        self._turn_began_at = 0

    def _listen(self, unit: Unit, sequence: int) -> None:
        picture = None if unit.frame is None else _thumbnail(unit.frame.jpeg)
        before = self._before
        now = _Measured(level_dbfs=rms_dbfs(unit.pcm), picture=picture)
        silent_before, self._silent_units = (
            self._silent_units,
            self._silent_units + 1 if now.is_silent else 0,
        )
        self._before = now if picture is not None else replace(now, picture=_picture(before))
        if before is None or self._pieces:
            return  # while it speaks it measures on, but says one thing at a time
        text = self._remark(before, now, silent_before)
        if text is not None:
            self._pieces.extend(re.findall(r"\S+\s*", text))
            self._turn_began_at = sequence
            self._turns += 1

    def _remark(self, before: _Measured, now: _Measured, silent_before: int) -> str | None:
        level = _level(now.level_dbfs)
        if before.picture is not None and now.picture is not None:
            change = float(np.abs(before.picture - now.picture).mean())
            if change >= CHANGE_GREY_LEVELS:
                return self._finding(
                    Label.EVIDENCE,
                    f"the picture changed by {change:.1f} of 255 grey levels, {level}",
                )
        if silent_before >= ONSET_AFTER_UNITS and not now.is_silent:
            seconds = f"{silent_before} seconds of silence"
            return self._finding(Label.AUDIO_EVIDENCE, f"sound began after {seconds}, {level}")
        if self._silent_units == QUIET_UNITS:
            return f"Rehearsal measured {QUIET_UNITS} seconds without sound."
        return None

    def _finding(self, label: Label, measured: str) -> str:
        holdings = self.context.holdings
        turn = self._turns + self.context.options.seed
        named = holdings[turn % len(holdings)].name if holdings else "none supplied"
        return (
            f"{Label.HOLDINGS.value}: {named}\n"
            f"{label.value}: Rehearsal measured that {measured}.\n"
            f"{Label.IMPLICATION.value}: not assessed.\n"
            f"{Label.UNCERTAINTY.value}: A rehearsal measures the signal and understands nothing.\n"
            f"{Label.VERIFY.value}: Play this moment of the recording.\n"
        )

    def _speak(self, sequence: int) -> Reply:
        cap = self.context.options.output_max_tokens_per_unit - CONTROL_TOKENS
        said = [self._pieces.popleft() for _ in range(min(cap, len(self._pieces)))]
        return replace(
            # It compared this turn's first unit with the one before, and remembers no more.
            listening_reply(window_start_sequence=max(self._turn_began_at - 1, 0)),
            decision=Decision.SPEAK,
            text="".join(said),
            is_end_of_turn=not self._pieces,
            tokens=len(said),
            generation_id=f"{self.context.epoch}-{self._turns}",
        )


def _thumbnail(jpeg: bytes) -> THUMBNAIL:
    with Image.open(io.BytesIO(jpeg)) as image:
        small = image.convert("L").resize(THUMBNAIL_PX, Image.Resampling.BOX)
        return np.asarray(small, np.float32)


def _picture(measured: _Measured | None) -> THUMBNAIL | None:
    return None if measured is None else measured.picture


def _level(level_dbfs: float | None) -> str:
    return "in digital silence" if level_dbfs is None else f"at a sound level of {level_dbfs} dBFS"
