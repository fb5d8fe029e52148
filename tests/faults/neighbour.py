"""Another application's worker on the same server, as Celery makes one: it watches over the
messages that nobody has acknowledged, of every queue, and puts back what is older than its own
timeout.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from kombu import Connection

TIMEOUT_S = 1.0
LOOK_S = 0.2


def main(url: str) -> None:
    options: dict[str, Any] = {"visibility_timeout": TIMEOUT_S}
    with Connection(url, transport_options=options) as connection:
        channel: Any = connection.channel()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            channel.qos.restore_visible(interval=1)
            time.sleep(LOOK_S)


if __name__ == "__main__":
    main(sys.argv[1])
