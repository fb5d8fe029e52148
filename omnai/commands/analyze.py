"""`omnai analyze`: one recording to a brief, in one process."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

import omnai
from omnai import display
from omnai.asked import Asked, AudioStream, VideoStream, check
from omnai.exits import Exit, refusals
from omnai.stores import Stores, opened
from pipeline.engine.registry import ENGINES
from pipeline.plain import to_plain
from pipeline.records import (
    EndReason,
    JobState,
    MediaEvent,
    Options,
    RecordingRecord,
    SessionContext,
)
from pipeline.request import build_request
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.publish import Published
    from pipeline.run import Outcome, Watch

HASH_BYTES = 1 << 20


def analyze(
    file: Annotated[Path, typer.Argument(help="The recording.", show_default=False)],
    portfolio: Annotated[Path, typer.Option(help="Holdings, as JSON or CSV.", show_default=False)],
    objective: Annotated[
        str, typer.Option(help="What the brief should look for.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder for the brief.", show_default=False)],
    title: Annotated[str | None, typer.Option(help="Name of the event.")] = None,
    event_date: Annotated[str | None, typer.Option(help="Its day, YYYY-MM-DD.")] = None,
    engine: Annotated[str, typer.Option(help=f"One of: {', '.join(ENGINES)}.")] = "rehearsal",
    start_s: Annotated[int, typer.Option(help="First source second.")] = Options.start_s,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn at random.")] = Options.seed,
    output_max_tokens_per_unit: Annotated[
        int, typer.Option(help="8 to 64.")
    ] = Options.output_max_tokens_per_unit,
    frame_longest_edge_px: Annotated[
        int, typer.Option(help="112 to 1920.")
    ] = Options.frame_longest_edge_px,
    max_slice_nums: Annotated[int, typer.Option(help="1 to 9.")] = Options.max_slice_nums,
    live_update_interval_seconds: Annotated[
        int, typer.Option(help="1 to 30; accepted for compatibility, without effect.")
    ] = Options.live_update_interval_seconds,
    audio_stream: AudioStream = None,
    video_stream: VideoStream = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Watch a recording and write brief.json, brief.md, brief.html and its frames to a folder."""
    with refusals(as_json=json_):
        settings = Settings.from_environment()
        asked = check(
            file,
            portfolio,
            out,
            lambda: build_request(
                objective=objective,
                title=title,
                event_date=event_date,
                engine=engine,
                options={
                    "start_s": start_s,
                    "seed": seed,
                    "output_max_tokens_per_unit": output_max_tokens_per_unit,
                    "frame_longest_edge_px": frame_longest_edge_px,
                    "max_slice_nums": max_slice_nums,
                    "live_update_interval_seconds": live_update_interval_seconds,
                    "audio_stream": audio_stream,
                    "video_stream": video_stream,
                },
                engines=ENGINES,
            ),
        )
        status = _analyze(asked, settings, as_json=json_)
    raise typer.Exit(status)


def _analyze(asked: Asked, settings: Settings, *, as_json: bool) -> Exit:
    from pipeline.media_child import MediaChild
    from worker import reaper

    stamp = _stamp(asked.file)
    recording = _fingerprint(asked.file)
    options = asked.request.options
    with MediaChild(
        asked.file,
        limits=settings.media,
        longest_edge_px=options.frame_longest_edge_px,
        start_s=options.start_s,
        audio_stream=options.audio_stream,
        video_stream=options.video_stream,
        tells_coming=True,
    ) as media:
        # A recording that cannot be opened, or has no such second, leaves no trace in the database.
        events = iter(media)
        first = [next(events), next(events)]
        with opened(settings) as stores:
            reaper.clear_local(stores.database, settings)
            job_id, outcome, progress = _watch(
                asked, settings, stores, recording, chain(first, events)
            )
            published = _publish(asked, stores, job_id)
    _show(asked, published, outcome, progress.times_realtime, as_json=as_json)
    if _stamp(asked.file) != stamp:
        display.warn("the recording changed while it was watched; give it once it is finished")
        return Exit.PARTIAL
    return _exit(outcome)


