"""What every view works with: settings, stores and the watcher of this process."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from flask import current_app

from api.admission import Admission
from api.digests import Digests
from api.readiness import Readiness
from api.waiting import Watcher
from pipeline.ledger.blobs import BlobStore
from pipeline.ledger.database import Database
from pipeline.ledger.frames import FrameStore
from pipeline.settings import Settings

EXTENSION = "omnai"


@dataclass(frozen=True, kw_only=True)
class Service:
    """One process's service; made once by the factory."""

    settings: Settings
    database: Database
    blobs: BlobStore
    frames: FrameStore
    watcher: Watcher
    admission: Admission
    digests: Digests
    readiness: Readiness
    engines: Collection[str]
    """Names that a job may ask for."""
    release: str
    """Written into what is published."""
    upload_bytes_max: int
    """Largest recording."""


def service() -> Service:
    """The running application's."""
    return cast(Service, current_app.extensions[EXTENSION])
