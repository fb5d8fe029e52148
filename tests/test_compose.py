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
    for worker in ("worker", "gpu-worker"):
        checked = compose["services"][worker]["healthcheck"]["test"][1:]
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
            assert not name.endswith(("_PASSWORD", "_KEY", "_TOKEN", "DATABASE_URL"))


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.worker"])
def test_an_image_holds_what_is_named_and_no_credential(name: str) -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    dockerfile = (ROOT / name).read_text()
    assert "ARG" not in dockerfile
    assert "TOKEN" not in dockerfile
    assert "://" not in dockerfile
    for line in dockerfile.splitlines():
        if line.startswith("COPY"):
            *copied, _ = line.split()[1:]
            for path in copied:
                assert (ROOT / path).exists(), line
                assert f"!{path}" in ignored, line


def test_the_gpu_worker_runs_the_model_on_one_gpu_only_where_it_is_asked_for(
    compose: dict[str, Any],
) -> None:
    worker = compose["services"]["gpu-worker"]
    assert worker["profiles"] == ["gpu"]
    assert [gpu["count"] for gpu in worker["gpus"]] == [1]
    assert worker["build"] == {"context": ".", "dockerfile": "Dockerfile.worker"}
    assert worker["image"] != compose["services"]["worker"]["image"]
    settings = Settings.from_environment(
        {name: value for name, value in worker["environment"].items() if "_FILE" not in name}
    )
    assert settings.engine == "minicpmo"
    # What the API counts with and what the worker loads are the same files.
    assert settings.model_folder == Path("/data/model")
    assert worker["volumes"] == compose["services"]["api"]["volumes"]
    assert not settings.model_allow_unverified


def test_the_gpu_image_installs_the_pinned_runtime_in_its_order() -> None:
    text = (ROOT / "Dockerfile.worker").read_text()
    assert text.index("FROM python:3.10.") >= 0
    steps = [
        "pin pip",
        r"pin 'torch\|torchaudio'",
        "--no-deps --only-binary=:all:",
        "pin setuptools",
    ]
    steps += ["--no-binary=minicpmo-utils", "pip check", "omnai model runtime"]
    at = [text.index(step) for step in steps]
    assert at == sorted(at)
    assert text.count("--require-hashes") == 1
    assert text.count("pip install $options") == 4


def test_the_queue_keeps_what_it_is_told(compose: dict[str, Any]) -> None:
    command = compose["services"]["redis"]["command"]
    given = dict(zip(command[1::2], command[2::2], strict=True))
    assert given["--appendonly"] == "yes"
    assert given["--maxmemory-policy"] == "noeviction"


def test_links_are_fetched_only_where_it_was_turned_on_and_by_its_own_service(
    compose: dict[str, Any],
) -> None:
    ingest = compose["services"]["ingest"]
    assert ingest["profiles"] == ["links"]
    assert ingest["command"] == ["ingest"]
    assert "gpus" not in ingest
    assert ingest["volumes"] == compose["services"]["api"]["volumes"]
    for name in ("api", "ingest"):
        service = compose["services"][name]
        assert service["environment"]["OMNAI_FETCH_URLS"] == "no"
        assert service["cap_drop"] == ["ALL"]
    assert "secret_key" not in ingest["secrets"]
    assert "ports" not in ingest


@pytest.mark.parametrize("worker", ["worker", "gpu-worker"])
def test_the_worker_may_finish_its_longest_unit(compose: dict[str, Any], worker: str) -> None:
    grace = compose["services"][worker]["stop_grace_period"]
    assert int(grace.removesuffix("s")) >= PhaseLimits().unit + 30


def test_every_service_is_healthy_before_another_needs_it(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for name, needed in service.get("depends_on", {}).items():
            if needed["condition"] == "service_healthy":
                assert "healthcheck" in services[name]
            else:
                assert services[name]["restart"] == "no"
