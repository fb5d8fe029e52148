"""Pages from a folder that holds a template and all it reads."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from pipeline.errors import OmnaiError

ROOT = Path(__file__).resolve().parents[2]
TYPESET_S = 300
"""Far more than thousands of findings take; a longer one hangs."""


log = logging.getLogger(__name__)


class PagesNotSet(OmnaiError):
    """The document could not be set in pages; JSON, Markdown, HTML and the tables can be had."""

    code = "pages_not_set"


def typeset(folder: Path, template: str, form: str, *, at: datetime) -> bytes:
    """`pdf` or `png` of the template, in a process of its own. Raises PagesNotSet."""
    command = [sys.executable, "-B", "-m", "pipeline.brief.typeset"]
    try:
        subprocess.run(
            [*command, str(folder), template, form, str(int(at.timestamp()))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=ROOT,
            env=_environment(),
            timeout=TYPESET_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        # Its words may quote the document, which no log may hold and no other reader may see.
        log.error("Pages were not set.", extra={"action": "typeset", "status": error.returncode})
        raise PagesNotSet from error
    except subprocess.TimeoutExpired as error:
        log.error("Pages were not set.", extra={"action": "typeset", "limit_s": TYPESET_S})
        raise PagesNotSet from error
    return (folder / f"made.{form}").read_bytes()


def _environment() -> dict[str, str]:
    """Nothing of ours: no settings, tokens or URLs reach the process that sets hostile text."""
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
    own = {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    return {name: os.environ[name] for name in kept if name in os.environ} | own
