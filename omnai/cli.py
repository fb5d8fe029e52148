"""The `omnai` command."""

from __future__ import annotations

import typer

from omnai.commands import (
    analyze,
    bench,
    capabilities,
    db,
    demo,
    findings,
    ingest,
    jobs,
    keep,
    keys,
    model,
    night,
    queue,
    recordings,
    serve,
    services,
    sweep,
    units,
    watch,
    workers,
)

app = typer.Typer(
    name="omnai",
    help="Watches recordings for investment teams and says what matters, and when.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # they would print portfolios and URLs
    rich_markup_mode=None,
)
app.command("analyze")(analyze.analyze)
app.command("units")(units.units)
app.command("capabilities")(capabilities.capabilities)
app.command("serve")(serve.serve)
app.command("worker")(serve.worker)
app.command("ingest")(ingest.ingest)
app.command("submit")(jobs.submit)
app.command("watch")(watch.watch)
app.command("brief")(jobs.brief)
app.command("search")(findings.search)
app.command("note")(findings.note)
app.command("demo")(demo.demo)
app.command("night")(night.night)
app.command("sweep")(sweep.sweep)
jobs.app.command("delete")(keep.delete)
jobs.app.command("keep")(keep.keep)
jobs.app.command("hold")(keep.hold)
jobs.app.command("release")(keep.release)
app.add_typer(jobs.app, name="jobs")
app.add_typer(recordings.app, name="recordings")
app.add_typer(queue.app, name="queue")
app.add_typer(workers.app, name="workers")
app.add_typer(keys.app, name="keys")
app.add_typer(bench.app, name="bench")
app.add_typer(db.app, name="db")
app.add_typer(model.app, name="model")
app.add_typer(services.app, name="services")


def main() -> None:
    """Entry point of the `omnai` script."""
    app()


if __name__ == "__main__":
    main()
