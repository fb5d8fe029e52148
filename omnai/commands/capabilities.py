"""`omnai capabilities`: what this installation can do, and what is wrong where it cannot."""

from __future__ import annotations

import importlib.metadata
import platform
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import omnai
from omnai import display
from omnai.exits import refusals
from pipeline.engine.registry import ENGINES
from pipeline.errors import OmnaiError
from pipeline.plain import to_plain
from pipeline.settings import Settings

KEPT_FROM = {
    "network": "use the network",
    "processes": "start and reach other processes",
    "writing": "open files to write",
    "reading": "read other files than the recording",
}
"""What the kernel is asked to keep the media process from."""

PACKAGES = ("av", "numpy", "Pillow", "SQLAlchemy", "alembic", "psycopg", "typer", "rich", "Jinja2")


def capabilities(
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Say which engines, codecs and services are there, with limits and versions."""
    with refusals(as_json=json_):
        settings = Settings.from_environment()
        found = _found(settings)
        if json_:
            display.write_json(found)
        else:
            _show(found)


def _found(settings: Settings) -> dict[str, Any]:
    media = _media()
    versions: dict[str, str | None] = {
        "omnai": omnai.__version__,
        "python": platform.python_version(),
    }
    versions |= {name.lower(): _version(name) for name in PACKAGES}
    return {
        "engines": {name: _engine(name, settings) for name in ENGINES},
        "parts": {
            "media": media["part"],
            "media_confinement": _confinement(media["confinement"]),
            **_services(settings),
            "data_dir": _data_dir(settings.data_dir),
        },
        "confinement": media["confinement"],
        "decoders": media["decoders"],
        "demuxers": media["demuxers"],
        "limits": {"media": to_plain(settings.media), "frame_ring": settings.frame_ring},
        "versions": versions | media["versions"],
    }


def _part(problem: str | None, *, found: bool = True) -> dict[str, Any]:
    """`found`, `usable` and the problem, as every part is told."""
    return {"found": found, "usable": found and problem is None, "problem": problem}


def _engine(name: str, settings: Settings) -> dict[str, Any]:
    if name == "minicpmo":
        return _minicpmo(settings)
    try:
        info = ENGINES[name]().describe()
    except (OmnaiError, ImportError) as error:
        return _part(f"{type(error).__name__}: {error}")
    return {**_part(None), "revision": info.revision, "device": info.device}


def _minicpmo(settings: Settings) -> dict[str, Any]:
    """Looked at only: loading the model takes minutes and the whole GPU."""
    from pipeline.engine.minicpm.device import DeviceRefused, check_gpu
    from pipeline.engine.minicpm.lock import SnapshotRefused, read_lock, verify_snapshot

    lock = read_lock()
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        problem = f"{' and '.join(missing)} not installed; requirements-gpu.txt has the pins"
        return {**_part(problem, found=False), "revision": lock.revision}
    try:
        verify_snapshot(
            settings.model_folder, lock, allow_unverified=settings.model_allow_unverified
        )
        gpu = check_gpu(settings.gpu)
    except (SnapshotRefused, DeviceRefused) as error:
        return {**_part(error.message), "revision": lock.revision}
    return {**_part(None), "revision": lock.revision, "device": gpu}


def _media() -> dict[str, Any]:
    """Asked in the media process's place, which alone loads the decoder."""
    from pipeline.media_child import ask_capabilities

    try:
        answer = ask_capabilities()
    except OmnaiError as error:
        nothing: dict[str, Any] = {
            **{"versions": {}, "decoders": {}, "demuxers": {}},
            "confinement": dict.fromkeys(KEPT_FROM),
        }
        return {"part": _part(error.message), **nothing}
    return {"part": _part(None), **answer}


def _confinement(held: dict[str, str | None]) -> dict[str, Any]:
    """Whether the media process was refused everything that decoding does not need."""
    free = [what for name, what in KEPT_FROM.items() if held[name] is None]
    problem = f"here the media process may {', '.join(free)}" if free else None
    return _part(problem, found=len(free) < len(KEPT_FROM))


def _services(settings: Settings) -> dict[str, Any]:
    from omnai.services import EmbeddedServices

    found = EmbeddedServices(settings.data_dir / "services").status()
    return {
        f"embedded_{service.name}": {
            **_part(service.problem, found=service.version is not None),
            "version": service.version,
            "state": service.state.value,
        }
        for service in found.all
    }


def _data_dir(folder: Path) -> dict[str, Any]:
    """Whether files can be made there; where it does not exist yet, in what would hold it."""
    at = folder.absolute()
    is_there = at.exists()
    while not at.exists():
        at = at.parent
    try:
        with tempfile.TemporaryFile(dir=at):
            pass
    except OSError as error:
        return _part(f"{error.strerror}: {at}", found=is_there)
    return {"found": is_there, "usable": True, "problem": None}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _show(found: dict[str, Any]) -> None:
    console = display.console()
    table = display.table("part", "found", "usable", "problem")
    parts = {f"engine {name}": part for name, part in found["engines"].items()} | found["parts"]
    for name, part in parts.items():
        table.add_row(
            name, _yes(part["found"]), _yes(part["usable"]), display.seen(part["problem"] or "–")
        )
    console.print(table)
    means = ", ".join(f"{name} by {how or 'nothing'}" for name, how in found["confinement"].items())
    display.say(f"the media process is held: {means}")
    missing = [name for name, codec in found["decoders"].items() if not codec["usable"]]
    display.say(f"{len(found['decoders']) - len(missing)} of the decoders looked for are usable")
    if missing:
        display.say(f"not usable: {', '.join(missing)}")
    console.print(", ".join(f"{name} {version}" for name, version in found["versions"].items()))


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
