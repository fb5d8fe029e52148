"""What a worker refuses to start on: whatever could run a job twice, or another's code."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import redis

from pipeline.engine.registry import ENGINES
from pipeline.errors import InputRefused, OmnaiError, Problem
from pipeline.settings import Settings
from worker import slot
from worker.app import broker_url, celery_settings

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = ("api", "worker", "pipeline")

ENGINE_PACKAGES = ("torch", "transformers")

ASK_S = 3.0

REFUSED = 78
"""Exit status of a process that another start would not help (EX_CONFIG of sysexits.h)."""

REFUSED_SIGNAL = signal.SIGUSR2
"""What the engine's process tells Celery's before it ends it for such a reason."""

MUST_HOLD = (
    "task_default_queue",
    "task_queues",
    "task_acks_late",
    "task_acks_on_failure_or_timeout",
    "task_reject_on_worker_lost",
    "task_retry_on_worker_lost",
    "worker_cancel_long_running_tasks_on_connection_loss",
    "worker_pool",
    "worker_concurrency",
    "worker_pool_start_method",
    "worker_prefetch_multiplier",
    "worker_disable_prefetch",
    "worker_soft_shutdown_timeout",
    "task_ignore_result",
    "accept_content",
)
"""A change of any of these is silent in Celery and repeats, holds back or breaks into a job, or
takes another engine's bells."""

log = logging.getLogger(__name__)


class WorkerRefused(InputRefused):
    """The worker does not start under these settings."""

    code = "worker_refused"


def check_installation(settings: Settings) -> None:
    """Raises WorkerRefused, SettingsRefused."""
    broker_url(settings)
    _refuse([*_missing(settings), *_shadowed()])


def check_engine(settings: Settings) -> None:
    """Raises WorkerRefused where the model cannot be loaded here, without loading anything of it.

    What only loading shows ends the worker too, before it has claimed anything.
    """
    if settings.engine == slot.ON_GPU:
        _refuse([*_packages_missing(), *_gpu_missing(settings), *_model_missing(settings)])


def check_queue(
    conf: Mapping[str, Any], *, engine: str, environment: Mapping[str, str] | None = None
) -> None:
    """Raises WorkerRefused for settings of Celery that could replay or cut into a job, or that
    listen to another engine's bells."""
    environment = os.environ if environment is None else environment
    _refuse([*_changed(conf, engine), *_remapped(environment)])


def check_broker(settings: Settings) -> None:
    """Raises WorkerRefused where the broker may throw bells away; says so where it cannot tell."""
    assert settings.redis_url is not None
    try:
        with redis.Redis.from_url(
            settings.redis_url, socket_timeout=ASK_S, socket_connect_timeout=ASK_S
        ) as client:
            policy = dict(client.config_get("maxmemory-policy")).get("maxmemory-policy")
    except redis.RedisError as error:
        log.warning(
            "The broker's eviction policy could not be read; it must be noeviction.",
            extra={"action": "broker_unknown", "error": type(error).__name__},
        )
        return
    policy = policy.decode() if isinstance(policy, bytes) else policy
    if policy != "noeviction":
        _refuse(
            [
                Problem(
                    code="broker_evicts",
                    where="maxmemory-policy",
                    message=f"the broker's policy is {policy}, which may drop the queue itself;"
                    " noeviction would be accepted",
                )
            ]
        )


def _missing(settings: Settings) -> Iterator[Problem]:
    if settings.database_url is None:
        yield Problem(
            code="database_url_missing",
            where="OMNAI_DATABASE_URL",
            message="no database is named; a URL that begins with postgresql+psycopg:// would be"
            " accepted",
        )
    if settings.engine not in ENGINES:
        yield Problem(
            code="engine_unknown",
            where="OMNAI_ENGINE",
            message=f"no engine of this name; one of these would be accepted: {', '.join(ENGINES)}",
        )


def _packages_missing() -> Iterator[Problem]:
    for name in ENGINE_PACKAGES:
        if importlib.util.find_spec(name) is None:
            yield Problem(
                code="package_missing",
                where=name,
                message="it is not installed; the packages of requirements-gpu.txt are accepted",
            )


def _gpu_missing(settings: Settings) -> Iterator[Problem]:
    try:
        slot.slot_name(settings)
    except OmnaiError as error:
        yield Problem(code=error.code, where="OMNAI_GPU", message=error.message)


def _model_missing(settings: Settings) -> Iterator[Problem]:
    from pipeline.engine.minicpm.lock import SnapshotRefused, read_lock, verify_snapshot

    try:
        verify_snapshot(
            settings.model_folder, read_lock(), allow_unverified=settings.model_allow_unverified
        )
    except SnapshotRefused as refused:
        yield from refused.problems
    except OmnaiError as error:
        yield Problem(code=error.code, where="model-lock.json", message=error.message)


def _shadowed() -> Iterator[Problem]:
    for name in PACKAGES:
        file = _file_of(name)
        if file is None or Path(file).resolve() != ROOT / name / "__init__.py":
            yield Problem(
                code="package_shadowed",
                where=name,
                message="another package of this name comes first on Python's path; the one beside"
                " the worker's would be accepted",
            )


def _file_of(package: str) -> str | None:
    """Found without importing it: a worker has no use for the web."""
    if package in sys.modules:
        return sys.modules[package].__file__
    spec = importlib.util.find_spec(package)
    return None if spec is None else spec.origin


def _changed(conf: Mapping[str, Any], engine: str) -> Iterator[Problem]:
    wanted = celery_settings(engine)
    for name in MUST_HOLD:
        if conf.get(name) != wanted[name]:
            yield _unsafe(name, wanted[name])
    given = conf.get("broker_transport_options") or {}
    for name in ("ack_emulation", "visibility_timeout"):
        if given.get(name) != wanted["broker_transport_options"][name]:
            yield _unsafe(
                f"broker_transport_options/{name}", wanted["broker_transport_options"][name]
            )


def _unsafe(name: str, wanted: object) -> Problem:
    return Problem(
        code="queue_setting_unsafe",
        where=name,
        message=f"changed, so that a job could run twice, be cut into or wait for nothing;"
        f" {wanted!r} would be accepted",
    )


def _remapped(environment: Mapping[str, str]) -> Iterator[Problem]:
    if environment.get("REMAP_SIGTERM"):
        yield Problem(
            code="sigterm_remapped",
            where="REMAP_SIGTERM",
            message="set, so that a stop would break into the second in progress; it must not be",
        )


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise WorkerRefused(*problems)
