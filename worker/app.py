"""The Celery app: a doorbell with settings under which a job cannot be run twice."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from celery import Celery  # type: ignore[import-untyped]

from pipeline.errors import Problem, SettingsRefused
from pipeline.settings import Settings
from worker.pool import pool_name

TASK = "omnai.look_for_work"
"""A fixed name: one made from the module's path would orphan bells when the module moves."""

QUEUE_PREFIX = "omnai."

CONNECT_S = 3.0
ANSWER_S = 5.0

LOAD_S = 1800.0
"""Celery kills a pool process that is not up within this; a large model takes minutes to load."""


def make_app(settings: Settings, **changes: Any) -> Celery:
    """An app that belongs to its caller; nothing global is set.

    Raises SettingsRefused where no broker is named.
    """
    app = Celery("omnai", set_as_current=False, broker=broker_url(settings))
    app.conf.update(celery_settings(settings.engine) | changes)
    return app


def queue_name(engine: str) -> str:
    """Each engine has its own queue: a bell is taken once, and by nobody who has no use for it."""
    return f"{QUEUE_PREFIX}{engine}"


def celery_settings(engine: str) -> dict[str, Any]:
    """What an app of this engine's is set to; `worker.startup` refuses to work under anything
    else."""
    return {
        "include": ["worker.tasks"],
        "task_default_queue": queue_name(engine),
        "task_queues": None,
        "task_create_missing_queues": True,
        # States are the database's; a result would only go stale beside them.
        "task_ignore_result": True,
        "result_backend": None,
        "task_store_errors_even_if_ignored": False,
        "worker_send_task_events": False,
        # Each of these four would ring again for a worker that died, which is nobody's to decide.
        "task_acks_late": False,
        "task_acks_on_failure_or_timeout": True,
        "task_reject_on_worker_lost": False,
        "task_retry_on_worker_lost": False,
        # A lost connection to the broker must not end a run that does not need it.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        # One slot, one process, and no bell taken in while it works (docs/decisions/0003).
        "worker_pool": pool_name(),
        "worker_concurrency": 1,
        "worker_pool_start_method": "spawn",
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": True,
        "worker_proc_alive_timeout": LOAD_S,
        "worker_max_tasks_per_child": None,  # each new process loads the model anew
        "worker_max_memory_per_child": None,
        # A soft shutdown raises inside the second in progress.
        "worker_soft_shutdown_timeout": 0.0,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        # What is deserialised came over the broker.
        "accept_content": ["json"],
        "task_serializer": "json",
        "worker_enable_remote_control": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_publish_retry": True,
        # One retry, at once: the connection kept from the last bell may be gone.
        "task_publish_retry_policy": {"max_retries": 1, "interval_start": 0, "interval_max": 0.2},
        "broker_transport_options": {
            # Delivered once or never. The database rings again, so that nothing is lost by it.
            "ack_emulation": False,
            "visibility_timeout": 7 * 86_400,  # should emulation ever be switched on again
            "socket_timeout": ANSWER_S,
            "socket_connect_timeout": CONNECT_S,
            "socket_keepalive": True,
            "health_check_interval": 25,
        },
    }


def broker_url(settings: Settings) -> str:
    """The Redis URL as Celery writes it: sockets have a scheme of their own there."""
    url = settings.redis_url
    if url is None:
        raise SettingsRefused(
            Problem(
                code="redis_url_missing",
                where="OMNAI_REDIS_URL",
                message="no queue is named; a URL that begins with redis://, rediss:// or unix://"
                " would be accepted",
            )
        )
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={quote(database)}"
