"""Has Celery keep bells that are not acknowledged, as every setting of ours forbids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import worker.app
import worker.startup

VARIABLE = "OMNAI_TEST_FAULTS_EMULATION"

TIMEOUT_S = 1.0


def install() -> None:
    celery_settings: Callable[..., dict[str, Any]] = worker.app.celery_settings

    def emulated(*of: Any, **named: Any) -> dict[str, Any]:
        given = celery_settings(*of, **named)
        options = given["broker_transport_options"]
        given["broker_transport_options"] = {
            **options,
            "ack_emulation": True,
            "visibility_timeout": TIMEOUT_S,
        }
        return given

    worker.app.celery_settings = emulated
    # Else the worker would say what is wrong and not start.
    worker.startup.celery_settings = emulated
