"""Published and local files are compared with the lock; nothing of ours is given away for it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.minicpm import sources
from pipeline.engine.minicpm.lock import (
    Host,
    ModelLock,
    Verification,
    read_lock,
    with_fingerprints,
)
from pipeline.engine.minicpm.sources import (
    PUBLISHED,
    Standing,
    check_published,
    check_snapshot,
    fetch,
)
from tests.pipeline.engine.minicpm import upstream

SEEN = Verification(at="2026-03-31T09:00:00+00:00", source="a test")

Answer = tuple[int, Mapping[str, str], bytes]


@dataclass
class Published:
    """Both hosts on this machine."""

    templates: dict[Host, str] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    """By path, what is answered instead of the file."""
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def lock() -> ModelLock:
    return upstream.bare(read_lock())


@pytest.fixture(scope="module")
def locked(lock: ModelLock) -> ModelLock:
    contents = {file: upstream.content(file) for file in lock.every_file}
    found = {f: (hashlib.sha256(c).hexdigest(), len(c)) for f, c in contents.items()}
    return with_fingerprints(lock, found, SEEN)


@pytest.fixture
def published(lock: ModelLock) -> Iterator[Published]:
    made = Published()
    files = {
        f"/{f.host.value}/{f.repository}/{f.revision}/{f.path}": f"{f.path}"
        for f in lock.every_file
    }
    contents = {
        f"/{f.host.value}/{f.repository}/{f.revision}/{f.path}": upstream.content(f)
        for f in lock.every_file
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.headers.append({name.lower(): value for name, value in self.headers.items()})
            made.paths.append(self.path)
            name = files.get(self.path, self.path)
            status, headers, body = made.answers.get(
                name, (200, {}, contents.get(self.path, b"elsewhere"))
            )
            self.send_response(status)
            for header, value in headers.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    for host in Host:
        made.templates[host] = (
            f"http://127.0.0.1:{server.server_port}/{host.value}/{{repository}}/{{revision}}/{{path}}"
        )
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def problems(report: sources.SourceReport) -> dict[str, str]:
    return {found.where.split()[-1]: found.code for found in report.problems}


# --- published files


def test_files_as_locked_that_keep_the_contracts_are_verified(
    locked: ModelLock, published: Published
) -> None:
    report = check_published(locked, published=published.templates)
    assert report.problems == ()
    assert report.is_verified
    assert [found.file for found in report.files] == list(locked.every_file)
    assert {found.standing for found in report.files} == {Standing.VERIFIED}


def test_files_that_nobody_has_recorded_are_told_as_unverified_with_what_they_are(
    lock: ModelLock, published: Published
) -> None:
    report = check_published(lock, published=published.templates)
    assert report.problems == ()
    assert not report.is_verified
    assert {found.standing for found in report.files} == {Standing.UNVERIFIED}
    first = report.files[0]
    assert first.sha256 == hashlib.sha256(upstream.content(first.file)).hexdigest()


def test_another_content_a_missing_file_and_a_broken_contract_are_each_told(
    locked: ModelLock, published: Published
) -> None:
    other = upstream.MODEL_TEXT.replace("top_k=100", "top_k=20").encode()
    published.answers["modeling_minicpmo.py"] = (200, {}, other)
    published.answers["core/processors/unified.py"] = (404, {}, b"")
    report = check_published(locked, published=published.templates)
    assert problems(report) == {
        "core/processors/unified.py": "file_missing",
        "modeling_minicpmo.py": "file_mismatch",
        "MiniCPMODuplex.streaming_generate": "contract_broken",
    }
    standings = {found.file.path: found.standing for found in report.files}
    assert standings["modeling_minicpmo.py"] is Standing.MISMATCH
    assert standings["core/processors/unified.py"] is Standing.MISSING
    assert standings["utils.py"] is Standing.VERIFIED


def test_no_credential_of_this_machine_is_sent(
    lock: ModelLock, published: Published, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    published.answers["utils.py"] = (200, {"Set-Cookie": "a=b"}, b"")
    fetch(lock.sources, published=published.templates)
    assert len(published.headers) == len(lock.sources)
    for headers in published.headers:
        assert "authorization" not in headers
        assert "secret" not in str(headers)


def elsewhere(address: str) -> Answer:
    return (302, {"Location": address}, b"")


def fetched(lock: ModelLock, published: Published) -> tuple[bytes | None, str | None]:
    """What came of the first source, and the problem where nothing did."""
    contents, found = fetch(lock.sources[:1], published=published.templates)
    return contents.get(lock.sources[0]), found[0].code if found else None


def test_a_file_may_come_from_another_host_of_its_publisher(
    lock: ModelLock, published: Published
) -> None:
    published.answers[lock.sources[0].path] = elsewhere("/cdn/file")
    assert fetched(lock, published) == (b"elsewhere", None)


def test_an_address_without_encryption_is_never_asked(
    lock: ModelLock, published: Published
) -> None:
    published.answers[lock.sources[0].path] = elsewhere("http://example.com/file")
    assert fetched(lock, published) == (None, "source_refused")
    templates = {host: "http://example.com/{path}" for host in Host}
    contents, (problem,) = fetch(lock.sources[:1], published=templates)
    assert (contents, problem.code) == ({}, "source_refused")


def test_redirects_end(lock: ModelLock, published: Published) -> None:
    published.answers[lock.sources[0].path] = elsewhere("/around")
    published.answers["/around"] = elsewhere("/around")
    assert fetched(lock, published) == (None, "source_refused")
    assert len(published.paths) == 1 + sources.REDIRECTS_MAX


def test_a_host_that_answers_with_a_fault_or_not_at_all_is_told(
    lock: ModelLock, published: Published
) -> None:
    published.answers[lock.sources[0].path] = (503, {}, b"")
    assert fetched(lock, published) == (None, "source_unreachable")
    nowhere = {host: "http://127.0.0.1:9/{path}" for host in Host}
    _, (problem,) = fetch(lock.sources[:1], published=nowhere)
    assert problem.code == "source_unreachable"


@pytest.mark.parametrize(
    ("limit", "value", "code"),
    [("FILE_BYTES_MAX", 10, "source_refused"), ("FILE_S", -1.0, "source_unreachable")],
)
def test_a_file_past_a_limit_is_not_taken(
    lock: ModelLock,
    published: Published,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: float,
    code: str,
) -> None:
    assert fetched(lock, published)[1] is None
    monkeypatch.setattr(sources, limit, value)
    assert fetched(lock, published) == (None, code)


def test_each_file_is_asked_for_at_its_pinned_revision_over_https(lock: ModelLock) -> None:
    for file in lock.every_file:
        address = PUBLISHED[file.host].format(
            repository=file.repository, revision=file.revision, path=file.path
        )
        assert address.startswith("https://")
        assert file.revision in address
    assert not [file for file in lock.every_file if file.path.endswith(".safetensors")]


# --- a local folder


def test_a_snapshot_is_checked_without_network(
    locked: ModelLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.write(tmp_path, locked)
    monkeypatch.setattr("socket.socket.connect", pytest.fail)
    report = check_snapshot(locked, tmp_path)
    assert report.is_verified
    assert [found.file for found in report.files] == list(locked.of_snapshot)


def test_the_model_card_is_checked_where_the_snapshot_has_it(
    locked: ModelLock, tmp_path: Path
) -> None:
    upstream.write(tmp_path, locked)
    (tmp_path / "README.md").write_text("Another card.")
    assert problems(check_snapshot(locked, tmp_path)) == {"README.md": "file_mismatch"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda folder: (folder / "config.json").unlink(), {"config.json": "file_missing"}),
        (
            lambda folder: (folder / "config.json").write_text("{}"),
            {"config.json": "file_mismatch"},
        ),
        (
            lambda folder: (folder / "utils.py").unlink(),
            {"utils.py": "contract_unreadable"},
        ),
    ],
    ids=["missing", "changed", "no decoder"],
)
def test_what_is_wrong_with_a_snapshot_is_told(
    locked: ModelLock, tmp_path: Path, change: Callable[[Path], None], found: dict[str, str]
) -> None:
    change(upstream.write(tmp_path, locked))
    assert problems(check_snapshot(locked, tmp_path)) == found
