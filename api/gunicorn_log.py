"""Gunicorn's own lines, written as all others are."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn.glogging import Logger  # type: ignore[import-untyped]

from pipeline import journal
from pipeline.settings import Settings


class GunicornLog(Logger):  # type: ignore[misc]
    """Hands them to the journal, in the server's parent as in its children, with their place."""

    error_log: logging.Logger

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        journal.begin(Settings.from_environment())
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def critical(self, msg: Any, *args: Any, **given: Any) -> None:
        self.error_log.critical(msg, *args, stacklevel=2, **given)

    def error(self, msg: Any, *args: Any, **given: Any) -> None:
        self.error_log.error(msg, *args, stacklevel=2, **given)

    def exception(self, msg: Any, *args: Any, **given: Any) -> None:
        self.error_log.exception(msg, *args, stacklevel=2, **given)

    def warning(self, msg: Any, *args: Any, **given: Any) -> None:
        self.error_log.warning(msg, *args, stacklevel=2, **given)
