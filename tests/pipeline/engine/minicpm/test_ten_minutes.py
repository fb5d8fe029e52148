"""A recording of ten minutes, and a day of units: every sample once, nothing grows."""

from __future__ import annotations

import gc
import sys

import numpy as np

from pipeline.engine.session import REPLIES_KEPT
from pipeline.records import Decision, Unit
from tests import units
from tests.pipeline.engine.minicpm import doubles
from tests.pipeline.engine.minicpm.doubles import ModelDouble, Said

UNITS = 600
LAST_REAL_SAMPLES = 7_123

WARM_UNITS = 1_500
FLAT_UNITS = 10_000


def recording() -> list[Unit]:
    """Ten minutes in which no second repeats and the last one is cut short."""
    samples = np.random.default_rng(5).uniform(-1, 1, (UNITS, 16_000)).astype("<f4")
    samples[-1, LAST_REAL_SAMPLES:] = 0
    made = [
        units.unit(n, pcm=samples[n].tobytes(), frame=units.picture(n % 256, source_ms=n * 1000))
        for n in range(UNITS - 1)
    ]
    last = units.unit(
        UNITS - 1,
        pcm=samples[-1].tobytes(),
        real_samples=LAST_REAL_SAMPLES,
        synthetic_samples=16_000 - LAST_REAL_SAMPLES,
        frame=None,
    )
    return [*made, last]


def test_ten_minutes_are_heard_sample_by_sample_within_the_budgets() -> None:
    script = {n: Said(f"Second {n} said", ends=n % 7 == 0) for n in range(UNITS) if n % 50 < 8}
    script[UNITS - 1] = Said("and last")
    model = ModelDouble(script=script)
    engine = doubles.engine(model)
    session = engine.open(units.context())
    sent = recording()
    replies = [session.step(unit, epoch=1, sequence=n) for n, unit in enumerate(sent)]
    model.script[UNITS] = Said("words.", ends=True)
    drained = list(session.drain(epoch=1))

    heard = np.concatenate(model.heard)
    assert not heard[:560].any()
    fed = np.concatenate([np.frombuffer(unit.pcm, "<f4") for unit in sent])
    real = (UNITS - 1) * 16_000 + LAST_REAL_SAMPLES
    assert np.array_equal(heard[560 : 560 + real], fed[:real])
    assert len({reply.payload_sha256 for reply in replies}) == UNITS

    assert [reply.drain for reply in drained] == [1]
    end = session.close()
    assert (end.is_audio_consumed, end.is_utterance_open) == (True, False)

    total = UNITS + 1
    names = model.names()
    assert (names.count("prefill"), names.count("generate")) == (total, total)
    assert (names.count("reset_session"), names.count("register_system_prompt")) == (2, 1)
    held = [reply.sequence + 1 - reply.window_start_sequence for reply in replies]
    assert max(held) <= 101
    assert min(held[101:]) >= 70
    assert max(reply.cached_tokens or 0 for reply in replies) <= doubles.HIGH_TOKENS
    spoken = [reply for reply in replies if reply.decision is Decision.SPEAK]
    ended = sum(reply.is_end_of_turn for reply in spoken)
    assert len({reply.generation_id for reply in spoken}) == ended + 1


def test_memory_stays_flat_over_ten_thousand_units() -> None:
    model = ModelDouble(is_forgetful=True)
    model.script = {n: Said("again and again", ends=n % 5 == 0) for n in range(FLAT_UNITS)}
    engine = doubles.engine(model)
    session = engine.open(units.context())
    duplex = engine._loaded.duplex
    unit = units.unit(frame=None)

    def run(start: int, stop: int) -> None:
        for n in range(start, stop):
            object.__setattr__(unit, "second", n)
            session.step(unit, epoch=1, sequence=n)

    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    run(0, WARM_UNITS)
    before = blocks()
    run(WARM_UNITS, FLAT_UNITS)
    # Anything kept for each unit would add 8,500.
    assert blocks() - before < 1_000
    assert len(duplex.decoder.generated_tokens) == 512
    assert len(duplex.decoder._unit_history) <= doubles.HIGH_TOKENS // 13
    assert duplex.total_hidden == duplex.total_ids == duplex.res_ids == []
    assert duplex.prefill_schema_tokens == []
    assert len(session._kept) == REPLIES_KEPT
