"""`omnai ingest` as a process, for which this machine's servers are the public internet."""

from __future__ import annotations

import json
import os
import ssl
import sys
from pathlib import Path

from pipeline.settings import Settings
from tests.worker.ingest.servers import HERE, is_allowed
from worker.ingest.connect import Internet
from worker.ingest.errand import Pace
from worker.ingest.process import run

WORLD = "OMNAI_TEST_WORLD"
"""JSON: the certificate of the authority, the port of the servers, and how long a lease is."""


def main() -> int:
    world = json.loads(os.environ[WORLD])
    tls = ssl.create_default_context(cafile=Path(world["authority"]))
    internet = Internet(
        tls=tls,
        resolve=lambda host, port: [HERE if host.endswith("media.test") else "10.0.0.1"],
        is_allowed=is_allowed,
        port=world["port"],
    )
    pace = Pace(lease_s=world["lease_s"], renew_s=world["lease_s"] / 4, pauses_s=(0.5,))
    return run(Settings.from_environment(), internet=internet, pace=pace)


if __name__ == "__main__":
    sys.exit(main())
