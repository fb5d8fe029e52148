"""The session hears of the next second while this one is fed, where it is there, and only then."""

from __future__ import annotations

import fcntl
import itertools
import struct
import termios
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine import rehearsal
from pipeline.engine.session import PCM_BYTES, Engine
from pipeline.errors import MediaStopped
from pipeline.media_child import MediaChild
from pipeline.records import Coming, EndReason, Gap, MediaEvent, Unit
from pipeline.settings import MediaLimits
from pipeline.wire import Message, encode
from tests import units
from tests.clips import AAC, H264, Clips, clips
from tests.doubles import ScriptedEngine
from tests.pipeline.test_media_child import linux_only
from tests.pipeline.test_run import PROBE, Bench, bench, media_end, recording

__all__ = ["bench", "clips"]

ARRIVES_S = 30.0
"""How long a message may take on a busy machine."""

LIMITS = MediaLimits(silence_s=60.0)


def watched(
    bench: Bench, engine: Engine, events: Iterable[MediaEvent]
) -> tuple[EndReason, list[int | None]]:
    """How it ended, and the seconds that were stored."""
    watch: Any = bench.watch(engine)  # type: ignore[arg-type]
    outcome = watch.run(events)
    return outcome.end_reason, [unit.second for unit in bench.dossier().units]


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    """What the rehearsal's sessions were told to expect."""
    told: list[Unit] = []
    monkeypatch.setattr(
        rehearsal._RehearsalSession, "expect", lambda self, unit: told.append(unit), raising=False
    )
    return told


def wait_until_written(media: MediaChild, count: int) -> None:
    """Until so many bytes are in the pipe, as the other end of one that is full does."""
    assert media._process.stdout is not None
    deadline = time.monotonic() + ARRIVES_S
    while True:
        held = fcntl.ioctl(media._process.stdout.fileno(), termios.FIONREAD, bytes(4))
        if struct.unpack("i", held)[0] >= count:
            return
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- the real media process and an engine slower than it


def test_every_second_that_has_arrived_is_expected_and_then_fed(
    bench: Bench, clips: Clips, expected: list[Unit], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = clips.encoded("four.mp4", 3.5, *H264, *AAC)
    fed: list[Unit] = []
    feed = rehearsal._RehearsalSession._feed
    media = MediaChild(path, limits=LIMITS, longest_edge_px=448, tells_coming=True)

    def slowly(self: Any, unit: Unit | None, *, sequence: int) -> Any:
        if unit is not None:
            fed.append(unit)
            if unit.second < 2:
                wait_until_written(media, 1 if expected else PCM_BYTES + 8_000)
        return feed(self, unit, sequence=sequence)

    monkeypatch.setattr(rehearsal._RehearsalSession, "_feed", slowly)
    with media:
        ended = watched(bench, rehearsal.RehearsalEngine(), media)
    assert ended[0] is EndReason.COMPLETED
    assert [unit.second for unit in fed] == [0, 1, 2, 3]
    # The first one's successor may not have been there yet; the last one has none.
    assert [unit.second for unit in expected] in ([1, 2, 3], [2, 3])
    assert all(any(told is unit for unit in fed) for told in expected)


def test_a_second_alone_stays_the_same_where_nobody_is_told(
    bench: Bench, clips: Clips, expected: list[Unit]
) -> None:
    path = clips.encoded("four.mp4", 3.5, *H264, *AAC)
    with MediaChild(path, limits=LIMITS, longest_edge_px=448) as media:
        assert watched(bench, rehearsal.RehearsalEngine(), media)[1] == [0, 1, 2, 3]
    assert expected == []


# --- a media process that is slower than the engine, or ends badly


def halted(path: Path, place: str, how: str) -> MediaChild:
    class Halting(MediaChild):
        _program = ("tests.pipeline.halting", place, how)

    return Halting(path, limits=LIMITS, longest_edge_px=448, tells_coming=True)


@linux_only
@pytest.mark.parametrize("place", ["after unit 0", "in unit 1"])
def test_a_second_does_not_wait_for_the_next_one(bench: Bench, clips: Clips, place: str) -> None:
    media = halted(clips.encoded("four.mp4", 3.5, *H264, *AAC), place, "stopped")
    told: list[float] = []

    def timed(events: Iterable[MediaEvent]) -> Iterator[MediaEvent]:
        for event in events:
            told.append(time.monotonic())
            yield event

    with media:
        engine = ScriptedEngine(before={0: media.kill})
        ended = watched(bench, engine, timed(media))
    assert ended == (EndReason.DECODE_ERROR, [0])
    assert told[1] - told[0] < LIMITS.silence_s / 2


@linux_only
@pytest.mark.parametrize("how", ["killed", "closed", "exit"])
def test_what_befalls_the_next_second_comes_after_this_one_is_stored(
    bench: Bench, clips: Clips, how: str
) -> None:
    media = halted(clips.encoded("four.mp4", 3.5, *H264, *AAC), "in unit 2", how)
    with media:
        assert watched(bench, ScriptedEngine(), media) == (EndReason.DECODE_ERROR, [0, 1])


# --- messages of our own: what is told, and in which order


def told(folder: Path, how: str, messages: Sequence[Message]) -> MediaChild:
    path = folder / "messages"
    path.write_bytes(b"".join(encode(message) for message in messages))

    class Told(MediaChild):
        _program = ("tests.pipeline.told", how, str(path))

    return Told(path, limits=LIMITS, longest_edge_px=448, tells_coming=True)


def bare(second: int) -> Unit:
    return units.unit(second, frame=None)


MESSAGES: list[Any] = [
    PROBE,
    bare(0),
    bare(1),
    Gap(start_ms=2000, end_ms=100_000),
    bare(100),
    media_end(101),
]


@linux_only
def test_only_a_unit_right_after_a_unit_is_told_ahead(tmp_path: Path) -> None:
    with told(tmp_path, "whole", MESSAGES) as media:
        wait_until_written(media, (tmp_path / "messages").stat().st_size)
        seen = list(media)
    assert seen == [PROBE, Coming(unit=bare(1)), *MESSAGES[1:]]
    assert isinstance(seen[1], Coming)
    assert seen[1].unit is seen[3]


@linux_only
def test_a_message_that_comes_in_parts_is_whole_in_its_turn(tmp_path: Path) -> None:
    with told(tmp_path, "halves", MESSAGES) as media:
        assert list(media) == MESSAGES


def test_a_source_that_breaks_off_loses_no_second(bench: Bench, expected: list[Unit]) -> None:
    first, second = units.unit(0), units.unit(1)

    def events() -> Iterator[MediaEvent]:
        yield from (PROBE, Coming(unit=second), first)
        raise MediaStopped("decoder_crashed", "it crashed", last_source_ms=1000)

    ended = watched(bench, rehearsal.RehearsalEngine(), events())
    assert ended == (EndReason.DECODE_ERROR, [0])
    assert expected == [second]


def test_what_is_told_ahead_changes_no_row(bench: Bench) -> None:
    plain = recording(3)
    ahead = [
        PROBE,
        *(
            event
            for unit, after in itertools.pairwise(plain[1:])
            for event in ((Coming(unit=after), unit) if isinstance(after, Unit) else (unit,))
        ),
        plain[-1],
    ]
    assert watched(bench, ScriptedEngine(), ahead) == (EndReason.COMPLETED, [0, 1, 2])
    assert bench.dossier().epochs[0].media_end == plain[-1]
