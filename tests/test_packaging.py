"""The packages are ours, and what is installed with them is pinned."""

from __future__ import annotations

import importlib
import re
import subprocess
from pathlib import Path

import pytest

LOCKS = ("requirements.txt", "requirements-test.txt")


@pytest.mark.parametrize("name", ["omnai", "api", "worker", "pipeline"])
def test_a_package_with_a_common_name_is_the_one_of_this_checkout(
    name: str, repository: Path
) -> None:
    module = importlib.import_module(name)
    assert module.__file__ == str(repository / name / "__init__.py")


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash_and_no_source_is_named(lock: str, repository: Path) -> None:
    text = (repository / lock).read_text()
    pins = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert len(pins) > 20
    for pin in pins:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+", pin), pin
        assert "--hash=sha256:" in pin, pin
    assert "://" not in text
    assert "\n--" not in text


def test_the_two_locks_agree(repository: Path) -> None:
    run, test = (
        set(re.findall(r"^[a-z0-9._-]+==\S+", (repository / lock).read_text(), re.MULTILINE))
        for lock in LOCKS
    )
    assert run < test


@pytest.mark.parametrize("script", ["setup", "demo", "test", "lock"])
def test_a_script_is_a_program_that_the_shell_can_read(script: str, repository: Path) -> None:
    path = repository / "scripts" / script
    assert path.stat().st_mode & 0o111
    subprocess.run(["sh", "-n", path], check=True)
