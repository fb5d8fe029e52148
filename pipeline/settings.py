"""Settings of this installation, read once from `OMNAI_…` variables; unknown names are refused."""

from __future__ import annotations

import difflib
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from pipeline.errors import Problem, SettingsRefused

PREFIX = "OMNAI_"

RESERVED_PREFIXES = ("OMNAI_TEST_", "OMNAI_VENV")
"""Read by the test suite and the scripts, not by the product."""


@dataclass(frozen=True, kw_only=True)
class MediaLimits:
    """What the media process may use; each has a reason beside its number."""

    memory_bytes: int = 3 * 1024**3
    """Address space. The libraries map about 0.6 GiB; an 8K picture takes 0.2 GiB a copy."""
    cpu_s: int = 8 * 3600
    """Processor time: twelve hours of 720p at half as slow as the slowest decode measured."""
    silence_s: float = 60.0
    """Longest wall time without a message: one source second of the heaviest admitted picture."""
    duration_s: int = 12 * 3600
    """Most source seconds with content: a long capital-markets day."""
    span_s: int = 24 * 3600
    """Most source time from first to last, gaps included."""
    edge_px: int = 8192
    """Largest width or height of a decoded picture."""
    frame_pixels: int = 40_000_000
    """Most pixels of a decoded picture: 8K with room."""
    streams: int = 64
    """Most streams in a container."""
    file_bytes: int = 64 * 1024**3
    """Largest recording."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One installation's settings."""

    data_dir: Path = Path("var")
    """Where blobs, frames and the embedded services live."""
    database_url: str | None = None
    """SQLAlchemy URL of PostgreSQL; none starts the embedded server."""
    redis_url: str | None = None
    """Redis-protocol server; none starts the embedded one."""
    host_name: str = field(default_factory=socket.gethostname)
    """This worker host's name, part of its slots' names."""
    frame_ring: int = 128
    """Encoded frames kept for the look-back: the engine's longest memory is 101 units."""
    media: MediaLimits = MediaLimits()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Raises SettingsRefused naming every variable that is unknown or malformed."""
        environment = os.environ if environment is None else environment
        given = {
            name: value
            for name, value in environment.items()
            if name.startswith(PREFIX) and not name.startswith(RESERVED_PREFIXES)
        }
        problems: list[Problem] = []
        top: dict[str, object] = {}
        media: dict[str, object] = {}
        for name, text in sorted(given.items()):
            target = media if name in _MEDIA else top
            reader = _MEDIA.get(name) or _TOP.get(name)
            if reader is None:
                problems.append(_unknown(name))
                continue
            key, parse, accepted = reader
            try:
                target[key] = parse(text)
            except ValueError:
                problems.append(
                    Problem(
                        code="setting_malformed",
                        where=name,
                        message=f"not {accepted}; the value is not shown in case it is secret",
                    )
                )
        if problems:
            raise SettingsRefused(*problems)
        return cls(**top, media=MediaLimits(**media))  # type: ignore[arg-type]


def _positive_int(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError
    return value


def _positive_float(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def _url(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not text.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise ValueError
        return text

    return parse


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


_Reader = tuple[str, Callable[[str], object], str]

_TOP: dict[str, _Reader] = {
    "OMNAI_DATA_DIR": ("data_dir", lambda text: Path(_name(text)), "a folder"),
    "OMNAI_DATABASE_URL": (
        "database_url",
        _url("postgresql+psycopg"),
        "a URL that begins with postgresql+psycopg://",
    ),
    "OMNAI_REDIS_URL": (
        "redis_url",
        _url("redis", "rediss", "unix"),
        "a URL that begins with redis://, rediss:// or unix://",
    ),
    "OMNAI_HOST_NAME": ("host_name", _name, "a name"),
    "OMNAI_FRAME_RING": ("frame_ring", _positive_int, "a whole number above 0"),
}
_MEDIA: dict[str, _Reader] = {
    f"OMNAI_MEDIA_{limit.name.upper()}": (
        (limit.name, _positive_float, "a number above 0")
        if isinstance(limit.default, float)
        else (limit.name, _positive_int, "a whole number above 0")
    )
    for limit in fields(MediaLimits)
}


def _unknown(name: str) -> Problem:
    near = difflib.get_close_matches(name, [*_TOP, *_MEDIA], n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join([*_TOP, *_MEDIA])}"
    return Problem(code="setting_unknown", where=name, message=f"no such setting; {hint}")
