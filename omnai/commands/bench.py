"""`omnai bench`: how long an engine takes for a source second."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnai import display
from omnai.exits import Exit, refusals
from pipeline.engine.registry import ENGINES
from pipeline.errors import InputRefused, Problem
from pipeline.plain import to_plain
from pipeline.records import EndReason, JobState
from pipeline.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnai.trial.written import Written
    from pipeline.engine.session import Engine
    from pipeline.records import Unit
    from pipeline.run import Outcome

NATIVE = "minicpmo"

app = typer.Typer(help="How fast it is on this machine.", no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """How fast it is on this machine."""


@app.command("engine")
def engine(
    file: Annotated[
        Path | None,
        typer.Argument(help="A recording; none makes units of a tone and a picture."),
    ] = None,
    units: Annotated[int, typer.Option(min=1, max=36_000, help="At most so many units.")] = 30,
    engine: Annotated[
        str | None,
        typer.Option(
            help=f"One of: {', '.join(ENGINES)}. None takes {NATIVE} where OMNAI_MODEL_SNAPSHOT"
            " names a folder, else OMNAI_ENGINE.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            help=f"Time {NATIVE} with the official and with the fast decoder, made to listen and"
            " to speak, over so many units of each kind."
        ),
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Time each unit inside an engine: median, p95, × realtime, tokens per second, peak memory.

    Nothing waits for the GPU to be measured. The units are written to a database that is started
    for this run and removed after it.
    """
    with refusals(as_json=json_):
        settings = Settings.from_environment()
        name = engine or (settings.engine if settings.model_snapshot is None else NATIVE)
        if compare:
            _compare(engine or NATIVE, file, units, settings, as_json=json_)
            return
        with ExitStack() as opened:
            fed = _units(file, settings, units, opened)
            made = _engine(name, settings)
            written = _run(made, fed, settings)
        _show(made, written, "made up" if file is None else file.name, as_json=json_)
    raise typer.Exit(_exit(written.outcome))


@app.command("decode")
def decode(
    file: Annotated[Path, typer.Argument(help="The recording.", show_default=False)],
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each kind, in turn.")] = 3,
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="Keep everything to so many cores.", show_default="all"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Time the recording from file to units, and on through the loop with the rehearsal engine,
    beside FFmpeg doing the same on the same cores: one picture a second and 16 kHz mono.

    The loop stores in a database of its own, which is gone afterwards.
    """
    from omnai.trial.compared import show_comparison
    from omnai.trial.decoding import compare
    from omnai.trial.ffmpeg import find_ffmpeg
    from omnai.trial.loop import throw_away_loop

    with refusals(as_json=json_):
        settings = Settings.from_environment()
        compared = compare(
            file,
            settings,
            rounds=rounds,
            cores=cores,
            ffmpeg=find_ffmpeg(),
            pipeline=lambda: throw_away_loop(file, settings),
        )
    if json_:
        display.write_json(to_plain(compared))
    else:
        show_comparison(compared, file.name)


def _units(file: Path | None, settings: Settings, count: int, opened: ExitStack) -> Iterator[Unit]:
    from omnai.trial.feed import first_units, made_up, peeked

    if file is None:
        return made_up(count)
    return peeked(opened.enter_context(closing(first_units(file, settings, count=count))))


def _engine(name: str, settings: Settings) -> Engine:
    if name not in ENGINES:
        raise InputRefused(
            Problem(
                code="engine_unknown",
                where="engine",
                message="no engine of this name; one of these would be accepted:"
                f" {', '.join(ENGINES)}",
            )
        )
    if name != NATIVE:
        return ENGINES[name]()
    from pipeline.engine.minicpm import trial

    return trial.load_for_trial(settings).engine


def _run(engine: Engine, units: Iterator[Unit], settings: Settings) -> Written:
    from omnai.trial.written import run_written

    return run_written(engine, units, settings)


def _compare(
    name: str, file: Path | None, count: int, settings: Settings, *, as_json: bool
) -> None:
    from omnai.trial.compared_decoders import figures, show_decoders
    from pipeline.engine.minicpm import trial

    if name != NATIVE:
        raise InputRefused(
            Problem(
                code="engine_without_decoders",
                where="engine",
                message=f"{name} has one decoder; {NATIVE} would be accepted",
            )
        )
    with ExitStack() as opened:
        fed = list(_units(file, settings, count, opened))
    compared = figures(trial.compare_decoders(settings, fed, count=count, say=display.say))
    if as_json:
        display.write_json(to_plain(compared))
    else:
        show_decoders(compared)


def _exit(outcome: Outcome) -> Exit:
    if outcome.state is JobState.SUCCEEDED:
        return Exit.DONE
    return Exit.PARTIAL if outcome.end_reason is EndReason.DECODE_ERROR else Exit.FAULT


def _show(engine: Engine, written: Written, source: str, *, as_json: bool) -> None:
    from omnai.trial.figures import by_decision
    from omnai.trial.words import show_figures, show_memory
    from pipeline.engine.minicpm.memory import peak_memory

    info, figures, memory = engine.describe(), by_decision(written.timings), peak_memory()
    outcome = written.outcome
    is_whole = outcome.state is JobState.SUCCEEDED
    if as_json:
        fault = {"code": outcome.end_reason.value, "message": outcome.end_detail}
        display.write_json(
            {
                "engine": to_plain(info),
                "source": source,
                "figures": to_plain(figures),
                "memory": to_plain(memory),
                "fault": None if is_whole else fault,
            }
        )
        return
    display.say(display.seen(f"{info.name} at {info.revision} on {info.device}, units: {source}"))
    show_figures(figures)
    show_memory(memory)
    if not is_whole:
        display.warn(f"the run broke off: {outcome.end_detail or outcome.end_reason.value}")
