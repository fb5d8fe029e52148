"""The pages: signed in, read, typed into and clicked, by a client and in a real Chromium."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from playwright.sync_api import Browser, Page, expect
from werkzeug.serving import make_server

from api import make_app
from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.engine.session import Engine
from pipeline.ledger import keys, views
from pipeline.ledger.database import Database, connect
from pipeline.ledger.keys import Key, Role
from pipeline.records import JobState
from pipeline.settings import Settings
from tests.browser import DESKTOP, PHONE, Reader, chromium
from tests.clips import AAC, H264, Clips, greys, tones
from tests.doubles import ScriptedEngine, block
from worker.station import Station

OBJECTIVE = "What was said of guidance & margins?"
TOLERANCE_S = 0.3
LATE_S = 5
"""When the late file's container starts."""


@dataclass
class Site:
    """The real application on a port of its own, and keys to it."""

    settings: Settings
    database: Database
    origin: str
    app: Any

    def key(self, owner: str = "ana", role: Role = Role.ANALYST) -> tuple[Key, str]:
        tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
        return keys.create(self.database, owner=owner, role=role, label="test", expires_at=tomorrow)

    def link(self, owner: str = "ana", role: Role = Role.ANALYST) -> str:
        token = keys.make_sign_in(self.database, self.key(owner, role)[0].id, lifetime_s=60)
        return f"/sign-in?token={token}"


@pytest.fixture
def site(database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Site]:
    settings = Settings(
        data_dir=tmp_path / "data",
        database_url=database_url,
        redis_url=valkey_url,
        host_name=tmp_path.name,
    )
    app = make_app(settings, engines=("rehearsal", "scripted"))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    database = connect(database_url)
    try:
        yield Site(settings, database, f"http://127.0.0.1:{server.server_port}", app)
    finally:
        app.extensions["omnai"].watcher.close()
        server.shutdown()
        thread.join()
        server.server_close()
        database.dispose()
        app.extensions["omnai"].database.dispose()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def reader(browser: Browser, site: Site, tmp_path: Path) -> Iterator[Reader]:
    """An analyst at a desk, signed in; complaints of the browser fail the test."""
    reader = Reader(browser, site.origin, tmp_path, viewport=DESKTOP)
    reader.page.goto(site.link())
    reader.page.wait_for_url("**/jobs")
    yield reader
    reader.context.close()
    assert reader.complaints == []


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
        station = Station(site.settings, engine=engine, database=site.database)
        threads.append((station, threading.Thread(target=run, args=(station,))))
        threads[-1][1].start()

    yield start
    leave.set()
    for station, thread in threads:
        station.leave()
        thread.join(30)


@pytest.fixture
def client(site: Site) -> FlaskClient:
    client: FlaskClient = site.app.test_client()
    return client


def signed_in(site: Site, client: FlaskClient, **who: Any) -> str:
    """Sign the client in and return its CSRF token."""
    assert client.get(site.link(**who)).status_code == 200
    found = re.search(r'name="csrf-token" content="([^"]+)"', client.get("/jobs").text)
    assert found is not None
    return found[1]


def sample(repository: Path, name: str) -> io.BytesIO:
    return io.BytesIO((repository / "samples" / name).read_bytes())


def form(repository: Path, csrf: str, **changed: Any) -> dict[str, Any]:
    """What a browser without scripts sends."""
    return {
        "csrf_token": csrf,
        "recording_id": "",
        "file": (sample(repository, "sample.mp4"), "sample.mp4"),
        "portfolio": (sample(repository, "portfolio.csv"), "portfolio.csv"),
        "portfolio_text": "",
        "objective": OBJECTIVE,
        "title": "Investor day",
        "event_date": "2026-03-31",
        "engine": "rehearsal",
        **changed,
    }


# --- sessions ----------------------------------------------------------------------------------


