"""The compose file is valid, and asks only for what the code accepts."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main
import yaml

from omnai.cli import app
from pipeline.settings import PhaseLimits, Settings

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def ours(compose: dict[str, Any]) -> dict[str, Any]:
    """The services that run our own image."""
    return {n: s for n, s in compose["services"].items() if "omnai" in s["image"]}


def test_it_holds_against_the_published_schema(compose: dict[str, Any]) -> None:
    vendor = files("check_jsonschema.builtin_schemas") / "vendor" / "compose-spec.json"
    jsonschema.validate(compose, json.loads(vendor.read_text()))


def test_its_commands_are_commands_of_ours(compose: dict[str, Any]) -> None:
    group: Any = typer.main.get_command(app)
    for service in ours(compose).values():
        command = group
        for word in service["command"]:
            command = command.commands[word]
    checked = compose["services"]["worker"]["healthcheck"]["test"][1:]
    assert checked == ["omnai", "worker", "--check"]


def test_its_settings_are_settings_of_ours(compose: dict[str, Any], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("postgresql+psycopg://omnai:0123456789abcdef0123456789@postgres/omnai\n")
    for service in ours(compose).values():
        variables = {
            name: str(secret) if name.endswith("_FILE") else value
            for name, value in service["environment"].items()
        }
        settings = Settings.from_environment(variables)
        assert settings.data_dir == Path("/data")
        assert settings.database_url is not None
        assert settings.redis_url == "redis://redis:6379/0"


def test_every_secret_that_a_service_reads_is_given_to_it(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if name.endswith("_FILE"):
                assert Path(value).name in service["secrets"]
                assert Path(value).name in compose["secrets"]


def test_no_credential_stands_in_the_file_or_reaches_an_image(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name in service.get("environment", {}):
            assert not name.endswith(("_PASSWORD", "_KEY", "DATABASE_URL"))
    assert (ROOT / ".dockerignore").read_text().startswith("*\n")
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "ARG" not in dockerfile
    for line in dockerfile.splitlines():
        if line.startswith("COPY"):
            assert (ROOT / line.split()[1]).exists(), line


def test_the_queue_keeps_what_it_is_told(compose: dict[str, Any]) -> None:
    command = compose["services"]["redis"]["command"]
    given = dict(zip(command[1::2], command[2::2], strict=True))
    assert given["--appendonly"] == "yes"
    assert given["--maxmemory-policy"] == "noeviction"


def test_the_worker_may_finish_its_longest_unit(compose: dict[str, Any]) -> None:
    grace = compose["services"]["worker"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) >= PhaseLimits().unit + 30


def test_every_service_is_healthy_before_another_needs_it(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for name, needed in service.get("depends_on", {}).items():
            if needed["condition"] == "service_healthy":
                assert "healthcheck" in services[name]
            else:
                assert services[name]["restart"] == "no"
