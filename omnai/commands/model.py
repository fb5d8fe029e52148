"""`omnai model`: the model's files and the packages that it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnai import display
from omnai.commands.smoke import smoke
from omnai.exits import Exit, refusals
from pipeline.plain import to_plain
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.engine.minicpm.sources import SourceReport

app = typer.Typer(help="The model's files and its runtime.", no_args_is_help=True)

app.command("smoke")(smoke)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")]


@app.command()
def download(json_: AsJson = False) -> None:
    """Fetch the locked snapshot, without its assets; goes on where an earlier try broke off."""
    _fetch(as_json=json_, only=None)


@app.command()
def tokenizer(json_: AsJson = False) -> None:
    """Fetch only what counting tokens needs, for a host that has no GPU."""
    from pipeline.prompt import TOKENIZER_FILES, TokenCounter

    settings = _fetch(as_json=json_, only=TOKENIZER_FILES)
    with refusals(as_json=json_):
        from pipeline.engine.minicpm.lock import read_lock
        from pipeline.engine.minicpm.tokens import resolve

        resolve(read_lock().required_tokens, TokenCounter(settings.model_folder).token_id)


@app.command()
def verify(
    published: Annotated[
        bool,
        typer.Option("--published", help="Check the files as their hosts publish them instead."),
    ] = False,
    json_: AsJson = False,
) -> None:
    """Compare the snapshot's small files with the lock, and what the adapter relies on in them."""
    with refusals(as_json=json_):
        from pipeline.engine.minicpm import sources
        from pipeline.engine.minicpm.lock import read_lock

        lock = read_lock()
        if published:
            report = sources.check_published(lock)
        else:
            report = sources.check_snapshot(lock, Settings.from_environment().model_folder)
    raise typer.Exit(show(report, as_json=json_))


@app.command()
def runtime(json_: AsJson = False) -> None:
    """Compare the installed packages, those of CUDA included, with the pinned ones."""
    with refusals(as_json=json_):
        from pipeline.engine.minicpm.runtime import differences, installed, read_pins

        pins = read_pins()
        different = differences(pins, installed())
    if json_:
        display.write_json({"pinned": len(pins), "differences": to_plain(different)})
    elif different:
        table = display.table("package", "pinned", "installed")
        for each in different:
            table.add_row(each.name, each.wanted, display.seen(each.found or "–"))
        display.console().print(table)
        display.say(f"{len(different)} differences from the pinned runtime of {len(pins)} packages")
    else:
        display.say(f"All {len(pins)} packages of the pinned runtime are installed as pinned.")
    raise typer.Exit(Exit.FAULT if different else Exit.DONE)


def show(report: SourceReport, *, as_json: bool) -> Exit:
    """Print what a check found; unverified is neither right nor wrong, and has its own status."""
    if as_json:
        display.write_json({"is_verified": report.is_verified, **to_plain(report)})
    else:
        table = display.table("file", "of", "standing", "sha256")
        for found in report.files:
            table.add_row(
                found.file.path,
                f"{found.file.repository}@{found.file.revision[:12]}",
                found.standing.value,
                found.sha256 or "–",
            )
        display.console().print(table)
        for problem in report.problems:
            display.warn(f"{problem.where}: {problem.message}")
        display.say(_verdict(report))
    if report.problems:
        return Exit.BAD_INPUT
    return Exit.DONE if report.is_verified else Exit.PARTIAL


def _verdict(report: SourceReport) -> str:
    if report.problems:
        return f"{len(report.problems)} problems; these are not the files that the adapter is for."
    if report.is_verified:
        return f"All {len(report.files)} files are the locked ones and keep the contracts."
    return (
        "The contracts hold. Nobody has verified some of the files yet: scripts/lock_model.py"
        " records them."
    )


def _fetch(*, as_json: bool, only: tuple[str, ...] | None) -> Settings:
    with refusals(as_json=as_json):
        from pipeline.engine.minicpm.download import download
        from pipeline.engine.minicpm.lock import read_lock

        settings = Settings.from_environment()
        lock, folder = read_lock(), settings.model_folder
        paths = download(lock, folder, only=only)
        if as_json:
            told = {"folder": str(folder), "revision": lock.revision, "files": list(paths)}
            display.write_json(told)
        else:
            display.say(f"{lock.repository} at {lock.revision}: {len(paths)} files")
            display.say(display.seen(str(Path(folder))))
    return settings