def test_a_reader_without_a_session_is_asked_to_sign_in_and_comes_back(client: FlaskClient) -> None:
    answer = client.get("/jobs?state=failed")
    assert answer.status_code == 303
    assert answer.location == "/sign-in?next=/jobs?state%3Dfailed"
    assert 'name="next" value="/jobs?state=failed"' in client.get(answer.location).text


def test_a_key_signs_in_and_its_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(
    site: Site, client: FlaskClient
) -> None:
    answer = client.post("/sign-in", data={"key": site.key()[1], "next": "/jobs/new"})
    assert answer.status_code == 200
    assert 'content="0; url=/jobs/new"' in answer.text
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.get("/jobs").status_code == 200


@pytest.mark.parametrize("secret", ["", "omnai_wrong", "x" * 5000])
def test_a_wrong_key_is_refused_in_words(client: FlaskClient, secret: str) -> None:
    answer = client.post("/sign-in", data={"key": secret})
    assert answer.status_code == 403
    assert "This key is not valid" in answer.text
    assert "Set-Cookie" not in answer.headers


def test_a_sign_in_form_of_another_site_is_refused(site: Site, client: FlaskClient) -> None:
    secret = site.key()[1]
    for origin in ("https://evil.example", "null"):
        answer = client.post("/sign-in", data={"key": secret}, headers={"Origin": origin})
        assert answer.status_code == 403
        assert "Set-Cookie" not in answer.headers


def test_a_sign_in_link_works_once_and_a_preview_does_not_use_it_up(
    site: Site, client: FlaskClient
) -> None:
    link = site.link()
    client.head(link)
    assert "Set-Cookie" in client.get(link).headers
    again = site.app.test_client().get(link)
    assert again.status_code == 403
    assert "used before" in again.text


@pytest.mark.parametrize(
    "wanted", ["https://evil.example", "//evil.example", "/\\evil", "/jobs\\..\\x", "javascript:1"]
)
def test_signing_in_never_leads_away_from_the_site(
    site: Site, client: FlaskClient, wanted: str
) -> None:
    answer = client.post("/sign-in", data={"key": site.key()[1], "next": wanted})
    assert 'content="0; url=/jobs"' in answer.text


def test_a_revoked_key_ends_its_sessions_at_once(site: Site, client: FlaskClient) -> None:
    key, secret = site.key()
    client.post("/sign-in", data={"key": secret})
    assert client.get("/jobs").status_code == 200
    keys.revoke(site.database, key.id)
    assert client.get("/jobs").status_code == 303


def test_signing_out_needs_the_token_and_takes_the_cookie(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client)
    assert client.post("/sign-out").status_code == 403
    assert client.post("/sign-out", data={"csrf_token": csrf}).status_code == 200
    assert client.get("/jobs").status_code == 303


def test_every_page_forbids_inline_script_and_style(site: Site, client: FlaskClient) -> None:
    signed_in(site, client)
    for address in ("/jobs", "/jobs/new", "/jobs/unknown", "/sign-in"):
        answer = client.get(address)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"<style|<script>|\son[a-z]+=|\sstyle=", answer.text)


# --- without scripts ---------------------------------------------------------------------------


def test_the_form_submits_without_scripts(
    site: Site, client: FlaskClient, repository: Path
) -> None:
    csrf = signed_in(site, client)
    answer = client.post("/jobs/new", data=form(repository, csrf))
    assert answer.status_code == 303
    page = client.get(answer.location)
    assert "Queued" in page.text
    assert "guidance &amp; margins?" in page.text
    view = views.get(site.database, answer.location.rpartition("/")[2], owner="ana")
    assert (view.state, view.title) == (JobState.QUEUED, "Investor day")


