"""Whether the packages of this environment are the pinned ones."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import OmnaiError

PINS_PATH = Path(__file__).resolve().parents[3] / "requirements-gpu.txt"

PYTHON = "3.10"
PLATFORM = "Linux x86_64"
"""What the pins were resolved for."""

_PIN = re.compile(r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s\\]+)", re.MULTILINE)


class PinsUnreadable(OmnaiError):
    """The pinned runtime cannot be read."""

    code = "runtime_pins_unreadable"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not as pinned."""

    name: str
    wanted: str
    found: str | None
    """None: it is not installed."""


def read_pins(path: Path = PINS_PATH) -> dict[str, str]:
    """Version by normalised package name. Raises PinsUnreadable."""
    try:
        pins = dict(_PIN.findall(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise PinsUnreadable(f"{path.name} cannot be read ({type(error).__name__})") from error
    if not pins:
        raise PinsUnreadable(f"{path.name} pins nothing; `make lock` makes it")
    return pins


def installed() -> dict[str, str]:
    """Version by normalised package name, of this environment."""
    return {
        re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower(): each.version
        for each in importlib.metadata.distributions()
    }


def differences(
    pins: Mapping[str, str],
    found: Mapping[str, str],
    *,
    python: str | None = None,
    system: str | None = None,
) -> tuple[Difference, ...]:
    """Everything that is not as pinned, the interpreter first; what is not pinned is no matter."""
    python = platform.python_version() if python is None else python
    system = f"{platform.system()} {platform.machine()}" if system is None else system
    different = []
    if not f"{python}.".startswith(f"{PYTHON}."):
        different.append(Difference(name="python", wanted=PYTHON, found=python))
    if system != PLATFORM:
        different.append(Difference(name="platform", wanted=PLATFORM, found=system))
    different += [
        Difference(name=name, wanted=version, found=found.get(name))
        for name, version in sorted(pins.items())
        if not _is_same(version, found.get(name))
    ]
    return tuple(different)


def _is_same(wanted: str, found: str | None) -> bool:
    """A wheel from Torch's own index says for which CUDA it was built, `2.8.0+cu128`; those of the
    default index are the same builds without the word."""
    return found == wanted or found == f"{wanted}+cu128"
