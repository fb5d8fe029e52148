"""The commands as a person or a script runs them: output, exit statuses, and refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest

from pipeline.ledger import workers
from pipeline.ledger.database import Database, connect
from tests.pipeline.ledger.factories import rows, start

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "sample.mp4"
PORTFOLIO = ROOT / "samples" / "portfolio.json"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path, database_url: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMNAI_")}
    return kept | {
        "OMNAI_DATABASE_URL": database_url,
        "OMNAI_DATA_DIR": str(tmp_path / "data"),
        "COLUMNS": "120",
    }


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    def call(*arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "omnai", *map(str, arguments)],
            env=environment | settings | {"PYTHONPATH": str(ROOT)},
            cwd=tmp_path,  # not the checkout: nothing may depend on where it is called from
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return call


@pytest.fixture(scope="session")
def silence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half an hour of digital silence in a small file."""
    file = tmp_path_factory.mktemp("silence") / "silence.flac"
    source = "anullsrc=r=8000:cl=mono"
    subprocess.run(
        [
            *(imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-f", "lavfi", "-i", source),
            *("-t", "1800", str(file)),
        ],
        check=True,
    )
    return file


def analyze(file: Path, out: Path, *more: str | Path) -> tuple[str | Path, ...]:
    return (
        *("analyze", file, "--out", out, "--portfolio", PORTFOLIO),
        *("--objective", "What matters?", *more),
    )


def problems(ran: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    """The refusal on standard error, which `--json` makes machine-readable."""
    listed: list[dict[str, str]] = json.loads(ran.stderr)["problems"]
    return listed


# --- units


def test_units_prints_a_line_a_unit_and_then_the_totals(run: Run) -> None:
    ran = run("units", SAMPLE, "--json")
    assert ran.returncode == 0
    *lines, last = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["second"] for line in lines] == list(range(72))
    for line in lines:
        counted = line["real_samples"] + line["filled_samples"] + line["synthetic_samples"]
        assert counted == 16_000
        assert line["end_ms"] - line["start_ms"] == 1000
        assert line["frame_ms"] == line["start_ms"]
        assert line["held_frame_ms"] is None
        assert len(line["audio_sha256"]) == 64
    assert [line["second"] for line in lines if line["rms_dbfs"] is None or line["rms_dbfs"] < -60]
    assert last["totals"]["units"] == 72
    assert last["origin_ms"] == 0
    assert {s["kind"] for s in last["streams"] if s["is_chosen"]} == {"audio", "video"}
    assert (last["gaps"], last["stopped"]) == ([], None)


def test_units_needs_no_database(run: Run, tmp_path: Path) -> None:
    ran = run("units", SAMPLE, OMNAI_DATABASE_URL="postgresql+psycopg://nobody@127.0.0.1:1/none")
    assert ran.returncode == 0
    assert ran.stdout.startswith("72 units to 1:12.0")
    assert not (tmp_path / "data").exists()


def test_units_begin_where_they_are_asked_to(run: Run) -> None:
    ran = run("units", SAMPLE, "--json", "--start-s", "70")
    assert [json.loads(line)["second"] for line in ran.stdout.splitlines()[:-1]] == [70, 71]


# --- analyze


def test_analyze_shows_findings_and_where_the_briefs_lie(run: Run, tmp_path: Path) -> None:
    ran = run(*analyze(SAMPLE, tmp_path / "out"), "--title", "Investor day")
    assert ran.returncode == 0, ran.stderr
    assert "0:12–0:15" in ran.stdout
    for name in ("brief.html", "brief.md", "brief.json"):
        assert str(tmp_path / "out" / name) in ran.stdout
        assert (tmp_path / "out" / name).stat().st_size > 0
    assert json.loads((tmp_path / "out" / "brief.json").read_text())["header"]["title"] == (
        "Investor day"
    )


def test_analyze_starts_the_embedded_database_and_stops_it_again(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    del environment["OMNAI_DATABASE_URL"]
    ran = subprocess.run(
        [sys.executable, "-m", "omnai", *map(str, analyze(SAMPLE, tmp_path / "out", "--json"))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["state"] == "succeeded"
    status = subprocess.run(
        [sys.executable, "-m", "omnai", "services", "status", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(status.stdout)
    assert (found["postgres"]["state"], found["valkey"]["state"]) == ("stopped", "stopped")


def test_a_shared_database_is_never_upgraded_unasked(
    run: Run, tmp_path: Path, postgres_url: str
) -> None:
    ran = run(*analyze(SAMPLE, tmp_path / "out"), "--json", OMNAI_DATABASE_URL=postgres_url)
    assert ran.returncode == 1
    assert problems(ran)[0]["code"] == "schema_outdated"
    assert "omnai db upgrade" in problems(ran)[0]["message"]


def text_file(folder: Path) -> Path:
    file = folder / "notes.mp4"
    file.write_text("These are the minutes of the meeting.\n" * 50)
    return file


def empty_file(folder: Path) -> Path:
    file = folder / "empty.mp4"
    file.touch()
    return file


def cut_file(folder: Path) -> Path:
    """A file whose index comes last, cut before it, as after a crash of the recorder."""
    whole, cut = folder / "whole.mp4", folder / "cut.mp4"
    subprocess.run(
        [
            imageio_ffmpeg.get_ffmpeg_exe(),
            "-v",
            "error",
            "-i",
            str(SAMPLE),
            "-c",
            "copy",
            str(whole),
        ],
        check=True,
    )
    cut.write_bytes(whole.read_bytes()[:200_000])
    return cut


def subtitles_only(folder: Path) -> Path:
    source, file = folder / "in.srt", folder / "subtitles.mkv"
    source.write_text("1\n00:00:00,000 --> 00:00:02,000\nHello\n")
    subprocess.run(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(source), str(file)], check=True
    )
    return file


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (empty_file, "empty_file"),
        (text_file, "not_media"),
        (cut_file, "index_missing"),
        (subtitles_only, "no_audio_or_video"),
        (lambda folder: folder / "missing.mp4", "recording_unreadable"),
    ],
)
def test_a_recording_that_cannot_be_analysed_is_refused_and_kept(
    run: Run, tmp_path: Path, make: Callable[[Path], Path], code: str
) -> None:
    file = make(tmp_path)
    before = file.read_bytes() if file.exists() else None
    ran = run(*analyze(file, tmp_path / "out"), "--json")
    assert ran.returncode == 2, ran.stderr
    assert [problem["code"] for problem in problems(ran)] == [code]
    assert (file.read_bytes() if file.exists() else None) == before
    assert list((tmp_path / "out").iterdir()) == []


def holdings(*changes: dict[str, Any]) -> str:
    base = {"name": "A", "ticker": "A", "exchange": "X", "currency": "USD", "asset_type": "equity"}
    return json.dumps([{**base, **change} for change in changes])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (holdings({"id": "1", "weight_pct": 99}), "99"),
        (
            holdings({"id": "1", "weight_pct": 50}, {"id": "2", "weight_pct": 50}),
            "ticker",
        ),
        (holdings({"id": "1", "weight_pct": 100, "currency": "QQQ"}), "QQQ"),
        (holdings({"id": "1", "weight_pct": 100}).replace("100", "NaN"), "not finite"),
        ("", "empty"),
    ],
)
def test_a_portfolio_that_does_not_hold_is_refused(
    run: Run, tmp_path: Path, content: str, said: str
) -> None:
    portfolio = tmp_path / "portfolio.json"
    portfolio.write_text(content)
    ran = run(*analyze(SAMPLE, tmp_path / "out"), "--portfolio", portfolio)
    assert ran.returncode == 2
    assert said.lower() in ran.stderr.lower()
    assert portfolio.read_text() == content


def test_everything_wrong_with_a_request_is_said_at_once(run: Run, tmp_path: Path) -> None:
    portfolio = tmp_path / "portfolio.csv"
    portfolio.write_text("id,name,ticker,currency,asset_type,weight\n1,A,A,USD,equity,99\n")
    ran = run(
        *("analyze", SAMPLE, "--portfolio", portfolio, "--objective", " ", "--engine", "unheard"),
        *("--out", "/proc/nowhere", "--seed", "-1", "--event-date", "yesterday", "--json"),
    )
    assert ran.returncode == 2
    said = " ".join(problem["where"] + problem["message"] for problem in problems(ran))
    for part in ("99", "objective", "unheard", "rehearsal", "/proc/nowhere", "seed", "event_date"):
        assert part in said


def test_an_overlong_objective_is_refused_with_its_limit(run: Run, tmp_path: Path) -> None:
    ran = run(*analyze(SAMPLE, tmp_path / "out", "--objective", "x" * 10_000))
    assert ran.returncode == 2
    assert "4,000" in ran.stderr or "4000" in ran.stderr


def test_an_unknown_option_is_refused_by_name(run: Run, tmp_path: Path) -> None:
    ran = run(*analyze(SAMPLE, tmp_path / "out", "--max-slices", "2"))
    assert ran.returncode == 2
    assert "--max-slices" in ran.stderr


def test_an_unknown_setting_is_refused_by_name_and_its_value_is_not_shown(run: Run) -> None:
    ran = run("units", SAMPLE, "--json", OMNAI_DATABSE_URL="postgresql://user:hunter2@host/db")
    assert ran.returncode == 2
    assert problems(ran)[0]["where"] == "OMNAI_DATABSE_URL"
    assert "OMNAI_DATABASE_URL" in problems(ran)[0]["message"]
    assert "hunter2" not in ran.stderr


def test_a_start_past_the_end_leaves_no_job(
    run: Run, tmp_path: Path, environment: dict[str, str]
) -> None:
    ran = run(*analyze(SAMPLE, tmp_path / "out", "--start-s", "80", "--json"))
    assert ran.returncode == 2
    assert problems(ran)[0]["code"] == "start_past_end"
    assert "72" in problems(ran)[0]["message"]
    assert count_jobs(environment) == 0


# --- ends before the end


def started(environment: dict[str, str], *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "omnai", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_units(environment: dict[str, str], count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if count_rows(environment, "units") >= count:
            return
        time.sleep(0.05)
    pytest.fail("no units were stored")


def count_jobs(environment: dict[str, str]) -> int:
    return count_rows(environment, "jobs")


def count_rows(environment: dict[str, str], table: str) -> int:
    import sqlalchemy

    engine = sqlalchemy.create_engine(
        environment["OMNAI_DATABASE_URL"], poolclass=sqlalchemy.NullPool
    )
    with engine.connect() as connection:
        return int(
            connection.execute(sqlalchemy.text(f"SELECT count(*) FROM {table}")).scalar_one()
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_after_the_unit_in_flight_with_a_partial_brief(
    environment: dict[str, str], silence: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = started(environment, *analyze(silence, tmp_path / "out", "--json"))
    wait_for_units(environment, 3)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors
    said = json.loads(output)
    assert (said["state"], said["end_reason"]) == ("canceled", "canceled")
    assert said["units"] == count_rows(environment, "units")
    brief = json.loads((tmp_path / "out" / "brief.json").read_text())
    assert brief["status"]["kind"] == "partial"
    assert brief["status"]["missing"][0]["span"]["start_ms"] == said["units"] * 1000


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the process")
def test_a_decoder_that_dies_ends_in_a_partial_brief_and_status_3(
    environment: dict[str, str], silence: Path, tmp_path: Path
) -> None:
    process = started(environment, *analyze(silence, tmp_path / "out", "--json"))
    wait_for_units(environment, 3)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        if b"pipeline.media" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGSEGV)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors
    said = json.loads(output)
    assert (said["state"], said["end_reason"]) == ("failed", "decode_error")
    assert "SIGSEGV" in said["end_detail"]
    assert said["units"] >= 3


def test_a_decoder_limit_before_the_first_unit_is_bad_input(run: Run, tmp_path: Path) -> None:
    ran = run(
        *analyze(SAMPLE, tmp_path / "out", "--json"), OMNAI_MEDIA_MEMORY_BYTES=str(64 * 1024**2)
    )
    assert ran.returncode == 2, ran.stderr
    assert problems(ran)[0]["code"] in ("memory_limit", "decoder_crashed")


# --- the rest


def test_capabilities_say_what_is_there_and_what_is_wrong(run: Run) -> None:
    ran = run("capabilities", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["engines"]["rehearsal"]["usable"]
    assert not found["engines"]["minicpmo"]["usable"]
    assert found["engines"]["minicpmo"]["problem"]
    for name in ("h264", "aac", "opus", "hevc"):
        assert found["decoders"][name] == {"found": True, "usable": True, "problem": None}
    assert found["parts"]["embedded_postgres"]["usable"]
    assert found["limits"]["media"]["duration_s"] == 12 * 3600
    assert found["versions"]["av"].split(".")[0] in ("17", "18")


def test_db_upgrade_says_where_it_went_and_is_safe_to_repeat(run: Run, postgres_url: str) -> None:
    import sqlalchemy

    admin = sqlalchemy.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(sqlalchemy.text("CREATE DATABASE empty_one"))
    url = sqlalchemy.make_url(postgres_url).set(database="empty_one")
    shown = url.render_as_string(hide_password=False)
    first = json.loads(run("db", "upgrade", "--json", OMNAI_DATABASE_URL=shown).stdout)
    again = json.loads(run("db", "upgrade", "--json", OMNAI_DATABASE_URL=shown).stdout)
    assert first["from"] is None
    assert first["to"] == again["from"] == again["to"]
    with admin.connect() as connection:
        connection.execute(sqlalchemy.text("DROP DATABASE empty_one WITH (FORCE)"))
    admin.dispose()


def test_services_start_stay_until_stop(run: Run) -> None:
    started = json.loads(run("services", "start", "--json").stdout)
    assert started["is_kept"]
    assert started["postgres"]["state"] == started["valkey"]["state"] == "running"
    assert (
        json.loads(run("services", "status", "--json").stdout)["postgres"]["pid"]
        == (started["postgres"]["pid"])
    )
    stopped = json.loads(run("services", "stop", "--json").stdout)
    assert stopped["postgres"]["state"] == stopped["valkey"]["state"] == "stopped"


# --- workers


def test_a_host_that_is_gone_is_shown_and_forgotten(run: Run, database_url: str) -> None:
    database = connect(database_url)
    try:
        forget(run, database)
    finally:
        database.dispose()


def forget(run: Run, database: Database) -> None:
    key = start(database, host="gone", slot="gone:0")
    workers.register(database, host="gone", slot="gone:0", engine="rehearsal", pid=4711)
    refused = run("workers", "forget", "gone", "--json")
    assert refused.returncode != 0
    assert problems(refused)[0]["code"] == "host_alive"
    for table in ("workers", "epochs"):
        rows(database, f"UPDATE {table} SET alive_at = now() - interval '1 h' RETURNING 1")
    (slot,) = json.loads(run("workers", "--json").stdout)
    assert slot["silent_s"] == pytest.approx(3600, abs=60)
    del slot["silent_s"]
    assert slot == {
        "host": "gone",
        "slot": "gone:0",
        "engine": "rehearsal",
        "state": "loading",
        "held_by": [key.job_id],
    }
    assert "gone:0" in run("workers").stdout
    assert run("workers", "forget", "gone").stdout == "Forgot gone: 1 slots, 1 epochs.\n"
    assert workers.listed(database) == ()