def test_a_refusal_says_everything_beside_its_field_and_keeps_what_was_typed(
    site: Site, client: FlaskClient, repository: Path
) -> None:
    csrf = signed_in(site, client)
    pasted = "id,name,currency,asset_type,weight_pct\nA,Alpha,EURO,Equity,heavy\n"
    wrong = form(
        repository,
        csrf,
        objective=" ",
        event_date="31.3.",
        title="<b>Day</b>",
        portfolio_text=pasted,
        portfolio=None,
    )
    del wrong["portfolio"]
    answer = client.post("/jobs/new", data=wrong)
    assert answer.status_code == 422
    problems = dict(re.findall(r'data-problems="(\w+)">(.*?)</ul>', answer.text, flags=re.DOTALL))
    assert "it is empty" in problems["objective"]
    assert "YYYY-MM-DD" in problems["event_date"]
    assert problems["portfolio"].count("<li>") == 2
    assert problems["title"] == problems["recording"] == ""
    assert 'value="&lt;b&gt;Day&lt;/b&gt;"' in answer.text
    assert "A,Alpha,EURO,Equity,heavy" in answer.text
    kept = re.search(r'name="recording_id" value="([0-9a-f-]+)"', answer.text)
    assert kept is not None
    mended = form(repository, csrf, recording_id=kept[1])
    del mended["file"]
    assert client.post("/jobs/new", data=mended).status_code == 303


def test_a_form_without_its_token_changes_nothing(
    site: Site, client: FlaskClient, repository: Path
) -> None:
    csrf = signed_in(site, client)
    job_id = submitted(client, repository, csrf)
    assert client.post(f"/jobs/{job_id}/cancel").status_code == 403
    assert client.post("/jobs/new", data=form(repository, "wrong")).status_code == 403
    assert views.get(site.database, job_id, owner="ana").state is JobState.QUEUED


def test_a_job_is_canceled_once_and_then_says_that_it_has_ended(
    site: Site, client: FlaskClient, repository: Path
) -> None:
    csrf = signed_in(site, client)
    job_id = submitted(client, repository, csrf)
    data = {"csrf_token": csrf}
    assert client.post(f"/jobs/{job_id}/cancel", data=data).status_code == 303
    again = client.post(f"/jobs/{job_id}/cancel", data=data)
    assert again.status_code == 409
    assert "has ended" in again.text


def test_a_rerun_is_for_admins_and_says_what_is_wrong(
    site: Site, client: FlaskClient, repository: Path
) -> None:
    csrf = signed_in(site, client)
    job_id = submitted(client, repository, csrf)
    client.post(f"/jobs/{job_id}/cancel", data={"csrf_token": csrf})
    assert "Run it again" not in client.get(f"/jobs/{job_id}").text
    wanted = {"from": "start", "reason": "Once more", "csrf_token": csrf}
    assert client.post(f"/jobs/{job_id}/rerun", data=wanted).status_code == 403
    admin = site.app.test_client()
    wanted["csrf_token"] = signed_in(site, admin, owner="root", role=Role.ADMIN)
    assert "Run it again" in admin.get(f"/jobs/{job_id}").text
    wrong = admin.post(
        f"/jobs/{job_id}/rerun", data=wanted | {"from": "second", "second": "-1", "reason": ""}
    )
    assert wrong.status_code == 422
    assert wrong.text.count("<li>") - admin.get(f"/jobs/{job_id}").text.count("<li>") == 2
    assert admin.post(f"/jobs/{job_id}/rerun", data=wanted).status_code == 303
    assert views.get(site.database, job_id, owner=None).state is JobState.QUEUED


def test_another_analysts_job_is_not_found_and_not_listed(
    site: Site, client: FlaskClient, repository: Path
) -> None:
    csrf = signed_in(site, client)
    job_id = submitted(client, repository, csrf)
    other = site.app.test_client()
    signed_in(site, other, owner="bo")
    assert other.get(f"/jobs/{job_id}").status_code == 404
    assert job_id not in other.get("/jobs").text
    assert job_id in client.get("/jobs").text


