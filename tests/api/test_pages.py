"""The pages read, typed into and clicked in a real Chromium."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, FileChooser, Page, expect

from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.engine.session import Engine
from pipeline.ledger import queue, views
from pipeline.ledger.frames import FolderFrames
from pipeline.ledger.keys import Role
from pipeline.ledger.queue import QueueState
from pipeline.publish import assembled, write_folder
from tests.api.site import OBJECTIVE, SAMPLES, Site, running, site
from tests.browser import DESKTOP, PHONE, Reader, chromium
from tests.clips import AAC, H264, Clips, clips, greys, tones
from tests.doubles import ScriptedEngine, block
from worker.station import Station

__all__ = ["clips", "running", "site"]

TOLERANCE_S = 0.3
LATE_S = 5
"""When the late file's container starts."""
CITED_S = (3, 7)
"""Source seconds that links lead to; hand-counted from the script of `cited`."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def reader(browser: Browser, site: Site) -> Iterator[Reader]:
    """An analyst at a desk, signed in; complaints of the browser fail the test."""
    reader = Reader(browser, site.origin, viewport=DESKTOP)
    reader.sign_in(site.cookie())
    yield reader
    reader.close()


@pytest.fixture
def work(site: Site) -> Iterator[Callable[[Engine], None]]:
    """Starts a worker's loop over an engine, in a thread."""
    leave = threading.Event()
    threads = []

    def run(station: Station) -> None:
        while not leave.is_set():
            if not station.work():
                leave.wait(0.05)

    def start(engine: Engine) -> None:
        settings = replace(site.settings, host_name=site.owner)
        station = Station(settings, engine=engine, database=site.database)
        threads.append((station, threading.Thread(target=run, args=(station,))))
        threads[-1][1].start()

    yield start
    leave.set()
    for station, thread in threads:
        station.leave()
        thread.join(30)
        assert not thread.is_alive()


def fill(page: Page, recording: Path, portfolio: Path, *, title: str) -> None:
    page.goto("/jobs/new")
    page.get_by_label("Recording").set_input_files(recording)
    page.get_by_label("Portfolio file").set_input_files(portfolio)
    page.get_by_label("Objective").fill(OBJECTIVE)
    page.get_by_label("Title").fill(title)
    page.get_by_label("Event date").fill("2026-03-31")


def submit(page: Page, recording: Path, portfolio: Path, *, title: str) -> None:
    fill(page, recording, portfolio, title=title)
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))


def current_s(page: Page) -> float:
    return float(page.evaluate("document.querySelector('video, audio').currentTime"))


def follow(page: Page, at: int) -> float:
    """Follow a link of the brief; return the time that it names, on the player's clock."""
    link = page.locator("a.play").nth(at)
    cited = re.search(r"#t=([0-9.]+)", link.get_attribute("href") or "")
    assert cited is not None
    # Stands still at the moment, so that it can be measured.
    page.evaluate("HTMLMediaElement.prototype.play = () => Promise.resolve()")
    link.click()
    stand(page)
    return float(cited[1])


def stand(page: Page) -> None:
    player = "document.querySelector('video, audio')"
    page.wait_for_timeout(200)
    until(page, f"{player}.readyState >= 2 && !{player}.seeking")


def test_the_sample_is_submitted_watched_and_read_and_its_links_jump(
    reader: Reader, work: Callable[[Engine], None]
) -> None:
    page = reader.page
    page.goto("/jobs")
    reader.shoot("jobs-empty")
    submit(
        page,
        SAMPLES / "sample.mp4",
        SAMPLES / "portfolio.csv",
        title="Arden investor day",
    )
    loads: list[str] = []
    page.on("framenavigated", lambda frame: loads.append(frame.url))
    expect(page.locator("#panel .state-word")).to_have_text("Queued")
    reader.shoot("job-queued")
    work(RehearsalEngine())
    expect(page.locator("#panel .state-word")).to_have_text("Done", timeout=60_000)
    expect(page.locator("#amount")).to_have_text("1:12 of 1:12")
    expect(page.locator("#brief h2#status")).to_have_text("Complete")
    assert page.locator("article.finding").count() > 0
    assert loads == []  # no reload was needed
    reader.shoot("job-done")
    reader.shoot("job-done-window", is_whole=False)
    page.emulate_media(media="print")
    reader.shoot("job-print")
    page.emulate_media(media="screen")
    shown = page.locator("article.finding img").first
    shown.scroll_into_view_if_needed()
    expect(shown).to_have_js_property("complete", True)
    assert shown.evaluate("image => image.naturalWidth") > 0
    for at in range(3):
        cited_s = follow(page, at)
        assert current_s(page) == pytest.approx(cited_s, abs=TOLERANCE_S)
    reader.shoot("job-playing", is_whole=False)
    page.goto("/jobs")
    expect(page.locator("tbody th a").first).to_have_text("Arden investor day")
    reader.shoot("jobs")
    page.emulate_media(color_scheme="dark")
    reader.shoot("jobs-dark")
    page.locator("tbody th a").first.click()
    reader.shoot("job-dark", is_whole=False)


