"""Log lines of the worker's processes, without the addresses that libraries write into theirs."""

from __future__ import annotations

import logging
import re
import sys

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

_ADDRESS = re.compile(r"\b[\w+.-]+://\S+")


class _WithoutAddresses(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _ADDRESS.sub("(address)", super().format(record))


def begin() -> None:
    """Write to standard error; a second call changes nothing."""
    root = logging.getLogger()
    if any(isinstance(handler.formatter, _WithoutAddresses) for handler in root.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_WithoutAddresses(FORMAT))
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for talkative in ("celery", "kombu", "amqp", "alembic", "httpcore"):
        logging.getLogger(talkative).setLevel(logging.WARNING)