def _stamp(path: Path) -> tuple[int, int]:
    """Differs once the file has been written to."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _watch(
    asked: Asked,
    settings: Settings,
    stores: Stores,
    recording: RecordingRecord,
    events: Iterator[MediaEvent],
) -> tuple[str, Outcome, display.SourceProgress]:
    from pipeline import prompt
    from pipeline.ledger import jobs
    from pipeline.run import Watch
    from worker import slot

    holdings = asked.portfolio.holdings
    text = prompt.system_text(asked.request.objective, holdings)
    prompt.check_context(text, engine=asked.request.engine, folder=settings.model_folder)
    engine = ENGINES[asked.request.engine]()
    key = jobs.start_local(
        stores.database,
        recording=recording,
        request=asked.request,
        holdings=holdings,
        portfolio_sha256=asked.portfolio.sha256,
        engine=engine.describe(),
        prompt_sha256=prompt.prompt_sha256(text),
        slot=slot.local_name(settings),
        host=settings.host_name,
        pid=os.getpid(),
    )
    with display.SourceProgress("watching") as progress:
        watch = Watch(
            key,
            SessionContext(
                epoch=key.number, prompt=text, holdings=holdings, options=asked.request.options
            ),
            engine=engine,
            database=stores.database,
            frames=stores.frames,
            frame_ring=settings.frame_ring,
            on_progress=lambda at: progress.reach(at.source_ms, at.source_end_ms),
        )
        with _stopped_by_signals(watch):
            outcome = watch.run(events)
    return key.job_id, outcome, progress


@contextmanager
def _stopped_by_signals(watch: Watch) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends after the unit in flight; a second one ends at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        watch.stop()

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fingerprint(path: Path) -> RecordingRecord:
    digest = hashlib.sha256()
    done = 0
    with display.reading(path) as file:
        while part := file.read(HASH_BYTES):
            digest.update(part)
            done += len(part)
    return RecordingRecord(
        filename=path.name, sha256=digest.hexdigest(), size_bytes=done, probe=None
    )


def _publish(asked: Asked, stores: Stores, job_id: str) -> Published:
    from pipeline.publish import publish, write_folder

    published = publish(stores.database, job_id, release=omnai.__version__)
    write_folder(
        published.brief, stores.frames, asked.out, recording_href=_href(asked.file, asked.out)
    )
    return published


def _href(file: Path, folder: Path) -> str:
    """The recording's place as a link from the brief."""
    # Bytes, because a file's name need not be text.
    return quote(os.fsencode(os.path.relpath(file.resolve(), folder.resolve())))


def _exit(outcome: Outcome) -> Exit:
    if outcome.state is JobState.SUCCEEDED:
        return Exit.DONE
    if outcome.end_reason is EndReason.DECODE_ERROR:
        return Exit.PARTIAL if outcome.units else Exit.BAD_INPUT
    if outcome.end_reason is EndReason.CANCELED:
        return Exit.PARTIAL
    return Exit.FAULT


def _show(
    asked: Asked, published: Published, outcome: Outcome, times_realtime: float, *, as_json: bool
) -> None:
    brief = published.brief
    paths = {name: str(asked.out / f"brief.{name}") for name in ("html", "md", "json")}
    if as_json:
        display.write_json(
            {
                "job_id": brief.provenance.job_id,
                "state": outcome.state.value,
                "end_reason": outcome.end_reason.value,
                "end_detail": outcome.end_detail,
                "units": outcome.units,
                "findings": to_plain(brief.findings),
                "sha256": published.sha256,
                "briefs": paths,
                "ignored_columns": list(asked.portfolio.ignored_columns),
            }
        )
        return
    table = display.table("moment", "holdings", "observed")
    for finding in brief.findings:
        names = ", ".join(holding.name for holding in finding.holdings)
        table.add_row(
            finding.source.generated_in.text, display.seen(names), display.seen(finding.observed)
        )
    display.say(display.seen(brief.status.headline))
    if brief.findings:
        display.console().print(table)
    else:
        display.say("No findings; silence is not evidence of absence.")
    if outcome.end_detail is not None:
        display.say(display.seen(outcome.end_detail))
    display.say(f"{outcome.units} source seconds at {times_realtime:.1f}× realtime")
    if asked.portfolio.ignored_columns:
        names = ", ".join(asked.portfolio.ignored_columns)
        display.say(display.seen(f"portfolio columns that were not read: {names}"))
    for name, path in paths.items():
        display.say(f"brief.{name}: ", display.seen(path))
