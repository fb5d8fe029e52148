"""What becomes of each file, look by look, over a real folder and a real API."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnai.client import Client
from omnai.commands.jobs import read_holdings
from omnai.watched import memory, watcher
from omnai.watched.memory import NAME
from omnai.watched.submitting import Ask
from omnai.watched.watcher import FolderWatcher
from pipeline.errors import InputRefused
from pipeline.ledger import keys, recordings, views
from tests.api.site import SAMPLES, Site, running, site
from tests.omnai.watched.sound import sound

__all__ = ["running", "site"]

UNREACHABLE = "http://127.0.0.1:1"


class Looking:
    """A watcher for which every file is finished at once, and what it tells."""

    def __init__(self, folder: Path, url: str, key: str, **request: Any) -> None:
        self.client = Client(url, key)
        self.told: list[tuple[str, str | None, str | None, str]] = []
        self._watcher = FolderWatcher(
            folder,
            client=self.client,
            ask=Ask(holdings=self._holdings, request={"objective": "What of it?", **request}),
            settle_s=0,
            tell=self._tell,
        )
        self.portfolio = SAMPLES / "portfolio.json"
        self.before_sending = lambda: None

    def look(self, times: int = 1) -> list[tuple[str, str | None, str | None, str]]:
        """What it tells in so many looks."""
        self.told = []
        for _ in range(times):
            self._watcher.look()
        return self.told

    def _holdings(self) -> list[dict[str, Any]]:
        self.before_sending()
        return read_holdings(self.portfolio)

    def _tell(
        self, event: str, text: str, *, name: str | None = None, job_id: str | None = None
    ) -> None:
        self.told.append((event, name, job_id, text))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "PAUSE_MIN_S", 0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "recordings"
    made.mkdir()
    return made


@pytest.fixture
def begin(site: Site, folder: Path) -> Iterator[Any]:
    secret = site.key()[1]
    begun: list[Looking] = []

    def looking(url: str = site.origin, key: str = secret, **request: Any) -> Looking:
        begun.append(Looking(folder, url, key, **request))
        return begun[-1]

    yield looking
    for each in begun:
        each.client.__exit__(None, None, None)


def jobs_of(site: Site) -> list[views.JobView]:
    found, _ = views.page(site.database, owner=site.owner, state=None, after=None, limit=50)
    return list(reversed(found))


def test_a_crash_between_the_submission_and_its_note_makes_no_second_job(
    site: Site, folder: Path, begin: Any
) -> None:
    (folder / "call.wav").write_bytes(sound(500))
    ((event, _, job_id, _),) = begin().look(3)
    assert event == "submitted"
    (folder / NAME).unlink()  # as if it had died before it wrote it
    ((event, _, again, _),) = begin().look(3)
    assert (event, again) == ("submitted", job_id)
    assert len(jobs_of(site)) == 1


def test_a_refused_file_is_told_once_and_tried_again_once_it_is_another(
    site: Site, folder: Path, begin: Any
) -> None:
    (folder / "call.mp4").write_bytes(b"<html>not found</html>" * 50)
    (folder / "other.wav").write_bytes(sound(600))
    told = begin().look(3)
    assert sorted((event, name) for event, name, _, _ in told) == [
        ("refused", "call.mp4"),
        ("submitted", "other.wav"),
    ]
    os.utime(folder / "call.mp4", ns=(1, 1))
    looking = begin()
    assert looking.look(3) == []
    (folder / "call.mp4").write_bytes(sound(610))
    assert [(event, name) for event, name, _, _ in looking.look(3)] == [("submitted", "call.mp4")]
    assert [job.filename for job in jobs_of(site)] == ["other.wav", "call.mp4"]


def test_a_file_that_grows_after_its_submission_is_told_and_submitted_again(
    site: Site, folder: Path, begin: Any
) -> None:
    content = sound(700, seconds=2)
    path = folder / "call.wav"
    path.write_bytes(content[:20_000])
    looking = begin()
    ((_, _, first, _),) = looking.look()
    with path.open("ab") as file:
        file.write(content[20_000:])
    portfolio, looking.portfolio = looking.portfolio, folder / "away.json"
    changed, waiting = looking.look(3)  # it cannot be submitted yet, and the rest is told once
    assert changed[:3] == ("changed", "call.wav", first)
    assert waiting[0] == "waiting"
    looking.portfolio = portfolio
    (submitted,) = looking.look(3)
    assert submitted[0] == "submitted"
    assert first in submitted[3]
    assert [job.id for job in jobs_of(site)] == [first, submitted[2]]


def test_a_file_that_grows_while_it_is_sent_is_not_submitted_before_it_is_whole(
    site: Site, folder: Path, begin: Any
) -> None:
    content = sound(750, seconds=2)
    path = folder / "call.wav"
    path.write_bytes(content[:20_000])
    looking = begin()
    looking.before_sending = lambda: path.write_bytes(content)
    assert looking.look() == []
    assert jobs_of(site) == []
    looking.before_sending = lambda: None
    ((event, _, job_id, _),) = looking.look(3)
    assert event == "submitted"
    (job,) = jobs_of(site)
    assert job.id == job_id
    recording = recordings.get(site.database, job.recording_id or "", owner=None)
    assert recording.size_bytes == len(content)


def test_an_api_that_is_away_is_told_once_and_waited_for(
    site: Site, folder: Path, begin: Any
) -> None:
    (folder / "call.wav").write_bytes(sound(800))
    ((event, name, _, text),) = begin(url=UNREACHABLE).look(3)
    assert (event, name) == ("waiting", None)
    assert "cannot be reached" in text
    assert not (folder / NAME).exists()
    assert [event for event, *_ in begin().look(3)] == ["submitted"]


def test_a_portfolio_that_is_being_written_is_waited_for_and_read_anew(
    site: Site, folder: Path, begin: Any, tmp_path: Path
) -> None:
    looking = begin()
    looking.portfolio = tmp_path / "portfolio.json"
    looking.portfolio.write_text("[{")
    (folder / "call.wav").write_bytes(sound(810))
    ((event, _, _, text),) = looking.look(3)
    assert (event, "portfolio" in text) == ("waiting", True)
    looking.portfolio.write_bytes((SAMPLES / "portfolio.json").read_bytes())
    assert [event for event, *_ in looking.look(3)] == ["submitted"]


def test_what_no_file_can_help_ends_the_watch_and_marks_no_file(
    site: Site, folder: Path, begin: Any
) -> None:
    (folder / "call.wav").write_bytes(sound(900))
    key, secret = site.key()
    keys.revoke(site.database, key.id)
    for looking in (begin(key=secret), begin(engine="nonsense"), begin(objective="")):
        with pytest.raises(InputRefused):
            looking.look()
    assert not (folder / NAME).exists()
    # The stream of a file is the file's own matter.
    ((event, _, _, text),) = begin(options={"video_stream": 3}).look(3)
    assert event == "refused"
    assert "video stream 3" in text


def test_a_file_that_cannot_be_read_holds_up_no_other(
    folder: Path, begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "locked.wav").write_bytes(sound(920))
    (folder / "other.wav").write_bytes(sound(930))
    opened = os.open
    is_locked = True

    read: list[str] = []

    def refusing(path: Any, *more: Any, **given: Any) -> int:
        if str(path).endswith(".wav"):
            read.append(str(path))
        if is_locked and str(path).endswith("locked.wav"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *more, **given)

    monkeypatch.setattr(os, "open", refusing)  # a share's lock; root may read every file here
    looking = begin()
    assert sorted((event, name) for event, name, _, _ in looking.look(3)) == [
        ("submitted", "other.wav"),
        ("waiting", "locked.wav"),
    ]
    is_locked = False
    assert [(event, name) for event, name, _, _ in looking.look(3)] == [("submitted", "locked.wav")]
    read.clear()
    assert looking.look(3) == []
    assert read == []  # what is known is not read again at each look


def test_a_link_that_takes_a_files_place_is_not_followed(
    folder: Path, begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = folder.parent / "outside.wav"
    secret.write_bytes(sound(940))
    (folder / "call.wav").symlink_to(secret)
    stamps = {"call.wav": watcher.Stamp.of(secret.stat())}
    monkeypatch.setattr(watcher, "found", lambda folder: stamps)  # it was a file when listed
    assert [event for event, *_ in begin().look(3)] == ["waiting"]
    assert not (folder / NAME).exists()


def test_a_folder_is_watched_by_one_and_its_memory_is_not_guessed(folder: Path, begin: Any) -> None:
    with memory.held(folder), pytest.raises(InputRefused, match="another"), memory.held(folder):
        pass
    with memory.held(folder):
        pass
    for text in ("{}", "[", "\xff", '{"form": "omnai.watch/2", "files": {}}'):
        (folder / NAME).write_text(text, "latin-1")
        with pytest.raises(InputRefused, match="remove it"):
            begin().look()
