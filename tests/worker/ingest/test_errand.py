"""A link from its claim to its end, with a real database, real files and real TLS servers."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import redis

from pipeline.ledger import fetches, jobs, recordings, views
from pipeline.ledger.database import Database, connect
from pipeline.ledger.errors import DatabaseUnavailable
from pipeline.ledger.fetches import LinkedFile
from pipeline.ledger.space import Space
from pipeline.ledger.storage import open_storage
from pipeline.ledger.views import JobView
from pipeline.link import read_link
from pipeline.records import EndReason, JobState
from pipeline.settings import MediaLimits, Settings
from tests.pipeline.ledger import queued
from tests.pipeline.ledger.factories import make_request, rows
from tests.worker.ingest.servers import (
    NAME,
    Answer,
    Asked,
    Reset,
    World,
    file_of,
    head,
    once,
    whole,
)
from worker.app import queue_name
from worker.ingest import errand as errands
from worker.ingest.connect import Patience
from worker.ingest.errand import ATTEMPTS_MAX, Errand, Pace
from worker.ingest.sink import held

SAMPLE = (Path(__file__).parents[3] / "samples" / "sample.mp4").read_bytes()
TARGET = "/private/call.mp4?token=hush"


@dataclass
class Desk:
    """One process's errand, and what may happen around it."""

    settings: Settings
    database: Database
    world: World
    pace: Pace
    leaving: threading.Event = field(default_factory=threading.Event)

    def submit(self, target: str = TARGET, **given: Any) -> str:
        linked = LinkedFile(link=read_link(f"https://{NAME}{target}"), filename="call.mp4")
        return queued.submit(self.database, recording=linked, **given)

    def serve(self, answer: Answer) -> Any:
        return self.world.serve(answer)

    def run(self) -> bool:
        errand = Errand(
            self.settings,
            database=self.database,
            blobs=open_storage(self.settings).blobs,
            internet=self.world.internet(),
            leaving=self.leaving,
            pace=self.pace,
        )
        return errand.run_next()

    def in_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self.run)
        thread.start()
        return thread

    def view(self, job_id: str) -> JobView:
        return views.get(self.database, job_id, owner="ana")

    def ended(self, job_id: str) -> tuple[JobState, str | None]:
        """How it ended; nothing of the link and no temporary file is left of it."""
        view = self.view(job_id)
        assert [*rows(self.database, "SELECT url, lease FROM fetches")] == [(None, None)]
        assert self.incoming() == []
        assert rows(self.database, "SELECT 1 FROM uploads WHERE closed_at IS NULL") == []
        return view.state, view.end_reason

    def incoming(self) -> list[Path]:
        folder = self.settings.data_dir / "blobs" / "incoming"
        return sorted(folder.iterdir()) if folder.exists() else []

    def until(self, what: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if answer := what():
                return answer
            time.sleep(0.02)
        raise AssertionError("did not come")


@pytest.fixture
def desk(database_url: str, valkey_url: str, tmp_path: Path, world: World) -> Iterator[Desk]:
    settings = Settings(
        data_dir=tmp_path / "data",
        database_url=database_url,
        redis_url=valkey_url,
        host_name="ingest",
        fetch_urls=True,
        media=MediaLimits(file_bytes=2_000_000),
    )
    database = connect(database_url)
    pace = Pace(patience=Patience(), lease_s=30, renew_s=0.05, pauses_s=(0.0,))
    yield Desk(settings=settings, database=database, world=world, pace=pace)
    database.dispose()


def bells(desk: Desk) -> int:
    assert desk.settings.redis_url is not None
    with redis.Redis.from_url(desk.settings.redis_url) as client:
        return int(client.llen(queue_name("rehearsal")))


# --- what comes --------------------------------------------------------------------------------


def test_a_recording_is_fetched_kept_and_queued(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk.serve(once(whole(SAMPLE, ETag='"v1"')))
    job_id = desk.submit()
    before = bells(desk)
    assert desk.run()
    assert desk.ended(job_id) == (JobState.QUEUED, None)
    view = desk.view(job_id)
    assert view.recording_id is not None
    recording = recordings.get(desk.database, view.recording_id, owner="ana")
    assert recording.sha256 == hashlib.sha256(SAMPLE).hexdigest()
    assert (recording.filename, recording.size_bytes) == ("call.mp4", len(SAMPLE))
    assert recording.probe is not None
    assert recording.is_stored
    with open_storage(desk.settings).blobs.local(recording.sha256) as path:
        assert path.read_bytes() == SAMPLE
    assert view.fetch is not None
    assert (view.fetch.received_bytes, view.fetch.total_bytes) == (len(SAMPLE), len(SAMPLE))
    assert bells(desk) == before + 1
    assert not desk.run()
    said = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    for part in ("hush", "private", "https:"):
        assert part not in said


def test_two_at_once_never_fetch_one_link(desk: Desk) -> None:
    server = desk.serve(once(whole(SAMPLE)))
    asked = [desk.submit(f"/{number}.mp4") for number in range(4)]
    threads = [desk.in_thread() for _ in range(6)]
    for thread in threads:
        thread.join()
    while desk.run():
        pass
    assert sorted(one.target for one in server.asked) == [f"/{n}.mp4" for n in range(4)]
    assert {desk.view(job_id).state for job_id in asked} == {JobState.QUEUED}
    assert len({desk.view(job_id).recording_id for job_id in asked}) == 1  # the same bytes


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason", "said"),
    [
        (whole(b"<!doctype html>", Content_Type="text/html"), "link_refused", "a web page"),
        (head(403, Content_Length=0), "link_refused", "wants a sign-in"),
        (head(302, Location="http://media.test/"), "link_refused", "only https:// is accepted"),
        (head(302, Location="https://inner.test/"), "link_refused", "no address on the public"),
        (head(Content_Length=10**9), "link_refused", "at most 2000000 bytes"),
        (whole(SAMPLE[:-9], Content_Encoding="gzip"), "link_refused", "packs the file"),
        (whole(bytes(range(256)) * 20), "recording_refused", "cannot be read as media"),
        (whole(SAMPLE[:5000]), "recording_refused", ""),
    ],
    ids=["page", "sign-in", "plain http", "inner", "too large", "packed", "no media", "truncated"],
)
def test_what_is_refused_ends_the_job_with_what_to_do(
    desk: Desk, answer: bytes, reason: str, said: str
) -> None:
    desk.world.answers["inner.test"] = [["10.0.0.1"]]
    desk.serve(once(answer))
    job_id = desk.submit()
    assert desk.run()
    assert desk.ended(job_id) == (JobState.FAILED, reason)
    detail = desk.view(job_id).end_detail
    assert detail is not None
    assert said in detail
    for secret in ("hush", "private", "10.0.0.1", NAME):
        assert secret not in detail


def test_a_job_that_asks_for_a_stream_the_recording_lacks_fails_and_keeps_the_recording(
    desk: Desk,
) -> None:
    desk.serve(once(whole(SAMPLE)))
    asked = make_request()
    wanted = replace(asked, options=replace(asked.options, video_stream=0, audio_stream=7))
    job_id = desk.submit(request=wanted)
    before = bells(desk)
    assert desk.run()
    assert desk.ended(job_id) == (JobState.FAILED, "recording_refused")
    view = desk.view(job_id)
    assert view.end_detail is not None
    assert view.end_detail.startswith("the recording has no audio stream 7 that can be fed")
    assert "video" not in view.end_detail
    assert view.recording_id is not None
    assert recordings.get(desk.database, view.recording_id, owner="ana").is_stored
    assert bells(desk) == before


def test_a_full_disk_ends_the_job(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, chunk: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("worker.ingest.sink.Sink.write", full)
    desk.serve(once(whole(SAMPLE)))
    job_id = desk.submit()
    desk.run()
    assert desk.ended(job_id) == (JobState.FAILED, "storage_full")


def test_a_link_waits_while_the_disk_has_too_little_room_and_goes_on_from_what_came(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_low = threading.Event()
    monkeypatch.setattr(Space, "is_low", lambda self: is_low.is_set())
    server = desk.serve(halting(desk, ETag='"v1"'))
    job_id = desk.submit()
    is_low.set()
    assert not desk.run()
    assert (server.asked, desk.incoming()) == ([], [])
    is_low.clear()
    fetching = desk.in_thread()
    desk.until(lambda: [path for path in desk.incoming() if path.stat().st_size > 10_000])
    is_low.set()
    fetching.join(timeout=20)
    assert not fetching.is_alive()
    assert not desk.run()
    assert desk.view(job_id).state is JobState.WAITING_FOR_RECORDING
    came = received(desk, job_id)
    is_low.clear()
    assert desk.run()
    assert desk.ended(job_id) == (JobState.QUEUED, None)
    assert server.asked[1].headers["range"] == f"bytes={came}-"


# --- what is tried again -----------------------------------------------------------------------


def test_trouble_that_passes_is_waited_out(desk: Desk) -> None:
    answers = [head(503, Content_Length=0), head(429, Retry_After="0", Content_Length=0), b""]
    server = desk.serve(
        lambda asked: iter([[*answers, whole(SAMPLE)][min(asked.number, len(answers))]])
    )
    job_id = desk.submit()
    for number in range(len(answers)):
        assert desk.run()
        view = desk.view(job_id)
        assert view.state is JobState.WAITING_FOR_RECORDING
        assert view.fetch is not None
        assert view.fetch.attempts == number + 1
    desk.run()
    assert desk.ended(job_id) == (JobState.QUEUED, None)
    assert len(server.asked) == len(answers) + 1


def test_an_attempt_waits_as_long_as_the_server_asks(desk: Desk) -> None:
    desk.serve(once(head(503, Retry_After="600", Content_Length=0)))
    desk.submit()
    assert desk.run()
    ((wait_s,),) = rows(
        desk.database, "SELECT extract(epoch FROM not_before - now())::float FROM fetches"
    )
    assert 500 < wait_s <= 600
    assert not desk.run()


def test_trouble_that_does_not_pass_ends_the_job(desk: Desk) -> None:
    server = desk.serve(once(head(500, Content_Length=0)))
    job_id = desk.submit()
    while desk.run():
        pass
    assert len(server.asked) == ATTEMPTS_MAX
    assert desk.ended(job_id) == (JobState.FAILED, "link_failed")
    assert "answered 500" in str(desk.view(job_id).end_detail)
    assert "8 attempts" in str(desk.view(job_id).end_detail)


def test_a_link_that_kills_its_process_again_and_again_is_given_up(desk: Desk) -> None:
    server = desk.serve(once(whole(SAMPLE)))
    job_id = desk.submit()
    rows(desk.database, f"UPDATE fetches SET attempts = {ATTEMPTS_MAX} RETURNING 1")
    desk.run()
    assert desk.ended(job_id) == (JobState.FAILED, "link_failed")
    assert server.asked == []


def test_a_link_that_takes_longer_than_all_may_take_is_given_up(desk: Desk) -> None:
    server = desk.serve(once(whole(SAMPLE)))
    job_id = desk.submit()
    rows(desk.database, "UPDATE fetches SET begun_at = now() - interval '7 hours' RETURNING 1")
    desk.run()
    assert desk.ended(job_id) == (JobState.FAILED, "link_failed")
    assert server.asked == []


def test_a_connection_that_breaks_is_gone_on_from(desk: Desk) -> None:
    pieces = 4
    good = file_of(SAMPLE, ETag='"v1"')

    def answer(asked: Asked) -> Iterator[bytes]:
        sent = b"".join(good(asked))
        body_at = sent.index(b"\r\n\r\n") + 4
        yield sent[: body_at + len(SAMPLE) // pieces]
        if len(sent) - body_at > len(SAMPLE) // pieces:
            time.sleep(0.2)
            raise Reset

    # Safe as soon as they are here, and worth a new count of attempts.
    desk.pace = replace(desk.pace, patience=Patience(window_bytes=1000))
    server = desk.serve(answer)
    job_id = desk.submit()
    while desk.run():
        view = desk.view(job_id)
        assert view.fetch is not None
        assert view.fetch.attempts <= 1
    assert desk.ended(job_id) == (JobState.QUEUED, None)
    starts = [asked.headers.get("range") for asked in server.asked]
    assert starts[0] is None
    assert len(starts) >= pieces
    assert len(set(starts)) == len(starts)  # each began further on


# --- somebody else's decisions -----------------------------------------------------------------


def halting(desk: Desk, at: int = 20_000, **headers: object) -> Answer:
    """Sends a part, then nothing until the test has ended; whoever comes later gets the rest."""
    good = file_of(SAMPLE, **headers)

    def answer(asked: Asked) -> Iterator[bytes]:
        if asked.number:
            yield from good(asked)
            return
        yield head(Content_Length=len(SAMPLE), **headers)
        yield SAMPLE[:at]
        desk.world.servers[0].pause(60)

    return answer


def received(desk: Desk, job_id: str) -> int:
    fetch = desk.view(job_id).fetch
    return 0 if fetch is None else fetch.received_bytes


def test_a_cancel_ends_the_job_at_once_and_the_fetch_soon_after(desk: Desk) -> None:
    desk.serve(halting(desk))
    job_id = desk.submit()
    fetching = desk.in_thread()
    desk.until(lambda: [path for path in desk.incoming() if path.stat().st_size > 10_000])
    assert jobs.request_cancel(desk.database, job_id) is JobState.CANCELED
    fetching.join(timeout=20)
    assert not fetching.is_alive()
    assert desk.ended(job_id) == (JobState.CANCELED, "canceled")


def test_what_is_canceled_while_it_is_examined_becomes_no_recording(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.serve(once(whole(SAMPLE)))
    job_id = desk.submit()
    examine = errands.intake.examine

    def canceling(*given: Any, **named: Any) -> Any:
        probe = examine(*given, **named)
        jobs.request_cancel(desk.database, job_id)
        return probe

    monkeypatch.setattr(errands.intake, "examine", canceling)
    desk.run()
    assert desk.ended(job_id) == (JobState.CANCELED, "canceled")
    assert rows(desk.database, "SELECT 1 FROM recordings") == []
    assert rows(desk.database, "SELECT 1 FROM blobs") == []


def test_told_to_leave_it_keeps_what_came_and_the_next_one_goes_on(desk: Desk) -> None:
    server = desk.serve(halting(desk, ETag='"v1"'))
    job_id = desk.submit()
    fetching = desk.in_thread()
    desk.until(lambda: [path for path in desk.incoming() if path.stat().st_size > 10_000])
    desk.leaving.set()
    fetching.join(timeout=20)
    assert not fetching.is_alive()
    came = received(desk, job_id)
    assert 0 < came <= 20_000
    assert len(desk.incoming()) == 1
    desk.leaving.clear()
    assert desk.run()
    assert desk.ended(job_id) == (JobState.QUEUED, None)
    assert server.asked[1].headers["range"] == f"bytes={came}-"
    view = desk.view(job_id)
    assert view.fetch is not None
    assert view.fetch.attempts == 1  # the one that was told to leave does not count


def test_a_process_that_comes_to_life_again_cannot_write_into_its_successors_file(
    desk: Desk,
) -> None:
    server = desk.serve(file_of(SAMPLE, ETag='"v1"'))
    job_id = desk.submit()
    stopped = fetches.claim(desk.database, lease_s=-1)
    assert stopped is not None
    upload_id = recordings.begin_upload(desk.database, owner="ana", filename="call.mp4")
    fetches.bind(desk.database, stopped, upload_id)
    path = open_storage(desk.settings).blobs.begin(upload_id)
    with held(path) as file:
        assert file is not None
        desk.run()
        file.write(b"from another life")
    assert desk.view(job_id).state is JobState.QUEUED
    assert "range" not in server.asked[0].headers
    recording_id = desk.view(job_id).recording_id
    assert recording_id is not None
    sha256 = recordings.get(desk.database, recording_id, owner=None).sha256
    with open_storage(desk.settings).blobs.local(sha256) as stored:
        assert stored.read_bytes() == SAMPLE


def test_one_whose_lease_was_taken_over_leaves_the_others_file_alone(desk: Desk) -> None:
    desk.serve(halting(desk))
    job_id = desk.submit()
    desk.pace = replace(desk.pace, lease_s=-1, renew_s=0.3)  # over as soon as it is given
    first = desk.in_thread()
    desk.until(lambda: [path for path in desk.incoming() if path.stat().st_size > 10_000])
    desk.pace = replace(desk.pace, lease_s=30)
    assert desk.run()
    first.join(timeout=20)
    assert not first.is_alive()
    assert desk.ended(job_id) == (JobState.QUEUED, None)


def test_a_database_that_is_away_for_a_moment_costs_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, told = fetches.advance, []

    def failing(*given: Any, received_bytes: int, **named: Any) -> bool:
        told.append(received_bytes)
        if received_bytes:
            raise DatabaseUnavailable
        return advance(*given, received_bytes=received_bytes, **named)

    monkeypatch.setattr(fetches, "advance", failing)
    desk.serve(once(whole(SAMPLE)))
    job_id = desk.submit()
    with suppress(DatabaseUnavailable):
        desk.run()
    assert desk.ended(job_id) == (JobState.QUEUED, None)
    assert told[-1] == len(SAMPLE)


def test_bytes_of_another_version_wait_until_the_database_knows(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*given: Any, **named: Any) -> bool:
        raise DatabaseUnavailable

    desk.serve(halting(desk, ETag='"v1"'))
    desk.submit()
    fetching = desk.in_thread()
    desk.until(lambda: [path for path in desk.incoming() if path.stat().st_size > 10_000])
    desk.leaving.set()
    fetching.join(timeout=20)
    desk.leaving.clear()
    (path,) = desk.incoming()
    before = path.read_bytes()
    desk.world.serve(once(whole(SAMPLE, ETag='"v2"')))
    monkeypatch.setattr(fetches, "advance", away)
    with pytest.raises(DatabaseUnavailable):
        desk.run()
    assert path.read_bytes() == before


def test_every_end_has_words_of_its_own() -> None:
    from pipeline.brief.wording import END_REASONS

    assert {reason.value for reason in EndReason} == set(END_REASONS)
