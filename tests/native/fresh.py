"""Watches one recording in a process of its own and writes the scores it drew from to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.engine.session import Session
from pipeline.records import Options
from tests import units

if TYPE_CHECKING:
    from tests.native.harness import Native
    from tests.native.processor import Numbers

UNITS = 5


def watch(native: Native, session: Session, *, recording: int) -> list[Numbers]:
    """Feed some seconds, speaking in the second one, and close; the scores drawn from."""
    from tests.native.harness import noise

    epoch = session.context.epoch
    with native.watched() as record:
        for nth in range(UNITS):
            if nth == 1:
                native.will_speak(3, ends_turn=True)
            unit = units.unit(
                nth,
                pcm=noise(1000 * recording + nth).astype("<f4").tobytes(),
                frame=units.picture(10 + 40 * recording + nth),
            )
            session.step(unit, epoch=epoch, sequence=nth)
        session.close()
        return list(record.logits)


def context(*, epoch: int, recording: int) -> units.SessionContext:
    return units.context(
        epoch=epoch, prompt=f"watch recording {recording}", options=Options(seed=recording)
    )


def main(kind: str, path: Path) -> None:
    from tests.native.conftest import load

    native = load(kind)
    session = native.engine().open(context(epoch=1, recording=2))
    np.save(path, np.stack(watch(native, session, recording=2)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