def test_texts_of_people_are_escaped_and_shown_whole(
    site: Site, client: FlaskClient, repository: Path
) -> None:
    csrf = signed_in(site, client, owner="<i>ana</i>")
    hostile = "<script>alert(1)</script>"
    answer = client.post(
        "/jobs/new",
        data=form(
            repository,
            csrf,
            title=hostile,
            objective=hostile,
            file=(sample(repository, "sample.mp4"), "<img src=x>.mp4"),
        ),
    )
    assert answer.status_code == 303, answer.text
    for address in ("/jobs", answer.location):
        page = client.get(address).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "<i>ana" not in page
        assert "&lt;script&gt;alert(1)" in page


def submitted(client: FlaskClient, repository: Path, csrf: str) -> str:
    answer = client.post("/jobs/new", data=form(repository, csrf))
    assert answer.status_code == 303, answer.text
    return str(answer.location.rpartition("/")[2])


# --- in a browser ------------------------------------------------------------------------------


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
    """Follow a link of the brief; return the source second that it cites."""
    link = page.locator("a.play").nth(at)
    cited = re.search(r"#t=([0-9.]+)", link.get_attribute("href") or "")
    assert cited is not None
    # Stands still at the moment, so that it can be measured.
    page.evaluate("HTMLMediaElement.prototype.play = () => Promise.resolve()")
    link.click()
    player = "document.querySelector('video, audio')"
    page.wait_for_timeout(200)
    until(page, f"{player}.readyState >= 2 && !{player}.seeking")
    return float(cited[1])


def test_the_sample_is_submitted_watched_and_read_and_its_links_jump(
    reader: Reader, work: Callable[[Engine], None], repository: Path
) -> None:
    page = reader.page
    page.goto("/jobs")
    reader.shoot("jobs-empty")
    submit(
        page,
        repository / "samples/sample.mp4",
        repository / "samples/portfolio.csv",
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
    reader: Reader,
    work: Callable[[Engine], None],
    repository: Path,
    tmp_path: Path,
    name: str,
) -> None:
    recording = late(tmp_path, name)
    page = reader.page
    work(ScriptedEngine({4: finding(), 8: finding(evidence="Orders of 1.9 billion.")}))
    submit_scripted(page, recording, repository)
    expect(page.locator("#panel .state-word")).to_have_text("Done", timeout=60_000)
    page.reload()
    for at in range(2):
        cited_s = follow(page, at)
        assert cited_s in (3, 7)
        assert current_s(page) == pytest.approx(LATE_S + cited_s, abs=TOLERANCE_S)
        # The picture itself says which source second it is, to the frame before.
        assert shown_second(page) == pytest.approx(cited_s, abs=1.05)
    expect(page.locator("#player-text")).to_contain_text("own clock is 5.0 s ahead")


def test_progress_is_live_and_a_brief_that_is_being_read_is_not_changed_under_the_reader(
    reader: Reader, work: Callable[[Engine], None], repository: Path, tmp_path: Path
) -> None:
    gates = {6: threading.Event(), 9: threading.Event()}
    script = {4: finding(), 8: finding(evidence="Orders of 1.9 billion.")}
    engine = ScriptedEngine(script, before={at: waiter(gate) for at, gate in gates.items()})
    work(engine)
    page = reader.page
    try:
        submit_scripted(page, plain(tmp_path), repository)
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
    reader: Reader, work: Callable[[Engine], None], repository: Path, tmp_path: Path
) -> None:
    gate = threading.Event()
    work(ScriptedEngine({1: finding()}, before={3: waiter(gate)}))
    page = reader.page
    try:
        submit_scripted(page, plain(tmp_path), repository)
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


def test_a_job_is_submitted_and_canceled_with_the_keyboard_alone(
    browser: Browser, site: Site, repository: Path, tmp_path: Path
) -> None:
    reader = Reader(browser, site.origin, tmp_path, viewport=DESKTOP)
    page, keyboard = reader.page, reader.page.keyboard
    page.goto("/jobs/new")
    keyboard.type(site.key()[1])  # the field has the focus
    keyboard.press("Enter")
    page.wait_for_url(f"{site.origin}/jobs/new")
    for label, path in (
        ("Recording", repository / "samples/sample.mp4"),
        ("Portfolio file", repository / "samples/portfolio.csv"),
    ):
        tab_to(page, label)
        with page.expect_file_chooser() as chooser:
            keyboard.press("Enter")
        chooser.value.set_files(path)
    tab_to(page, "Objective")
    keyboard.type("What was said of guidance?")
    tab_to(page, "Submit")
    keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    tab_to(page, "Cancel this job")
    keyboard.press("Enter")
    expect(page.locator("#panel .state-word")).to_have_text("Cancelled")
    reader.context.close()
    assert reader.complaints == []