@pytest.mark.parametrize("name", ["late.mp4", "late.webm"])
def test_links_jump_to_the_cited_picture_in_a_file_that_starts_late(
    site: Site, reader: Reader, clips: Clips, name: str
) -> None:
    page = reader.page
    page.goto(f"/jobs/{watched(site, late(clips, name), cited())}")
    for at, source_s in enumerate(CITED_S):
        assert follow(page, at) == pytest.approx(LATE_S + source_s, abs=0.05)
        assert current_s(page) == pytest.approx(LATE_S + source_s, abs=TOLERANCE_S)
        # The picture itself says which source second it is, to the frame before.
        assert shown_second(page) == pytest.approx(source_s, abs=1.05)
    expect(page.locator("#player-text")).to_contain_text("own clock is 5.0 s ahead")
    expect(page.locator("#player-text")).to_contain_text(f"Source time 0:0{CITED_S[-1]}")


@pytest.mark.parametrize("name", ["late.mp4", "late.webm"])
def test_links_of_a_brief_in_a_folder_open_a_file_that_starts_late_at_the_cited_second(
    site: Site, browser: Browser, clips: Clips, tmp_path: Path, name: str
) -> None:
    recording = late(clips, name)
    job_id = watched(site, recording, cited())
    brief = assembled(site.database, job_id, release="1")
    frames = FolderFrames(site.settings.data_dir / "frames")
    write_folder(brief, frames, tmp_path, recording_href=recording.as_uri())
    reader = Reader(browser, "file://", viewport=DESKTOP)
    page = reader.page
    # Stands still at the moment, so that it can be measured.
    page.add_init_script("addEventListener('play', event => event.target.pause(), true)")
    for at, source_s in enumerate(CITED_S):
        page.goto((tmp_path / "brief.html").as_uri())
        page.locator("a.play").nth(at).click()
        page.wait_for_url(f"{recording.as_uri()}#t=*")
        stand(page)
        assert current_s(page) == pytest.approx(LATE_S + source_s, abs=TOLERANCE_S)
        assert pictured_second(page) == pytest.approx(source_s, abs=1.05)
    reader.close()


def test_progress_is_live_and_a_brief_that_is_being_read_is_not_changed_under_the_reader(
    reader: Reader, work: Callable[[Engine], None], clips: Clips
) -> None:
    gates = {6: threading.Event(), 9: threading.Event()}
    script = {4: finding(), 8: finding(evidence="Orders of 1.9 billion.")}
    engine = ScriptedEngine(script, before={at: waiter(gate) for at, gate in gates.items()})
    work(engine)
    page = reader.page
    try:
        submit_scripted(page, plain(clips))
        expect(page.locator("#amount")).to_have_text("0:06 of 0:12", timeout=30_000)
        expect(page.locator("article.finding")).to_have_count(1, timeout=20_000)
        page.locator("#brief a.play").first.focus()
        gates[6].set()
        expect(page.locator("#amount")).to_have_text("0:09 of 0:12", timeout=30_000)
        reader.shoot("job-running", is_whole=False)
    finally:
        for gate in gates.values():
            gate.set()
    expect(page.locator("#panel .state-word")).to_have_text("Done", timeout=30_000)
    expect(page.locator("article.finding")).to_have_count(1)
    expect(page.locator("#brief a.play").first).to_be_focused()
    page.get_by_role("button", name="Show the newer brief").click()
    expect(page.locator("article.finding")).to_have_count(2)
    expect(page.locator("#fresh")).to_be_hidden()


