"""`omnai model smoke`: a short run over a recording that says what it saw of the model."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnai import display
from omnai.exits import Exit, refusals
from pipeline.errors import EngineError, InputRefused, Problem
from pipeline.plain import to_plain
from pipeline.settings import Settings

if TYPE_CHECKING:
    from omnai.trial.facts import Fact, Seen
    from pipeline.engine.minicpm.memory import PeakMemory
    from pipeline.engine.minicpm.trial import Trial


def smoke(
    file: Annotated[Path, typer.Argument(help="A recording.", show_default=False)],
    seconds: Annotated[
        int, typer.Option(min=1, max=600, help="So many source seconds from its beginning.")
    ] = 30,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")] = False,
) -> None:
    """Load the model, watch a recording's first seconds, and say which contracts were seen to hold.

    Needs no queue and no database. Exit status: 0 where everything that was seen is as expected, 3
    where something differs, 2 where the model or the recording was refused, 1 for a fault.
    """
    with refusals(as_json=json_):
        from omnai.trial.facts import facts
        from omnai.trial.feed import first_seconds, peeked
        from omnai.trial.first_run import observe
        from pipeline.engine.minicpm.memory import peak_memory

        settings = Settings.from_environment()
        with closing(first_seconds(file, settings, seconds=seconds)) as units:
            known = peeked(units)  # loading takes minutes, and a recording may be refused
            seen = observe(_load(settings), known)
        found = facts(seen)
        report = _report(file, seconds, seen, found, peak_memory())
    if json_:
        display.write_json(report)
    else:
        _show(seen, found, peak_memory())
    raise typer.Exit(_exit(seen, found))


def _load(settings: Settings) -> Trial:
    from pipeline.engine.minicpm import trial
    from pipeline.engine.minicpm.device import DeviceRefused
    from pipeline.engine.minicpm.tokens import TokenizerRefused

    try:
        return trial.load_for_trial(settings)
    except (DeviceRefused, TokenizerRefused) as refused:
        problem = Problem(code=refused.code, where="", message=refused.message)
        raise InputRefused(problem) from refused


def _exit(seen: Seen, found: tuple[Fact, ...]) -> Exit:
    from omnai.trial.facts import Standing

    if isinstance(seen.course.fault, EngineError):
        return Exit.FAULT
    differs = any(fact.standing is Standing.DIFFERS for fact in found)
    return Exit.PARTIAL if differs or seen.course.fault is not None else Exit.DONE


def _counts(seen: Seen) -> dict[str, int]:
    from pipeline.records import Decision

    replies = [step.reply for step in seen.course.steps]
    return {
        "source": sum(reply.drain is None for reply in replies),
        "drain": sum(reply.drain is not None for reply in replies),
        "listen": sum(reply.decision is Decision.LISTEN for reply in replies),
        "speak": sum(reply.decision is Decision.SPEAK for reply in replies),
        "turns_ended": sum(reply.is_end_of_turn for reply in replies),
        "text_tokens": sum(reply.tokens for reply in replies),
    }


def _window(seen: Seen) -> dict[str, int | None]:
    replies = [step.reply for step in seen.course.steps]
    last = replies[-1] if replies else None
    return {
        "context_tokens": seen.context_tokens,
        "cached_tokens": None if last is None else last.cached_tokens,
        "cached_tokens_peak": max((reply.cached_tokens or 0 for reply in replies), default=None),
        "units": seen.natives[-1].units_after if seen.natives else None,
        "start_sequence": None if last is None else last.window_start_sequence,
        "high_tokens": seen.decode.basic_window_high_tokens,
        "low_tokens": seen.decode.basic_window_low_tokens,
    }


def _report(
    file: Path, seconds: int, seen: Seen, found: tuple[Fact, ...], memory: PeakMemory
) -> dict[str, Any]:
    from omnai.trial.figures import by_decision

    fault = seen.course.fault
    return {
        "recording": file.name,
        "seconds_asked": seconds,
        "engine": to_plain(seen.info),
        "units": _counts(seen),
        "window": _window(seen),
        "figures": to_plain(by_decision(step.timing for step in seen.course.steps)),
        "memory": to_plain(memory),
        "end": to_plain(seen.course.end),
        "fault": None if fault is None else {"code": fault.code, "message": fault.message},
        "facts": to_plain(found),
    }


def _show(seen: Seen, found: tuple[Fact, ...], memory: PeakMemory) -> None:
    from omnai.trial.figures import by_decision
    from omnai.trial.words import show_figures, show_memory

    info, counts, window = seen.info, _counts(seen), _window(seen)
    display.say(display.seen(f"{info.name} at {info.revision} on {info.device}"))
    for fact in found:
        display.say(f"{fact.standing.value}: ", display.seen(fact.sentence))
    display.say(
        f"{counts['source']} units and {counts['drain']} of the drain: {counts['listen']} listened,"
        f" {counts['speak']} spoke {counts['text_tokens']} text tokens,"
        f" {counts['turns_ended']} turns ended"
    )
    display.say(
        f"window: {window['cached_tokens']} tokens in {window['units']} units at the end, of them"
        f" {window['context_tokens']} of the context; it overflows at {window['high_tokens']}"
    )
    show_figures(by_decision(step.timing for step in seen.course.steps))
    show_memory(memory)
    if seen.course.fault is not None:
        display.warn(f"the run broke off: {seen.course.fault.message}")
