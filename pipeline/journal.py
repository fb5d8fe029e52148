"""Log lines of every process: one a line, as text or as JSON, and never what anybody wrote."""

from __future__ import annotations

import logging
import math
import re
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pythonjsonlogger.json import JsonFormatter

from pipeline.settings import Settings

OURS = frozenset({"omnai", "api", "worker", "pipeline", "__main__"})
"""Whose messages are written here, of fixed words, codes and numbers."""

WITHOUT_CONTENT = frozenset({"celery", "kombu", "amqp", "billiard"})
"""They carry bells, and a bell carries nothing; what they say without values may be told."""

TALKATIVE = ("celery", "kombu", "amqp", "alembic", "httpcore")

EXTRAS = (
    *("action", "job_id", "epoch", "second", "sequence", "phase", "end_reason", "code", "error"),
    *("host", "slot", "engine", "gpu", "loop", "attempt", "status", "count", "units", "files"),
    *("pause_s", "limit_s", "free_bytes", "method", "endpoint"),
)
"""The only facts of a line that are told, in this order; another `extra` is left out."""

CHARS_MAX = 2000
VALUES_MAX = 50
FRAMES_MAX = 30
CAUSES_MAX = 5

_ADDRESS = re.compile(r"[\w+.-]+://\S+")
_LIBRARY = "A line of a library, which may hold what somebody wrote; `where` is its place."


def begin(settings: Settings, *, slot: str | None = None) -> None:
    """Write to standard error, in the form that the settings name; a second call changes nothing.

    What nothing catches is told the same way, so that no traceback with values is printed.
    """
    root = logging.getLogger()
    if any(isinstance(handler, _Lines) for handler in root.handlers):
        return
    about = {"host": settings.host_name} | ({} if slot is None else {"slot": slot})
    handler = _Lines(sys.stderr)
    handler.setFormatter(formatter(settings.log_format, about))
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for talkative in TALKATIVE:
        logging.getLogger(talkative).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def formatter(log_format: str, about: Mapping[str, str]) -> logging.Formatter:
    """`about` are facts of the process, which every line of JSON repeats."""
    return JsonLine(about) if log_format == "json" else TextLine()


class TextLine(logging.Formatter):
    """For people: time, level, logger, message, then the facts as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        told = facts(record)
        words = [str(told.pop(name)) for name in ("time", "level", "logger", "message")]
        faults = told.pop("exception", [])
        words += [f"{name}={value}" for name, value in told.items() if name != "pid"]
        words += [f"[{fault['type']} at {' < '.join(fault['at'])}]" for fault in faults]
        return " ".join(words)


class JsonLine(JsonFormatter):
    """For programs: one object a line, in ASCII."""

    def __init__(self, about: Mapping[str, str]) -> None:
        super().__init__()
        self._about = about

    def format(self, record: logging.LogRecord) -> str:
        return self.serialize_log_record({**facts(record, self._about)})


if TYPE_CHECKING:
    _Stream = logging.StreamHandler[Any]
else:
    _Stream = logging.StreamHandler  # which Python 3.10 does not subscript


class _Lines(_Stream):
    """Standard error, as this module writes it."""


def facts(record: logging.LogRecord, about: Mapping[str, str] | None = None) -> dict[str, Any]:
    """All that may be told of a line, by name."""
    at = datetime.fromtimestamp(record.created, timezone.utc)
    told: dict[str, Any] = {
        "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname,
        "logger": _shown(record.name),
        "message": _message(record),
        **(about or {}),
        "pid": record.process,
    }
    given = record.__dict__
    told.update({name: _value(given[name]) for name in EXTRAS if given.get(name) is not None})
    if isinstance(other := given.get("pid"), int):
        told["other_pid"] = other
    if record.name.partition(".")[0] not in OURS:
        told["where"] = f"{_place(record.pathname)}:{record.lineno}"
    if record.exc_info and record.exc_info[1] is not None:
        told["exception"] = _faults(record.exc_info[1])
    return told


def _message(record: logging.LogRecord) -> str:
    """Of a library, only what stands in its code: values may be what somebody wrote."""
    root = record.name.partition(".")[0]
    if not isinstance(record.msg, str):
        return _shown(type(record.msg).__name__)
    if root in OURS:
        try:
            return _shown(record.getMessage())
        except (TypeError, ValueError, KeyError):
            return _shown(record.msg)
    # What a server's parent says is of processes; requests are read by its children.
    is_free = bool(record.args) or root in WITHOUT_CONTENT or record.module == "arbiter"
    return _shown(record.msg) if is_free else _LIBRARY


def _value(value: object) -> object:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [_value(part) for part in value[:VALUES_MAX]]
    return _shown(value) if isinstance(value, str) else type(value).__name__


def _shown(text: str) -> str:
    """Without addresses, and without a character that could begin a line or steer a terminal."""
    cut = _ADDRESS.sub("(address)", text[:CHARS_MAX])
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in cut)


def _faults(error: BaseException) -> list[dict[str, Any]]:
    """The fault and what it came from: types and places. The words of a fault may quote anything.

    A fault of ours has a code, which is told.
    """
    told: list[dict[str, Any]] = []
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen and len(told) < CAUSES_MAX:
        seen.add(id(at))
        kind = type(at)
        told.append({"type": f"{kind.__module__}.{kind.__qualname__}", "at": _places(at)})
        if isinstance(code := getattr(kind, "code", None), str):
            told[-1]["code"] = code
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return told


def _places(error: BaseException) -> list[str]:
    """The innermost first."""
    frames = [
        f"{_place(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return frames[::-1][:FRAMES_MAX]


def _place(path: str) -> str:
    return _shown("/".join(PurePath(path).parts[-3:]))


_log = logging.getLogger(__name__)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _log.critical(
        "Nothing caught a fault.", exc_info=(kind, error, trace), extra={"action": "uncaught"}
    )


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        _uncaught(args.exc_type, args.exc_value, args.exc_traceback)