def test_a_running_job_is_canceled_from_its_page(
    reader: Reader, work: Callable[[Engine], None], clips: Clips
) -> None:
    gate = threading.Event()
    work(ScriptedEngine({1: finding()}, before={3: waiter(gate)}))
    page = reader.page
    try:
        submit_scripted(page, plain(clips))
        expect(page.locator("#amount")).to_have_text("0:03 of 0:12", timeout=30_000)
        page.get_by_role("button", name="Cancel this job").click()
        expect(page.locator("#panel .state-word")).to_have_text("Cancelling")
        reader.shoot("job-canceling", is_whole=False)
    finally:
        gate.set()
    expect(page.locator("#panel .state-word")).to_have_text("Cancelled", timeout=30_000)
    expect(page.locator("#panel")).to_contain_text("cancelled on request")
    expect(page.get_by_role("button", name="Cancel this job")).to_have_count(0)
    expect(page.locator("article.finding")).to_have_count(1)


def test_a_finding_is_accepted_searched_for_and_followed_to_its_moment(
    site: Site, reader: Reader, clips: Clips
) -> None:
    page = reader.page
    page.goto(f"/jobs/{watched(site, plain(clips), cited())}")
    article = page.locator("article.finding", has_text="Orders of 1.9 billion.")
    article.get_by_text("Note, accept or reject").click()
    article.get_by_label("Note").fill("Agrees with the filing.")
    reader.shoot("job-noting", is_whole=False)
    article.get_by_role("button", name="Accept").click()
    expect(article.locator(".state.accepted")).to_be_visible()
    expect(article).to_contain_text("Agrees with the filing.")
    page.get_by_role("link", name="Search").click()
    page.get_by_label("Words").fill('"1.9 billion"')
    page.get_by_label("State").select_option("accepted")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".hit")).to_have_count(1)
    reader.shoot("search")
    assert reader.overflow_px() == 0
    page.add_init_script("HTMLMediaElement.prototype.play = () => Promise.resolve()")
    page.locator(".hit a").click()
    stand(page)
    assert current_s(page) == pytest.approx(CITED_S[1], abs=TOLERANCE_S)


def test_a_job_is_submitted_and_canceled_with_the_keyboard_alone(
    browser: Browser, site: Site, tmp_path: Path
) -> None:
    reader = Reader(browser, site.origin, viewport=DESKTOP)
    page, keyboard = reader.page, reader.page.keyboard
    page.goto("/jobs/new")
    expect(page.get_by_label("Key")).to_be_focused()  # a browser gives the focus after the load
    keyboard.type(site.key()[1])
    keyboard.press("Enter")
    page.wait_for_url(f"{site.origin}/jobs/new")
    # Listens throughout: a listener of each dialog's own could come after the key.
    choosers: list[FileChooser] = []
    page.on("filechooser", lambda chooser: choosers.append(chooser))
    for label, path in (
        ("Recording", SAMPLES / "sample.mp4"),
        ("Portfolio file", SAMPLES / "portfolio.csv"),
    ):
        tab_to(page, label)
        keyboard.press("Enter")
        until(page, lambda: len(choosers) == 1)
        choosers.pop().set_files(path)
    tab_to(page, "Objective")
    keyboard.type("What was said of guidance?")
    tab_to(page, "Submit")
    keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    tab_to(page, "Cancel this job")
    keyboard.press("Enter")
    expect(page.locator("#panel .state-word")).to_have_text("Cancelled")
    reader.close()


def test_a_browser_without_scripts_submits_the_recording_and_then_the_rest(
    browser: Browser, site: Site
) -> None:
    reader = Reader(browser, site.origin, viewport=DESKTOP, java_script_enabled=False)
    reader.sign_in(site.cookie())
    page = reader.page
    page.goto("/jobs/new")
    reader.shoot("new-without-scripts")
    page.get_by_label("Recording").set_input_files(SAMPLES / "sample.mp4")
    page.get_by_role("button", name="Upload the recording").click()
    expect(page.locator("#recording-hint")).to_contain_text("sample.mp4 is uploaded and kept")
    page.get_by_label("Portfolio file").set_input_files(SAMPLES / "portfolio.csv")
    page.get_by_label("Objective").fill(OBJECTIVE)
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#panel .state-word")).to_have_text("Queued")
    reader.close()


