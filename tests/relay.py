"""A connection that breaks where a test wants it to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

Cut = Callable[[str, int, bytes], bool]
"""Whether to break here: "up" or "down", bytes that went this way before, and what comes now."""


@contextmanager
def relay(port: int, cut: Cut) -> Iterator[int]:
    """A port that leads to another one of this machine, until the block ends."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threads: list[threading.Thread] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    for way, source, sink in (("up", near, far), ("down", far, near)):
                        thread = threading.Thread(target=_carry, args=(way, source, sink, cut))
                        thread.start()
                        threads.append(thread)

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def _carry(way: str, source: socket.socket, sink: socket.socket, cut: Cut) -> None:
    carried = 0
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if cut(way, carried, data):
                break
            sink.sendall(data)
            carried += len(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        if way == "up":
            continue
        end.close()
