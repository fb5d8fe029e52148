"""What a worker refuses to start on, each with its name and what would be accepted."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

import omnai
from omnai.services.valkey import Valkey
from pipeline.errors import SettingsRefused
from pipeline.release import RELEASE
from pipeline.settings import Settings
from worker import startup
from worker.app import broker_url, make_app
from worker.startup import WorkerRefused, check_broker, check_installation, check_queue
from worker.supervisor import child_environment

SETTINGS = Settings(
    redis_url="redis://127.0.0.1:1/0", database_url="postgresql+psycopg://127.0.0.1/none"
)


def test_our_own_settings_are_accepted() -> None:
    check_queue(make_app(SETTINGS).conf, engine="rehearsal", environment={})
    check_installation(SETTINGS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task_acks_late", True),
        ("task_reject_on_worker_lost", True),
        ("task_retry_on_worker_lost", True),
        ("worker_disable_prefetch", False),
        ("worker_prefetch_multiplier", 4),
        ("worker_concurrency", 2),
        ("worker_pool", "threads"),
        ("worker_pool_start_method", "fork"),
        ("worker_soft_shutdown_timeout", 10.0),
        ("worker_cancel_long_running_tasks_on_connection_loss", True),
        ("accept_content", ["json", "pickle"]),
        ("task_default_queue", "omnai.minicpmo"),
        ("task_queues", ["omnai.rehearsal", "omnai.minicpmo"]),
    ],
)
def test_a_queue_setting_that_could_replay_a_job_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(WorkerRefused) as caught:
        check_queue(make_app(SETTINGS, **{name: value}).conf, engine="rehearsal", environment={})
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == ("queue_setting_unsafe", name)


def test_a_queue_that_keeps_unacknowledged_bells_is_refused() -> None:
    app = make_app(SETTINGS)
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, "ack_emulation": True}
    with pytest.raises(WorkerRefused) as caught:
        check_queue(app.conf, engine="rehearsal", environment={})
    assert caught.value.problems[0].where == "broker_transport_options/ack_emulation"


def test_a_missing_disable_prefetch_is_refused() -> None:
    conf = dict(make_app(SETTINGS).conf)
    del conf["worker_disable_prefetch"]
    with pytest.raises(WorkerRefused) as caught:
        check_queue(conf, engine="rehearsal", environment={})
    assert caught.value.problems[0].where == "worker_disable_prefetch"


def test_a_remapped_sigterm_is_refused() -> None:
    with pytest.raises(WorkerRefused) as caught:
        check_queue(
            make_app(SETTINGS).conf, engine="rehearsal", environment={"REMAP_SIGTERM": "SIGQUIT"}
        )
    assert caught.value.problems[0].code == "sigterm_remapped"


def test_an_unknown_engine_and_a_missing_database_are_named_together() -> None:
    with pytest.raises(WorkerRefused) as caught:
        check_installation(replace(SETTINGS, engine="oracle", database_url=None))
    assert [problem.code for problem in caught.value.problems] == [
        "database_url_missing",
        "engine_unknown",
    ]
    assert "rehearsal" in str(caught.value)


def test_a_package_of_our_name_from_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = types.ModuleType("api")
    stranger.__file__ = "/elsewhere/api.py"
    monkeypatch.setitem(sys.modules, "api", stranger)
    with pytest.raises(WorkerRefused) as caught:
        check_installation(SETTINGS)
    assert [problem.where for problem in caught.value.problems] == ["api"]


def test_a_broker_that_evicts_is_refused(valkey: Valkey) -> None:
    settings = replace(SETTINGS, redis_url=valkey.url)
    check_broker(settings)
    with redis.Redis.from_url(valkey.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(WorkerRefused) as caught:
            check_broker(settings)
    (problem,) = caught.value.problems
    assert problem.code == "broker_evicts"
    assert "allkeys-lru" in problem.message
    assert "noeviction" in problem.message


def test_a_broker_that_cannot_be_asked_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    check_broker(replace(SETTINGS, redis_url="unix:///nowhere/valkey.sock?db=0"))
    assert "eviction policy could not be read" in caplog.text
    assert "nowhere" not in caplog.text


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("redis://10.0.0.1:6379/2", "redis://10.0.0.1:6379/2"),
        ("rediss://me:word@queue/0", "rediss://me:word@queue/0"),
        ("unix:///run/v.sock?db=0", "redis+socket:///run/v.sock?virtual_host=0"),
        ("unix:///a%20b/v.sock", "redis+socket:///a%20b/v.sock?virtual_host=0"),
        ("unix://me:word@/run/v.sock?db=3", "redis+socket://me:word@/run/v.sock?virtual_host=3"),
    ],
)
def test_the_queue_is_named_as_celery_names_it(given: str, wanted: str) -> None:
    assert broker_url(replace(SETTINGS, redis_url=given)) == wanted


def test_a_missing_queue_is_refused() -> None:
    with pytest.raises(SettingsRefused):
        make_app(replace(SETTINGS, redis_url=None))


def test_the_celery_worker_gets_each_setting_once_and_no_secret_of_the_api(tmp_path: Path) -> None:
    url = tmp_path / "url"
    url.write_text("postgresql+psycopg://127.0.0.1/kept\n")
    given = {
        "PATH": "/bin",
        "OMNAI_DATABASE_URL_FILE": str(url),
        "OMNAI_SECRET_KEY": "s" * 64,
        "OMNAI_API_KEY": "omnai_key",
        "OMNAI_TEST_THING": "1",
    }
    child = child_environment(Settings.from_environment(given), given)
    assert (child["PATH"], child["OMNAI_TEST_THING"]) == ("/bin", "1")
    assert Settings.from_environment(child).database_url == "postgresql+psycopg://127.0.0.1/kept"
    assert not {"OMNAI_SECRET_KEY", "OMNAI_API_KEY"} & child.keys()


def test_the_release_is_one(repository: Path) -> None:
    assert omnai.__version__ == RELEASE
    assert f'version = "{RELEASE}"' in (repository / "pyproject.toml").read_text()
    assert repository == startup.ROOT