def test_problems_stand_beside_their_fields_and_nothing_is_uploaded_before_they_are_mended(
    reader: Reader, tmp_path: Path
) -> None:
    page = reader.page
    portfolio = tmp_path / "portfolio.csv"
    portfolio.write_text("id,name,currency,asset_type,weight_pct\nA,Alpha,EURO,Equity,heavy\n")
    fill(page, SAMPLES / "sample.mp4", portfolio, title="Day")
    page.get_by_label("Objective").fill("x" * 4001)
    uploads = []
    page.on("request", lambda request: uploads.append(request.url) if is_upload(request) else None)
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#objective-problems")).to_contain_text("at most 4000 are accepted")
    expect(page.locator("#portfolio-problems li")).to_have_count(2)
    expect(page.locator("#title-problems li")).to_have_count(0)
    expect(page.locator("#portfolio")).to_be_focused()
    reader.shoot("new-problems")
    assert uploads == []
    assert reader.overflow_px() == 0
    page.get_by_label("Objective").fill(OBJECTIVE)
    page.get_by_label("Portfolio file").set_input_files(SAMPLES / "portfolio.csv")
    streams = page.get_by_text("Choose other streams of the file")
    streams.click()
    page.get_by_label("Sound").fill("9")
    streams.click()  # what is wrong in it opens it again
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#audio_stream-problems")).to_contain_text("no audio stream 9")
    expect(page.get_by_label("Sound")).to_be_focused()
    page.get_by_label("Sound").fill("1")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    assert len(uploads) == 1
    expect(page.locator("#brief h1")).to_have_text("Day")
    refused = "the server responded with a status of 422"
    reader.complaints = [line for line in reader.complaints if refused not in line]


def test_everything_fits_a_phone_and_the_player_stays_in_sight_while_it_plays(
    site: Site, browser: Browser, clips: Clips
) -> None:
    phone = {"viewport": PHONE, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
    reader = Reader(browser, site.origin, **phone)
    page = reader.page
    page.goto("/sign-in")
    reader.shoot("phone-sign-in")
    assert reader.overflow_px() == 0
    page.goto(site.link(role=Role.ADMIN))
    page.wait_for_url("**/jobs")
    fill(page, SAMPLES / "sample.mp4", SAMPLES / "portfolio.csv", title="Investor day")
    reader.shoot("phone-new")
    assert reader.overflow_px() == 0
    page.goto(f"/jobs/{watched(site, opening(clips), RehearsalEngine(), title='A' * 150)}")
    expect(page.locator("article.finding")).not_to_have_count(0)
    page.get_by_text("Run it again").click()
    reader.shoot("phone-job")
    assert reader.overflow_px() == 0
    page.locator("a.play").last.tap()
    until(page, "document.querySelector('video').currentTime > 0")
    expect(page.locator("#player")).to_have_class(re.compile("is-playing"))
    expect(page.locator("video")).to_be_in_viewport(ratio=0.99)
    reader.shoot("phone-playing", is_whole=False)
    page.goto("/jobs")
    reader.shoot("phone-jobs")
    assert reader.overflow_px() == 0
    reader.close()


def test_a_night_is_planned_from_the_pages_and_they_fit_a_phone(
    site: Site, browser: Browser
) -> None:
    reader = Reader(browser, site.origin, viewport=PHONE, timezone_id="Asia/Tokyo")
    reader.sign_in(site.cookie(role=Role.ADMIN))
    page = reader.page
    day = (datetime.now(timezone.utc) + timedelta(days=3)).date()
    fill(page, SAMPLES / "sample.mp4", SAMPLES / "portfolio.csv", title="N" * 150)
    when = page.get_by_text("Say when it is wanted")
    when.click()
    expect(page.get_by_label("Time zone of both")).to_have_value("Asia/Tokyo")
    page.get_by_label("Ready by").fill(f"{day}T07:00")
    page.get_by_label("Not before").fill(f"{day}T07:00")
    when.click()
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#ready_by-problems")).to_contain_text("not after “not_before”")
    expect(page.get_by_label("Ready by")).to_be_focused()
    assert reader.overflow_px() == 0
    page.get_by_label("Not before").fill("")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    job = views.get(site.database, page.url.rpartition("/")[2], owner=None)
    assert job.ready_by == datetime.fromisoformat(f"{day}T07:00:00+09:00")

    page.get_by_role("link", name="Queue", exact=True).click()
    expect(page.locator("main")).to_contain_text("The queue is open. 0 run, 1 waits")
    row = page.get_by_role("row", name="N" * 150)
    # Whichever a worker of an earlier test still lets be told: both are no time.
    expect(row).to_contain_text(re.compile("pace not known yet|no worker is ready"))
    reader.shoot("phone-queue")
    assert reader.overflow_px() == 0
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("main")).to_contain_text("paused: nothing more is begun")
    assert queue.state(site.database) is QueueState.PAUSED
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("main")).to_contain_text("The queue is open.")
    assert queue.state(site.database) is QueueState.OPEN

    page.get_by_role("link", name="Night", exact=True).click()
    expect(page.get_by_role("row", name="N" * 150)).to_contain_text("Waiting")
    reader.shoot("phone-night")
    assert reader.overflow_px() == 0
    refused = "the server responded with a status of 422"
    reader.complaints = [line for line in reader.complaints if refused not in line]
    reader.close()


