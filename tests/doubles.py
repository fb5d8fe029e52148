"""An engine that says what a test tells it to, and fails where it is told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pipeline.engine.session import Engine, Session, listening_reply
from pipeline.records import Decision, EngineInfo, Reply, SessionContext, Unit


class ScriptedEngine(Engine):
    """Speaks `script[n]` at unit n, drain units counted on; `before[n]` runs inside unit n.

    A text that ends in `END` ends its turn.
    """

    END = "\f"

    def __init__(
        self,
        script: Mapping[int, str] | None = None,
        *,
        before: Mapping[int, Callable[[], None]] | None = None,
    ) -> None:
        self.script = dict(script or {})
        self.before = dict(before or {})
        self.fed: list[int] = []
        """Sequences that reached the engine, in order."""
        self.resets = 0

    def describe(self) -> EngineInfo:
        return EngineInfo(name="scripted", revision="1", device="cpu", settings={})

    def open(self, context: SessionContext) -> Session:
        return _ScriptedSession(context, self)


class _ScriptedSession(Session):
    def __init__(self, context: SessionContext, engine: ScriptedEngine) -> None:
        super().__init__(context)
        self._engine = engine
        self._is_open = False

    def _feed(self, unit: Unit | None, *, sequence: int) -> Reply:
        self._engine.fed.append(sequence)
        self._engine.before.get(sequence, lambda: None)()
        text = self._engine.script.get(sequence)
        if text is None:
            return listening_reply(window_start_sequence=max(sequence - 1, 0))
        is_end = text.endswith(ScriptedEngine.END)
        self._is_open = not is_end
        return replace(
            listening_reply(window_start_sequence=max(sequence - 1, 0)),
            decision=Decision.SPEAK,
            text=text.removesuffix(ScriptedEngine.END),
            is_end_of_turn=is_end,
            tokens=len(text.split()),
            generation_id=f"{self.context.epoch}-{sequence}",
        )

    def _needs_drain(self) -> bool:
        return self._is_open

    def _is_audio_consumed(self) -> bool:
        return True

    def _is_turn_open(self) -> bool:
        return self._is_open

    def _reset(self) -> None:
        self._engine.resets += 1


def block(holding: str = "Alpha Corp", *, evidence: str = "Revenue was 412 million.") -> str:
    """A complete finding of the grammar."""
    lines: Sequence[str] = (
        f"Holdings: {holding}",
        f"Evidence: {evidence}",
        "Implication: Margins may hold.",
        "Uncertainty: One quarter only.",
        "Verify: Read the filing.",
    )
    return "\n".join(lines) + "\n"
