"""The contract of pipeline/engine/session.py, held by every engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.engine.session import DRAIN_UNITS_MAX, Engine, Session, payload_sha256
from pipeline.errors import EngineError, EpochUncertain, SessionStopped, UnitRefused
from pipeline.records import Decision, Options
from tests import units
from tests.doubles import ScriptedEngine
from tests.pipeline.engine.minicpm.doubles import engine as native_engine

ENGINES: dict[str, Callable[[], Engine]] = {
    "rehearsal": RehearsalEngine,
    "scripted": ScriptedEngine,
    "minicpmo": native_engine,
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    opened = engine.open(units.context())
    yield opened
    opened.close()


def refused(session: Session, unit: object, *, epoch: int = 1, sequence: int = 0) -> str:
    with pytest.raises(UnitRefused) as caught:
        session.step(unit, epoch=epoch, sequence=sequence)  # type: ignore[arg-type]
    assert str(caught.value)
    return caught.value.reason


def test_a_unit_is_answered_with_its_sequence_and_the_digest_of_what_was_fed(
    session: Session,
) -> None:
    unit = units.unit(7)
    reply = session.step(unit, epoch=1, sequence=0)
    assert unit.frame is not None
    assert (reply.sequence, reply.drain) == (0, None)
    assert reply.payload_sha256 == payload_sha256(unit.pcm, unit.frame.jpeg)
    assert reply.inference_ms >= 0
    assert reply.queue_wait_ms >= 0


def test_a_listening_reply_has_no_text(session: Session) -> None:
    reply = session.step(units.unit(), epoch=1, sequence=0)
    assert reply.decision is Decision.LISTEN
    assert (reply.text, reply.tokens, reply.is_end_of_turn) == ("", 0, False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pcm": bytes(60_000)}, "samples"),
        ({"pcm": bytes(64_004)}, "samples"),
        ({"real_samples": 15_999}, "samples"),
        ({"pcm": np.full(16_000, np.nan, "<f4").tobytes()}, "samples"),
        ({"pcm": np.full(16_000, np.inf, "<f4").tobytes()}, "samples"),
        ({"pcm": np.full(16_000, 1.001, "<f4").tobytes()}, "samples"),
        ({"frame": replace(units.picture(1), jpeg=bytes(512_001))}, "frame"),
        ({"frame": replace(units.picture(1), width_px=1921)}, "frame"),
        ({"frame": replace(units.picture(1), width_px=1920, height_px=1081)}, "frame"),
    ],
)
def test_an_unfit_unit_is_refused_and_the_session_goes_on(
    session: Session, changes: dict[str, object], reason: str
) -> None:
    assert refused(session, units.unit(**changes)) == reason
    assert session.is_untouched
    assert session.step(units.unit(), epoch=1, sequence=0).sequence == 0


def test_a_portrait_frame_of_full_hd_is_within_the_limits(session: Session) -> None:
    frame = units.picture(1, width_px=1080, height_px=1920)
    assert session.step(units.unit(frame=frame), epoch=1, sequence=0).sequence == 0


def test_stale_skipped_and_conflicting_units_are_refused(session: Session) -> None:
    session.step(units.unit(0), epoch=1, sequence=0)
    assert refused(session, units.unit(1), epoch=2, sequence=1) == "epoch"
    assert refused(session, units.unit(2), sequence=2) == "sequence"
    assert refused(session, units.unit(0, pcm=units.SILENCE), sequence=0) == "conflict"
    assert refused(session, units.unit(0), sequence=1) == "second"
    assert session.step(units.unit(1), epoch=1, sequence=1).sequence == 1


def test_seconds_may_jump_over_a_gap_while_sequences_have_no_hole(session: Session) -> None:
    session.step(units.unit(4), epoch=1, sequence=0)
    assert session.step(units.unit(3600), epoch=1, sequence=1).sequence == 1


def test_an_exact_repeat_of_the_last_sixteen_is_answered_from_memory() -> None:
    engine = ScriptedEngine()
    session = engine.open(units.context())
    replies = [session.step(units.unit(n), epoch=1, sequence=n) for n in range(17)]
    assert session.step(units.unit(1), epoch=1, sequence=1) == replies[1]
    assert engine.fed == list(range(17))
    assert refused(session, units.unit(0), sequence=0) == "sequence"


def test_a_stop_ends_the_session_and_feeds_no_tail(session: Session) -> None:
    session.step(units.unit(0), epoch=1, sequence=0)
    stopper = threading.Thread(target=session.stop)
    stopper.start()
    stopper.join()
    session.stop()
    with pytest.raises(SessionStopped):
        session.step(units.unit(1), epoch=1, sequence=1)
    with pytest.raises(SessionStopped):
        list(session.drain(epoch=1))


def test_a_stop_during_a_call_discards_its_output() -> None:
    session: Session
    engine = ScriptedEngine({0: "too late"}, before={0: lambda: session.stop()})
    session = engine.open(units.context())
    with pytest.raises(SessionStopped):
        session.step(units.unit(0), epoch=1, sequence=0)
    session.close()
    assert engine.resets == 1


def test_an_error_inside_the_engine_makes_the_epoch_uncertain_and_is_final() -> None:
    def fail() -> None:
        raise ValueError("device lost")

    engine = ScriptedEngine(before={1: fail})
    session = engine.open(units.context())
    session.step(units.unit(0), epoch=1, sequence=0)
    with pytest.raises(EpochUncertain) as caught:
        session.step(units.unit(1), epoch=1, sequence=1)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(EngineError, match="over"):
        session.step(units.unit(1), epoch=1, sequence=1)
    session.close()
    assert engine.fed == [0, 1]


def test_an_error_after_a_stop_is_the_stop() -> None:
    session: Session

    def stop_and_fail() -> None:
        session.stop()
        raise ValueError("interrupted")

    session = ScriptedEngine(before={0: stop_and_fail}).open(units.context())
    with pytest.raises(SessionStopped):
        session.step(units.unit(0), epoch=1, sequence=0)


def test_calls_from_another_thread_are_refused(session: Session) -> None:
    caught: list[BaseException] = []

    def call() -> None:
        try:
            session.step(units.unit(0), epoch=1, sequence=0)
        except EngineError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(caught) == 1


def test_close_is_idempotent_and_frees_the_engine(engine: Engine) -> None:
    session = engine.open(units.context())
    session.step(units.unit(0), epoch=1, sequence=0)
    assert session.close() is session.close()
    assert engine.open(units.context(epoch=2)).is_untouched


def test_nothing_is_drained_where_nothing_is_left(session: Session) -> None:
    last = units.unit(0, real_samples=15_000, synthetic_samples=1_000)
    session.step(last, epoch=1, sequence=0)
    assert list(session.drain(epoch=1)) == []
    assert refused(session, units.unit(1), sequence=1) == "draining"


def test_the_drain_ends_after_eight_units_and_says_that_the_utterance_is_open() -> None:
    script = dict.fromkeys(range(20), "on and on ")
    session = ScriptedEngine(script).open(units.context())
    session.step(units.unit(0), epoch=1, sequence=0)
    replies = list(session.drain(epoch=1))
    assert [reply.drain for reply in replies] == list(range(1, DRAIN_UNITS_MAX + 1))
    assert [reply.sequence for reply in replies] == list(range(1, 9))
    assert session.close().is_utterance_open


def test_opening_again_with_the_same_context_gives_the_same_untouched_session() -> None:
    engine = RehearsalEngine()
    session = engine.open(units.context())
    assert engine.open(units.context()) is session
    session.step(units.unit(0), epoch=1, sequence=0)
    with pytest.raises(EngineError, match="open"):
        engine.open(units.context())
    with pytest.raises(EngineError, match="open"):
        engine.open(units.context(options=Options(seed=1)))
