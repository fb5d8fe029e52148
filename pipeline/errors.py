"""What can go wrong, as types; the docstring is the default message and facts are attributes."""

from __future__ import annotations

from dataclasses import dataclass


class OmnaiError(Exception):
    """Something went wrong inside OmnAI."""

    code = "internal"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())

    @property
    def message(self) -> str:
        return str(self)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with one input: where it is, what is wrong, and what would be accepted."""

    code: str
    """Stable name of the kind of problem, for programs."""
    where: str
    """JSON pointer (`/holdings/3/name`) or `row 4, column name`; empty for the whole."""
    message: str
    """One sentence for a person: what is wrong and what would be accepted."""


class InputRefused(OmnaiError):
    """The input was refused; nothing was changed."""

    code = "input_refused"

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("; ".join(_sentence(problem) for problem in problems) or None)


def _sentence(problem: Problem) -> str:
    return f"{problem.where}: {problem.message}" if problem.where else problem.message


class SettingsRefused(InputRefused):
    """A setting in the environment was refused."""

    code = "settings_refused"


class ContextTooLong(InputRefused):
    """The objective and the holdings are longer than the engine takes; nothing is ever cut."""

    code = "context_too_long"

    def __init__(self, *, tokens: int, limit: int) -> None:
        self.tokens = tokens
        self.limit = limit
        message = (
            f"the objective and the holdings make {tokens} tokens with the task's own text;"
            f" at most {limit} are accepted; shorten the objective or list fewer holdings"
        )
        super().__init__(Problem(code=self.code, where="", message=message))


class TokenizerUnreadable(OmnaiError):
    """The model's tokenizer files cannot be read."""

    code = "tokenizer_unreadable"


class UploadTooLarge(OmnaiError):
    """The file is too large."""

    code = "upload_too_large"

    def __init__(self, *, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        super().__init__(f"the file is too large; at most {bytes_max} bytes are accepted")


class DiskFull(OmnaiError):
    """The disk for recordings is full; send the recording again once there is room."""

    code = "storage_full"


class RecordingRefused(OmnaiError):
    """The recording cannot be analysed; nothing was fed from it."""

    code = "recording_refused"

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class MediaStopped(OmnaiError):
    """The media process ended early: it crashed, hung or reached a limit."""

    code = "decode_error"

    def __init__(self, code: str, message: str, *, last_source_ms: int | None) -> None:
        self.code = code
        self.last_source_ms = last_source_ms
        super().__init__(message)


class EngineError(OmnaiError):
    """The engine failed."""

    code = "engine_error"


class UnitRefused(EngineError):
    """The unit was refused before it reached the engine; the session is unchanged."""

    code = "unit_refused"

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class EpochUncertain(EngineError):
    """A call into the engine failed half-way; its state is unknown and the epoch must end."""

    code = "epoch_uncertain"


class SessionStopped(EngineError):
    """The session was stopped on request."""

    code = "session_stopped"


class FenceLost(OmnaiError):
    """This epoch may no longer write; somebody else ended it."""

    code = "fence_lost"
