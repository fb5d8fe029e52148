"""Log lines: one a line, valid, and nothing in them that anybody wrote."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import journal
from pipeline.errors import ContextTooLong, OmnaiError

MARK = "SECRET-OBJECTIVE"

CONTROLS = "".join(map(chr, (*range(32), *range(127, 160)))) + "\u2028\u2029\u202e\ufeff"

hostile = st.text(
    st.one_of(st.characters(), st.sampled_from(CONTROLS), st.sampled_from("\x1b[31m\ud800{}%\\")),
    max_size=200,
)


def told(record: logging.LogRecord, log_format: str = "json") -> str:
    return journal.formatter(log_format, {"host": "h", "slot": "h/0"}).format(record)


def a_record(name: str, message: object, *args: object, **given: Any) -> logging.LogRecord:
    record = logging.LogRecord(
        name, logging.ERROR, "/opt/x/y/lib/z.py", 7, message, args, given.pop("exc_info", None)
    )
    record.__dict__.update(given)
    return record


def parsed(record: logging.LogRecord) -> dict[str, Any]:
    line = told(record)
    assert line.isascii()
    assert line.splitlines() == [line]
    found: dict[str, Any] = json.loads(line, parse_constant=pytest.fail)
    return found


def test_a_line_tells_when_where_and_of_what() -> None:
    at = datetime(2026, 3, 31, 23, 59, 59, 987_000, tzinfo=timezone.utc).timestamp()
    given = {"action": "claim", "job_id": "j", "epoch": 2, "second": 61, "created": at, "pid": 9}
    record = a_record("worker.station", "An epoch was claimed.", **given)
    assert parsed(record) == {
        "time": "2026-03-31T23:59:59.987Z",
        "level": "ERROR",
        "logger": "worker.station",
        "message": "An epoch was claimed.",
        "host": "h",
        "slot": "h/0",
        "pid": record.process,
        "action": "claim",
        "job_id": "j",
        "epoch": 2,
        "second": 61,
        "other_pid": 9,
    }
    assert told(record, "text") == (
        "2026-03-31T23:59:59.987Z ERROR worker.station An epoch was claimed."
        " action=claim job_id=j epoch=2 second=61 other_pid=9"
    )


@given(message=hostile, value=hostile, name=hostile, is_ours=st.booleans(), has_args=st.booleans())
def test_any_message_is_one_line(
    message: str, value: str, name: str, is_ours: bool, has_args: bool
) -> None:
    name = f"pipeline.{name}" if is_ours else name
    args = (value,) if has_args else ()
    record = a_record(name, message, *args, action=value, job_id=float("nan"), count=1)
    found = parsed(record)
    assert isinstance(found["message"], str)
    json.dumps(found).encode()
    line = told(record, "text")
    assert line.splitlines() == [line]
    assert line.isprintable()


@pytest.mark.parametrize(
    ("name", "message", "args"),
    [
        ("urllib3.pool", "Retrying %s", (MARK,)),
        ("urllib3.pool", f"Retrying {MARK}", ()),
        ("gunicorn.error", f"Invalid request: GET /?text={MARK}", ()),
        ("celery.app.trace", "Task %s raised", (MARK,)),
        ("celery.app.trace", ValueError(MARK), ()),
        ("pipeline.x", ValueError(MARK), ()),
        ("pipeline.x", "Fetched from %s.", (f"https://host/{MARK}?token={MARK}",)),
        ("py.warnings", "%s", (MARK,)),
        ("x" * 3000, "m", ()),
    ],
)
def test_what_somebody_wrote_is_not_told(
    name: str, message: object, args: tuple[object, ...]
) -> None:
    record = a_record(name, message, *args, title=MARK, filename_given=MARK, error={"a": MARK})
    for log_format in ("json", "text"):
        line = told(record, log_format)
        assert MARK not in line
        assert len(line) < 3000


def test_a_library_says_what_stands_in_its_code() -> None:
    lost = a_record("celery.worker.consumer", "Connection to broker lost.")
    cut = a_record("botocore.x", "Retry %s needed", MARK)
    assert parsed(lost)["message"] == "Connection to broker lost."
    assert (parsed(cut)["message"], parsed(cut)["where"]) == ("Retry %s needed", "y/lib/z.py:7")


def test_a_fault_is_told_by_types_and_places() -> None:
    def inner() -> None:
        raise ContextTooLong(tokens=5, limit=4) from ValueError(MARK)

    with pytest.raises(OmnaiError) as caught:
        inner()
    fault = (type(caught.value), caught.value, caught.value.__traceback__)
    first, cause = parsed(a_record("worker.x", "It failed.", exc_info=fault))["exception"]
    assert (first["type"], first["code"]) == ("pipeline.errors.ContextTooLong", "context_too_long")
    assert re.fullmatch(r"tests/pipeline/test_journal\.py:\d+ inner", first["at"][0])
    assert cause == {"type": "builtins.ValueError", "at": []}
    line = told(a_record("worker.x", "It failed.", exc_info=fault), "text")
    assert "[pipeline.errors.ContextTooLong at tests/pipeline/test_journal.py" in line
    assert MARK not in line


UNCAUGHT = f"""
import logging, threading, warnings
from pipeline import journal
from pipeline.settings import Settings
journal.begin(Settings(log_format="json", host_name="h"))
journal.begin(Settings())
warnings.warn("{MARK}")
def fail():
    raise ValueError("{MARK}")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
logging.getLogger("worker.x").info("%s %s", "{MARK}")  # too few
fail()
"""


def test_what_nothing_catches_is_a_line_too() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", UNCAUGHT], capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["logger"] for line in lines] == [
        *("py.warnings", "pipeline.journal", "worker.x", "pipeline.journal")
    ]
    assert [line["exception"][0]["type"] for line in (lines[1], lines[3])] == [
        "builtins.ValueError"
    ] * 2
    assert (MARK in ended.stderr, ended.returncode) == (False, 1)