def test_problems_stand_beside_their_fields_and_nothing_is_uploaded_before_they_are_mended(
    reader: Reader, repository: Path, tmp_path: Path
) -> None:
    page = reader.page
    portfolio = tmp_path / "portfolio.csv"
    portfolio.write_text("id,name,currency,asset_type,weight_pct\nA,Alpha,EURO,Equity,heavy\n")
    fill(page, repository / "samples/sample.mp4", portfolio, title="Day")
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
    page.get_by_label("Portfolio file").set_input_files(repository / "samples/portfolio.csv")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    assert len(uploads) == 1
    expect(page.locator("#brief h1")).to_have_text("Day")
    refused = "the server responded with a status of 422"
    reader.complaints = [line for line in reader.complaints if refused not in line]


def test_everything_fits_a_phone_and_the_player_stays_in_sight_while_it_plays(
    browser: Browser,
    site: Site,
    work: Callable[[Engine], None],
    repository: Path,
    tmp_path: Path,
) -> None:
    phone = {"viewport": PHONE, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
    reader = Reader(browser, site.origin, tmp_path, **phone)
    page = reader.page
    page.goto("/sign-in")
    reader.shoot("phone-sign-in")
    assert reader.overflow_px() == 0
    page.goto(site.link(role=Role.ADMIN))
    page.wait_for_url("**/jobs")
    work(RehearsalEngine())
    sample = repository / "samples"
    fill(page, sample / "sample.mp4", sample / "portfolio.csv", title="A" * 60 + " investor day")
    reader.shoot("phone-new")
    assert reader.overflow_px() == 0
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    expect(page.locator("#panel .state-word")).to_have_text("Done", timeout=60_000)
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
    reader.context.close()
    assert reader.complaints == []


# --- what the browser tests need ---------------------------------------------------------------


def finding(**words: str) -> str:
    return block("Kestrel & Rowe plc", **words) + ScriptedEngine.END


def waiter(gate: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        assert gate.wait(60)

    return wait


def plain(folder: Path) -> Path:
    return Clips(folder).make("plain.mp4", *greys(12), *tones(12), *H264, "-g", "10", *AAC)


def late(folder: Path, name: str) -> Path:
    codecs = (
        (*H264, "-g", "10", *AAC)
        if name.endswith("mp4")
        else ("-c:v", "libvpx", "-g", "10", "-c:a", "libopus")
    )
    offset = ("-output_ts_offset", str(LATE_S))
    return Clips(folder).make(name, *greys(12), *tones(12), *codecs, *offset)


def submit_scripted(page: Page, recording: Path, repository: Path) -> None:
    fill(page, recording, repository / "samples/portfolio.csv", title="")
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
    return (float(red) * 219 / 255 + 16 - 20) / 10


def until(page: Page, expression: str) -> None:
    """Playwright's own wait evaluates text in the page, which the policy forbids."""
    for _ in range(150):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"never true: {expression}")


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the control of this name has the focus, and see that this shows."""
    told = """() => {
      const element = document.activeElement;
      const label = element.labels?.[0]?.textContent ?? "";
      return element.getAttribute("aria-label") ?? (label.trim() || element.textContent.trim());
    }"""
    for _ in range(40):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        if page.evaluate(told) == name:
            return
    pytest.fail(f"no control “{name}” is reached with the Tab key")


def is_upload(request: Any) -> bool:
    return request.method == "POST" and request.url.endswith("/v1/recordings")
