"""How long an engine takes, in figures that can be checked by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnai.cli import app
from omnai.trial.course import Step
from omnai.trial.figures import Timing, by_decision, spread
from pipeline.engine.minicpm import trial as trials_of_product
from pipeline.engine.session import listening_reply
from pipeline.records import Decision, EngineClocks
from tests.omnai.trials import trial
from tests.pipeline.engine.minicpm.doubles import ModelDouble

SAMPLE = Path(__file__).parents[2] / "samples" / "sample.mp4"

Ran = tuple[int, str, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    for name in [name for name in os.environ if name.startswith("OMNAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMNAI_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Ran:
        asked = CliRunner().invoke(app, ["bench", "engine", *arguments])
        return asked.exit_code, asked.stdout, asked.stderr

    return call


def timing(
    total_ms: float,
    *,
    tokens: int = 0,
    prefill_ms: float = 1.0,
    ledger_ms: float | None = None,
    drain: bool = False,
) -> Timing:
    reply = replace(
        listening_reply(window_start_sequence=0),
        decision=Decision.SPEAK if tokens else Decision.LISTEN,
        tokens=tokens,
        drain=1 if drain else None,
        clocks=EngineClocks(
            prepare_ms=0.5,
            prefill_ms=prefill_ms,
            generate_ms=2.0,
            upstream_ms={"generate_cost_all": 3.0},
        ),
    )
    step = Step(reply=reply, total_ms=total_ms, source_ms=0 if drain else 1000)
    return replace(step.timing, ledger_ms=ledger_ms)


@pytest.mark.parametrize(
    ("values", "median", "p95"),
    [
        (range(1, 21), 10.5, 19.0),
        (range(1, 101), 50.5, 95.0),
        ([7.0], 7.0, 7.0),
        ([1.0, 3.0], 2.0, 3.0),
    ],
)
def test_a_median_and_the_value_that_95_in_100_do_not_exceed(
    values: range | list[float], median: float, p95: float
) -> None:
    found = spread(reversed(list(values)))
    assert found is not None
    assert (found.median_ms, found.p95_ms, found.count) == (median, p95, len(values))
    assert spread([]) is None


def test_listening_speaking_and_the_drain_are_told_apart() -> None:
    groups = by_decision(
        [
            timing(100),
            timing(300, ledger_ms=4.0),
            timing(1_600, tokens=8, prefill_ms=9.0, ledger_ms=6.0),
            timing(50, drain=True),
        ]
    )
    every, listening, speaking, drain = (
        groups[name] for name in ("all", "listening", "speaking", "drain")
    )
    assert every is not None
    assert listening is not None
    assert speaking is not None
    assert drain is not None
    assert [group.units for group in (every, listening, speaking, drain)] == [3, 2, 1, 1]
    assert every.times_realtime == 1.5
    assert listening.times_realtime == 5.0
    assert speaking.times_realtime == 0.625
    assert (every.tokens_per_s, listening.tokens_per_s, speaking.tokens_per_s) == (4.0, None, 5.0)
    assert drain.times_realtime is None
    prefill = speaking.clocks["prefill"]
    assert prefill is not None
    assert prefill.median_ms == 9.0
    ledger = every.clocks["ledger"]
    assert ledger is not None
    assert (ledger.median_ms, ledger.p95_ms, ledger.count) == (5.0, 6.0, 2)
    assert drain.clocks["ledger"] is None
    assert every.upstream_wall_clock["generate_cost_all"].p95_ms == 3.0


def test_the_rehearsal_is_timed_over_made_up_units_and_over_a_recording(
    run: Callable[..., Ran],
) -> None:
    status, out, _ = run("--units", "12", "--json")
    told = json.loads(out)
    assert (status, told["engine"]["name"], told["source"]) == (0, "rehearsal", "made up")
    assert told["figures"]["all"]["units"] == 12
    # Its picture changes after five seconds, which it speaks about.
    assert told["figures"]["speaking"]["tokens"] > 0
    clocks = told["figures"]["all"]["clocks"]
    assert clocks["total"]["count"] == clocks["ledger"]["count"] == 12
    assert 0 < clocks["ledger"]["median_ms"] < clocks["total"]["median_ms"]
    assert clocks["prefill"] is None
    assert told["memory"]["resident_bytes"] > 1 << 20
    status, out, _ = run(str(SAMPLE), "--units", "3")
    assert status == 0
    assert "units: sample.mp4" in out
    assert "all (3)" in out


def test_a_named_snapshot_is_timed_by_the_models_own_engine(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(trials_of_product, "load_for_trial", lambda settings: trial())
    monkeypatch.setenv("OMNAI_MODEL_SNAPSHOT", str(tmp_path))
    status, out, _ = run("--units", "8", "--json")
    told = json.loads(out)
    assert (status, told["engine"]["name"]) == (0, "minicpmo")
    clocks = told["figures"]["speaking"]["clocks"]
    assert [name for name, clock in clocks.items() if clock is None] == []
    assert told["figures"]["drain"]["units"] == 1
    status, out, _ = run("--units", "8")
    assert "prefill_cost_all" in out
    assert "the model code's own figures, by its wall clock" in out
    status, out, _ = run("--engine", "rehearsal", "--units", "1", "--json")
    assert json.loads(out)["engine"]["name"] == "rehearsal"


def test_a_broken_run_shows_what_it_measured_and_ends_with_1(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = trial(ModelDouble(raises_in_generate={2}))
    monkeypatch.setattr(trials_of_product, "load_for_trial", lambda settings: broken)
    status, out, error = run("--engine", "minicpmo")
    assert status == 1
    assert "all (2)" in out
    assert "the run broke off" in error
    assert not list(tmp_path.glob("bench-*"))


def test_an_unknown_engine_is_refused_with_those_that_are_known(run: Callable[..., Ran]) -> None:
    status, _, error = run("--engine", "oracle")
    assert status == 2
    assert "rehearsal, minicpmo" in error
