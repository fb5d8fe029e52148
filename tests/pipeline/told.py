"""A media process that decodes nothing: it sends what it is told to, whole, or the second half of
each message with the first half of the next.

Run as a program with its way, a file of messages, and the process's one argument.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pipeline.media.confine import take_output
from pipeline.wire import decode, encode

PAUSE_S = 0.3
"""Longer than anything waits for the rest of a message."""


def main() -> None:
    how, messages, _ = sys.argv[1:]
    pipe = take_output()
    parts, held = [], b""
    with Path(messages).open("rb") as stored:
        while (message := decode(stored.read)) is not None:
            data = encode(message)
            half = len(data) // 2 if how == "halves" else 0
            parts.append(held + data[:half])
            held = data[half:]
    for part in (*parts, held):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(pipe, rest) :]
        if how == "halves":
            time.sleep(PAUSE_S)
    if how == "whole":
        time.sleep(60)


if __name__ == "__main__":
    main()