# --- what the browser tests need ---------------------------------------------------------------


def cited() -> ScriptedEngine:
    """Says something in the units before CITED_S, which it still remembers."""
    first, second = CITED_S
    return ScriptedEngine(
        {first + 1: finding(), second + 1: finding(evidence="Orders of 1.9 billion.")}
    )


def watched(site: Site, recording: Path, engine: Engine, **changes: str) -> str:
    """The id of a job over this recording that an engine has been through."""
    answer = site.app.test_client().post(
        "/v1/jobs",
        json={
            "recording_id": site.recording(recording),
            "portfolio": (SAMPLES / "portfolio.csv").read_text(),
            "objective": OBJECTIVE,
            "engine": engine.describe().name,
            **changes,
        },
        headers={"Authorization": f"Bearer {site.key()[1]}"},
    )
    assert answer.status_code == 202, answer.text
    settings = replace(site.settings, host_name=site.owner)
    assert Station(settings, engine=engine, database=site.database).work()
    return str(answer.json["id"])


def finding(**words: str) -> str:
    return block("Kestrel & Rowe plc", **words) + ScriptedEngine.END


def waiter(gate: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        assert gate.wait(60)

    return wait


def opening(clips: Clips) -> Path:
    """The sample's first seconds: enough for a finding with a picture, and quickly watched."""
    cut = ("-i", str(SAMPLES / "sample.mp4"), "-t", "20", "-c", "copy")
    return clips.make("opening.mp4", *cut)


def plain(clips: Clips) -> Path:
    return clips.make("plain.mp4", *greys(12), *tones(12), *H264, "-g", "10", *AAC)


def late(clips: Clips, name: str) -> Path:
    codecs = (
        (*H264, "-g", "10", *AAC)
        if name.endswith("mp4")
        else ("-c:v", "libvpx", "-g", "10", "-c:a", "libopus")
    )
    offset = ("-output_ts_offset", str(LATE_S))
    return clips.make(name, *greys(12, size="320x240"), *tones(12), *codecs, *offset)


def submit_scripted(page: Page, recording: Path) -> None:
    fill(page, recording, SAMPLES / "portfolio.csv", title="")
    page.get_by_label("Engine").select_option("scripted")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))


def shown_second(page: Page) -> float:
    """Which source second the picture in the player is of, by its grey."""
    red = page.evaluate(
        """() => {
          const canvas = document.createElement("canvas");
          const video = document.querySelector("video");
          [canvas.width, canvas.height] = [64, 48];
          const context = canvas.getContext("2d");
          context.drawImage(video, 0, 0, 64, 48);
          return context.getImageData(32, 24, 1, 1).data[0];
        }"""
    )
    return second_of(float(red))


def pictured_second(page: Page) -> float:
    """The same by what is on the screen, where a page may not read its pixels."""
    box = page.locator("video").bounding_box()
    assert box is not None
    middle = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 4}
    shot = page.screenshot(clip={**middle, "width": 4, "height": 4})
    return second_of(float(Image.open(io.BytesIO(shot)).convert("L").getpixel((1, 1))))


def second_of(level: float) -> float:
    """Of the full-range grey that `greys` makes of a second."""
    return (level * 219 / 255 + 16 - 20) / 10


def until(page: Page, told: str | Callable[[], bool]) -> None:
    """Playwright's own wait evaluates text in the page, which the policy forbids."""
    for _ in range(300):
        if told() if callable(told) else page.evaluate(told):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never true: {told}")


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the control of this name has the focus, and see that this shows."""
    told = """() => {
      const element = document.activeElement;
      const label = element.labels?.[0]?.textContent.trim();
      const name = element.getAttribute("aria-label") ?? (label || element.textContent.trim());
      return [name, getComputedStyle(element).outlineStyle];
    }"""
    for _ in range(40):
        page.keyboard.press("Tab")
        shown, outline = page.evaluate(told)
        assert outline != "none"
        if shown == name:
            return
    pytest.fail(f"no control “{name}” is reached with the Tab key")


def is_upload(request: Any) -> bool:
    return request.method == "POST" and request.url.endswith("/v1/recordings")
