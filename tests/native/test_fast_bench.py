"""Both decoders timed over the same seconds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnai.cli import app
from omnai.trial.feed import made_up
from tests.native import conftest

torch = pytest.importorskip("torch", reason=conftest.NEEDS_TORCH)
pytest.importorskip("transformers", reason=conftest.NEEDS_TORCH)

from omnai.trial.compared_decoders import figures, show_decoders  # noqa: E402
from pipeline.engine.minicpm import trial  # noqa: E402
from pipeline.engine.minicpm.engine import MinicpmoEngine  # noqa: E402
from pipeline.engine.minicpm.fast import comparison as comparing  # noqa: E402
from pipeline.engine.minicpm.fast.agreement import Against, Agreement, FromExact, Tie  # noqa: E402
from pipeline.engine.minicpm.fast.check import Distances  # noqa: E402
from pipeline.engine.minicpm.fast.comparison import Case, Comparison, compare  # noqa: E402
from pipeline.engine.minicpm.fast.decoder import FastDecoder  # noqa: E402
from pipeline.settings import Settings  # noqa: E402
from tests.native import harness  # noqa: E402

Ran = tuple[int, str, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    for name in [name for name in os.environ if name.startswith("OMNAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMNAI_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Ran:
        asked = CliRunner().invoke(app, ["bench", "engine", "--compare", *arguments])
        return asked.exit_code, asked.stdout, asked.stderr

    return call


def case(decoder: str, took_ms: float, forwards: int, *, speaks: bool, full: bool) -> Case:
    return Case(
        decoder=decoder,
        is_speaking=speaks,
        is_full=full,
        cached_tokens=7_000 if full else 900,
        unit_ms=(took_ms, took_ms + 1, took_ms + 200),
        forwards=forwards,
        parts_ms={},
    )


KINDS = [(speaks, full) for speaks in (False, True) for full in (False, True)]

MEASURED = Comparison(
    device="a card",
    cases=(
        *(
            case("official", 1999 if s else 399, 72 if s else 15, speaks=s, full=f)
            for s, f in KINDS
        ),
        *(case("fast", 99 if s else 19, 57 if s else 3, speaks=s, full=f) for s, f in KINDS),
    ),
    weight_bytes=16_000_000_000,
    copy_bytes_per_s=4e12,
    peak_bytes={"official": 18 * 1024**3, "fast": None},
    making_s=6.04,
    distances=Distances(fast=0.02, official=0.015, worst=0.3),
    agreement=Agreement(
        reads=1_200,
        spread=2.0,
        fast=Against(
            distance=0.055,
            worst=0.3,
            differ=(Tie(read=17, token=5, other=6, margin=0.03, gap=0.04, other_margin=0.01),),
        ),
        batched=Against(distance=0.043, worst=0.2, differ=()),
        exact=None,
    ),
)


def test_the_figures_can_be_checked_by_hand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    compared = figures(MEASURED)
    first = compared.rows[0]
    assert (first.decision, first.cache, first.cached_tokens) == ("listening", "short", 900)
    assert (first.official.median_ms, first.official.p95_ms) == (400.0, 599.0)
    assert (first.times, first.fast_times_realtime) == (20.0, 50.0)
    assert (first.official_forwards, first.fast_forwards) == (5.0, 1.0)
    assert compared.floor_ms == 4.0
    # Eighteen passes more take eighty milliseconds more.
    assert compared.spoken_token_ms == {"short": 4.444, "full": 4.444}
    assert compared.spoken_token_floors == {"short": 1.11, "full": 1.11}
    show_decoders(compared)
    shown = capsys.readouterr().out
    for words in ("20.0", "400.0 / 599.0", "4.00 ms a forward pass", "official 18.00 GiB"):
        assert words in shown
    (ours, theirs) = compared.same_tokens.measured
    assert (ours.of, ours.against, len(ours.differ), len(theirs.differ)) == (
        *("fast", "official"),
        *(1, 0),
    )
    tie = ours.differ[0]
    assert (tie.margin_share, tie.gap_share, tie.other_margin_share) == (0.015, 0.02, 0.005)
    for words in (
        "1,200 reads of the same tokens",
        "fast from official: 0.05500 of the spread, another token in 1",
        "read 17: the best two 0.0300 apart (0.01500 of the spread), the other's 0.0100",
        "no room on the device",
    ):
        assert words in shown


def test_distances_from_float32_are_shown_where_they_were_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = [Against(distance=each / 1000, worst=0.1, differ=()) for each in (21, 22, 23)]
    exact = FromExact(official=found[0], batched=found[1], fast=found[2])
    show_decoders(figures(replace(MEASURED, agreement=replace(MEASURED.agreement, exact=exact))))
    shown = capsys.readouterr().out
    assert "fast from official in float32: 0.02300 of the spread" in shown
    assert "official in batches from official in float32: 0.02200" in shown
    assert "no room" not in shown


def test_a_run_makes_both_decoders_listen_and_speak_over_the_same_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparing, "WARM_UNITS", 1)
    monkeypatch.setattr(comparing, "FULL_SHARE", 0.3)
    monkeypatch.setattr(comparing, "COPY_BYTES", 16 * 1024**2)
    loaded, said = harness.load_double(), []
    compared = compare(loaded, list(made_up(3)), count=2, say=said.append)
    kinds = [(each.decoder, each.is_speaking, each.is_full) for each in compared.cases]
    assert kinds == [
        (name, *kind)
        for name in ("official", "fast")
        for kind in [(speaks, full) for full in (False, True) for speaks in (False, True)]
    ]
    passes = [each.forwards for each in compared.cases]
    assert passes == [10, 48, 10, 48, 2, 38, 2, 38]
    cached = [each.cached_tokens for each in compared.cases]
    assert cached[:4] == cached[4:]
    assert isinstance(loaded.duplex.decoder, FastDecoder)
    assert compared.peak_bytes == {"official": None, "fast": None}
    assert compared.floor_ms > 0
    assert compared.agreement.reads == 1 + 19
    assert len(said) == 11


def test_the_command_prints_the_comparison(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Settings] = []

    def loading(settings: Settings) -> trial.Trial:
        asked.append(settings)
        loaded = harness.load_double()
        return trial.Trial(engine=MinicpmoEngine(loaded), witness=None, construction=None)  # type: ignore[arg-type]

    monkeypatch.setattr(trial, "load_for_trial", loading)
    monkeypatch.setattr(comparing, "compare", lambda *given, **named: MEASURED)
    code, out, err = run("--units", "2", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert [row["times"] for row in told["rows"]] == [20.0, 20.0, 20.0, 20.0]
    assert asked[0].decoder == "official"  # the fast one is made after the official one's turn
    code, out, _ = run("--units", "2")
    assert (code, "speaking, full cache" in out) == (0, True)


def test_what_cannot_be_compared_is_refused(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run("--engine", "rehearsal")
    assert code != 0
    assert "rehearsal has one decoder" in err
    loaded = harness.load_double()
    loaded.model.llm.config.rope_scaling = {"type": "linear"}  # type: ignore[attr-defined]
    made = trial.Trial(engine=MinicpmoEngine(loaded), witness=None, construction=None)  # type: ignore[arg-type]
    monkeypatch.setattr(trial, "load_for_trial", lambda settings: made)
    monkeypatch.setattr(comparing._Course, "run", lambda self, count: None)
    with pytest.raises(trial.NotCompared, match="scaled"):
        trial.compare_decoders(Settings(), [], count=1, say=lambda text: None)
