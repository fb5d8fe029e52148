"""What the documents promise is what the code has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer.main

from omnai.cli import app
from omnai.exits import Exit
from pipeline.settings import MediaLimits, Settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def commands() -> list[str]:
    return sorted(
        set(
            re.findall(
                r"^omnai ((?:db|services|keys|jobs|recordings) \w+|\w+)", README, re.MULTILINE
            )
        )
    )


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_readme_exists(command: str) -> None:
    found: Any = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]


def test_the_readme_lists_every_setting_and_no_other() -> None:
    known = {f"OMNAI_{f.name}".upper() for f in fields(Settings) if f.name != "media"}
    known |= {f"OMNAI_MEDIA_{f.name}".upper() for f in fields(MediaLimits)}
    assert set(re.findall(r"^\| `(OMNAI_\w+)`", README, re.MULTILINE)) == known


@pytest.mark.parametrize("limit", ["cpu_s", "duration_s", "span_s", "edge_px", "frame_pixels"])
def test_the_readme_gives_the_limits_as_they_are(limit: str) -> None:
    said = re.search(rf"`OMNAI_MEDIA_{limit.upper()}` \| (\d+) ", README)
    assert said is not None
    assert int(said.group(1)) == getattr(MediaLimits(), limit)


def documents() -> list[Path]:
    """Ours; environments and data lie in the checkout too, under names that git ignores."""
    found = ROOT.rglob("*.md")
    return [
        path
        for path in found
        if not path.relative_to(ROOT).parts[0].startswith((".", "var", "node_modules"))
    ]


def test_the_readme_explains_every_exit_status() -> None:
    assert {int(number) for number in re.findall(r"^\| (\d) \|", README, re.MULTILINE)} == set(Exit)


@pytest.mark.parametrize("document", documents())
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_make_help_lists_the_habits() -> None:
    targets = re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = {"setup", "test", "lint", "types", "imports", "migrate", "demo", "bench"}
    assert wanted <= set(targets)
