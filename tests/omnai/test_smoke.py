"""A first run: what was seen is said, what differs is told, what was not seen is not claimed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from omnai.cli import app
from omnai.trial.facts import Seen, Standing, facts
from omnai.trial.feed import made_up
from omnai.trial.first_run import observe
from pipeline.engine.minicpm import trial as trials_of_product
from pipeline.engine.minicpm.lock import read_lock
from pipeline.engine.minicpm.trial import Trial
from pipeline.engine.minicpm.witness import Construction, Witness, watched_construction
from pipeline.errors import MediaStopped
from pipeline.settings import Settings
from tests.native.conftest import NEEDS_TORCH
from tests.omnai.trials import trial
from tests.pipeline.engine.minicpm import upstream
from tests.pipeline.engine.minicpm.doubles import DuplexDouble, ModelDouble
from tests.pipeline.engine.minicpm.test_device import FIRST, Driver

SAMPLE = Path(__file__).parents[2] / "samples" / "sample.mp4"

UNSEEN_IN_DOUBLE = {
    "weights_dtype",
    "attention",
    "forced_listening",
    "protected_boundary",
    "first_unit_samples",
    "first_unit_consumed",
    "later_units_consumed",
    "prefill_tokens_without_frame",
    "window_low",
    "reset_audio_cache",
}
"""The double has no encoder, no GPU, no forcing and no such books, and its window never fell."""

Ran = tuple[int, str, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """`omnai model smoke` with its data in a folder of this test, on a host without a driver."""
    for name in [name for name in os.environ if name.startswith("OMNAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMNAI_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    def call(*arguments: str) -> Ran:
        asked = CliRunner().invoke(app, ["model", "smoke", *arguments])
        return asked.exit_code, asked.stdout, asked.stderr

    return call


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[Trial], list[Settings]]:
    """Has the command load this instead; the list tells whether it did."""

    def loads(made: Trial) -> list[Settings]:
        asked: list[Settings] = []
        monkeypatch.setattr(
            trials_of_product, "load_for_trial", lambda given: asked.append(given) or made
        )
        return asked

    return loads


@pytest.fixture(scope="module")
def seen() -> Seen:
    return observe(trial(), made_up(9))


def standings(seen: Seen) -> dict[str, Standing]:
    return {fact.name: fact.standing for fact in facts(seen)}


def test_a_first_run_tells_units_window_clocks_and_each_contract_as_json(
    run: Callable[..., Ran], load: Callable[[Trial], list[Settings]]
) -> None:
    load(trial())
    status, out, _ = run(str(SAMPLE), "--seconds", "9", "--json")
    report = json.loads(out)
    assert status == 0
    assert report["engine"]["revision"] == read_lock().revision
    assert report["units"] == {
        "source": 9,
        "drain": 1,
        "listen": 7,
        "speak": 3,
        "turns_ended": 2,
        "text_tokens": 3 + 5 + 5,
    }
    window = report["window"]
    assert (window["high_tokens"], window["low_tokens"], window["units"]) == (8_000, 6_000, 10)
    assert window["cached_tokens"] > window["context_tokens"] > 1_000
    figures = report["figures"]
    assert (figures["listening"]["units"], figures["speaking"]["units"]) == (6, 3)
    assert figures["all"]["clocks"]["ledger"] is None
    assert figures["all"]["clocks"]["prefill"]["count"] == 9
    assert figures["all"]["upstream_wall_clock"]["prefill_cost_all"]["median_ms"] == 4.0
    assert figures["all"]["times_realtime"] > 1
    assert report["memory"]["resident_bytes"] > 1 << 20
    assert report["memory"]["gpu_allocated_bytes"] is None
    assert report["end"] == {"is_audio_consumed": True, "is_utterance_open": False}
    by_name = {fact["name"]: fact for fact in report["facts"]}
    assert by_name["first_unit_left"]["found"] == [80]
    assert by_name["later_units_left"]["times"] == 9
    unseen = {name for name, fact in by_name.items() if fact["standing"] == "not observed"}
    assert unseen == UNSEEN_IN_DOUBLE - {"prefill_tokens_without_frame"}
    assert {fact["standing"] for fact in by_name.values()} == {"observed", "not observed"}


def test_each_thing_that_was_seen_is_one_sentence_for_a_person(
    run: Callable[..., Ran], load: Callable[[Trial], list[Settings]]
) -> None:
    load(trial())
    status, out, _ = run(str(SAMPLE), "--seconds", "4")
    assert status == 0
    lines = out.splitlines()
    assert (
        "observed: Samples left in the native buffer after the first unit: 80, in 1 of 1"
        " observations." in lines
    )
    assert "not observed: Samples that the first unit consumes: not observed in this run." in lines
    assert not [line for line in lines if line.startswith("differs: ")]


def test_all_that_can_be_seen_of_the_double_is_as_expected(seen: Seen) -> None:
    found = standings(seen)
    assert {name for name, s in found.items() if s is Standing.DIFFERS} == set()
    not_seen = {name for name, s in found.items() if s is Standing.NOT_OBSERVED}
    # Nine units have a picture each; the tenth is the drain's silence, without one.
    assert not_seen == UNSEEN_IN_DOUBLE - {"prefill_tokens_without_frame"}


def _with(what: str, **changes: Any) -> Callable[[Seen], Seen]:
    return lambda seen: replace(seen, **{what: replace(getattr(seen, what), **changes)})


def _native(number: int, **changes: Any) -> Callable[[Seen], Seen]:
    def change(seen: Seen) -> Seen:
        natives = list(seen.natives)
        natives[number] = replace(natives[number], **changes)
        return replace(seen, natives=tuple(natives))

    return change


def _reply(number: int, **changes: Any) -> Callable[[Seen], Seen]:
    def change(seen: Seen) -> Seen:
        steps = list(seen.course.steps)
        step = steps[number]
        steps[number] = replace(step, reply=replace(step.reply, **changes))
        return replace(seen, course=replace(seen.course, steps=tuple(steps)))

    return change


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda seen: replace(seen, construction=Construction(own_calls=1)), "init_tts_not_run"),
        (
            lambda seen: replace(seen, construction=Construction(is_restored=False)),
            "init_tts_restored",
        ),
        (lambda seen: replace(seen, forced_listening=3), "forced_listening"),
        (lambda seen: replace(seen, context_tokens=1), "context_cached"),
        (_with("prepared", protected=7), "protected_boundary"),
        (lambda seen: replace(seen, context_feeds=(257, 2)), "context_batches"),
        (lambda seen: replace(seen, reopening=(True, 1)), "reopening_native_calls"),
        (lambda seen: replace(seen, damaged_unit=(False, 2)), "damaged_unit"),
        (lambda seen: replace(seen, repeated_unit=(True, 2)), "repeated_unit_native_calls"),
        (_native(0, buffer_at_encoder=16_000), "first_unit_samples"),
        (_native(0, buffer_at_encoder=16_561), "first_unit_consumed"),
        (_native(0, buffer_after_prefill=0), "first_unit_left"),
        (_native(3, buffer_after_prefill=81), "later_units_left"),
        (_native(1, cached_before=0), "prefill_tokens_with_frame"),
        (_native(0, cached_after=0), "listening_tokens"),
        (_native(2, tokens=9), "speaking_tokens"),
        (_native(2, tokens=19), "text_tokens_cap"),
        (_native(0, was_turn_open=True), "turn_kept_open"),
        (_native(1, units_after=9), "window_units"),
        (_native(1, cached_after=8_001), "window_high"),
        (_native(1, units_after=0, cached_after=6_001), "window_low"),
        (_native(9, is_silence=False), "drain_is_silence"),
        (_reply(3, generation_id="1-9"), "generation_ids"),
        (_reply(6, generation_id="1-1"), "generation_ids"),
        (_reply(0, text="hello"), "listening_is_nameless"),
        (_reply(1, cached_tokens=1), "window_tokens_reported"),
        (lambda seen: replace(seen, statistics_helper="returned"), "statistics_helper"),
        (_with("closed", cached=1), "reset_cache"),
        (_with("closed", units=1), "reset_units"),
        (_with("closed", buffer=80), "reset_buffer"),
    ],
)
def test_what_differs_is_told_by_name(
    seen: Seen, change: Callable[[Seen], Seen], name: str
) -> None:
    (fact,) = (fact for fact in facts(change(seen)) if fact.name == name)
    assert fact.standing is Standing.DIFFERS
    assert "expected" in fact.sentence


def test_an_encoder_that_remembers_past_the_end_differs(seen: Seen) -> None:
    books = tuple(replace(books, has_audio_cache=True) for books in seen.after_units)
    known = replace(seen, after_units=books)
    kept = replace(known, closed=replace(seen.closed, has_audio_cache=True))
    emptied = replace(known, closed=replace(seen.closed, has_audio_cache=False))
    assert standings(kept)["reset_audio_cache"] is Standing.DIFFERS
    assert standings(emptied)["reset_audio_cache"] is Standing.OBSERVED
    assert standings(seen)["reset_audio_cache"] is Standing.NOT_OBSERVED


def test_files_that_nobody_verified_are_not_said_to_be_verified() -> None:
    let_through = observe(trial(unverified_files="utils.py"), made_up(1))
    assert standings(let_through)["snapshot_verified"] is Standing.NOT_OBSERVED


def test_a_run_that_differs_ends_with_3_and_one_that_fails_with_1_and_both_report(
    run: Callable[..., Ran], load: Callable[[Trial], list[Settings]]
) -> None:
    made = trial()
    made.witness.loaded.duplex.force_listen_count = 3  # type: ignore[attr-defined]
    load(made)
    status, out, _ = run(str(SAMPLE), "--seconds", "1")
    assert status == 3
    assert "differs: Units that are forced to listen: 3 in 1 of 1 observations; expected 0." in out
    load(trial(ModelDouble(raises_in_generate={2})))
    status, out, _ = run(str(SAMPLE), "--seconds", "4", "--json")
    report = json.loads(out)
    assert (status, report["fault"]["code"], report["units"]["source"]) == (1, "epoch_uncertain", 2)
    by_name = {fact["name"]: fact["standing"] for fact in report["facts"]}
    assert by_name["drain_consumed"] == "not observed"
    assert by_name["reset_cache"] == "observed"


def test_a_recording_that_breaks_off_is_reported_up_to_there_and_ends_with_3(
    run: Callable[..., Ran],
    load: Callable[[Trial], list[Settings]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any, **__: Any) -> Iterator[Any]:
        yield from made_up(2)
        raise MediaStopped("decoder_crashed", "the decoder crashed", last_source_ms=2_000)

    load(trial())
    monkeypatch.setattr("omnai.trial.feed.first_seconds", broken)
    status, out, _ = run(str(SAMPLE), "--json")
    report = json.loads(out)
    assert (status, report["fault"]["code"]) == (3, "decoder_crashed")
    assert report["units"]["source"] == 2
    assert {fact["standing"] for fact in report["facts"]} == {"observed", "not observed"}


def test_the_constructor_is_watched_and_the_class_is_left_as_it_was() -> None:
    class Rendering(ModelDouble):
        def init_tts(self, **settings: Any) -> None:
            """Would be run by whoever does not replace it."""

    class Careless(DuplexDouble):
        def __init__(self, model: ModelDouble) -> None:
            super().__init__(model)
            type(model).init_tts(model)

    class Bypassed(Rendering):
        def as_duplex(self, **settings: Any) -> DuplexDouble:
            return Careless(self)

    own = Rendering.init_tts
    assert trial(Rendering()).construction == Construction(own_calls=0, is_restored=True)
    assert trial(Bypassed()).construction == Construction(own_calls=1, is_restored=True)
    assert Rendering.init_tts is own
    with watched_construction() as nothing:
        pass
    assert nothing == Construction(own_calls=None, is_restored=None)


def test_the_models_own_methods_are_its_own_again_after_the_run() -> None:
    made = trial()
    observe(made, made_up(1))
    duplex = made.witness.loaded.duplex
    assert "streaming_prefill" not in vars(duplex)
    assert "streaming_generate" not in vars(duplex)
    assert "feed" not in vars(duplex.decoder)


def test_a_recording_that_cannot_be_watched_is_refused_before_the_model_is_loaded(
    run: Callable[..., Ran], load: Callable[[Trial], list[Settings]], tmp_path: Path
) -> None:
    asked = load(trial())
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no recording")
    status, out, error = run(str(broken))
    assert (status, out, asked) == (2, "", [])
    assert "error: " in error


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Driver(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    monkeypatch.setenv("OMNAI_GPU", "7")
    status, out, error = run(str(SAMPLE), "--json")
    assert (status, out) == (2, "")
    (problem,) = json.loads(error)["problems"]
    assert problem["code"] == "gpu_refused"
    assert FIRST in problem["message"]


def test_an_unverified_model_is_refused_unless_the_operator_lets_it_through(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = upstream.bare(read_lock())
    monkeypatch.setattr(trials_of_product, "read_lock", lambda: bare)
    upstream.write(tmp_path / "model", bare)
    status, _, error = run(str(SAMPLE), "--json")
    assert (status, json.loads(error)["error"]) == (2, "snapshot_refused")
    monkeypatch.setenv("OMNAI_MODEL_ALLOW_UNVERIFIED", "yes")
    status, _, error = run(str(SAMPLE), "--json")
    assert status != 0
    assert '"error": "snapshot_refused"' not in error


def test_a_tiny_network_is_seen_to_keep_every_contract_of_its_units() -> None:
    pytest.importorskip("torch", reason=NEEDS_TORCH)
    pytest.importorskip("transformers", reason=NEEDS_TORCH)
    from pipeline.engine.minicpm.engine import MinicpmoEngine
    from tests.native import harness

    with watched_construction() as construction:
        from pipeline.engine.minicpm import loading

        loaded = harness.load_double()
        duplex = loading.text_only_duplex(loaded.model, **loading.duplex_settings(loaded.decode))
    loaded = replace(loaded, duplex=duplex)
    made = Trial(engine=MinicpmoEngine(loaded), witness=Witness(loaded), construction=construction)
    found = standings(observe(made, made_up(6)))
    assert {name for name, s in found.items() if s is Standing.DIFFERS} == set()
    for name in (
        "init_tts_not_run",
        "init_tts_restored",
        "forced_listening",
        "protected_boundary",
        "first_unit_left",
        "later_units_left",
        "prefill_tokens_with_frame",
        "histories_trimmed",
        "drain_consumed",
        "reset_audio_cache",
    ):
        assert found[name] is Standing.OBSERVED, name
