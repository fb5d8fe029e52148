"""The form with a link, in a real browser, and the job's page while the recording is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect

from api.service import EXTENSION, Service
from pipeline.ledger import fetches
from tests.api.site import OBJECTIVE, SAMPLES, Site, running, site
from tests.browser import DESKTOP, Reader, chromium

__all__ = ["running", "site"]

URL = "https://media.test/private/call.mp4?token=hush"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def reader(browser: Browser, site: Site) -> Iterator[Reader]:
    """An analyst where links are fetched; complaints of the browser fail the test."""
    before: Service = site.app.extensions[EXTENSION]
    links_on = replace(before.settings, fetch_urls=True)
    site.app.extensions[EXTENSION] = replace(before, settings=links_on)
    reader = Reader(browser, site.origin, viewport=DESKTOP)
    reader.sign_in(site.cookie())
    yield reader
    reader.close()
    site.app.extensions[EXTENSION] = before


def test_a_link_is_submitted_and_its_progress_watched(site: Site, reader: Reader) -> None:
    page = reader.page
    page.goto("/jobs/new")
    page.get_by_label("Portfolio file").set_input_files(SAMPLES / "portfolio.csv")
    page.get_by_label("Objective").fill(OBJECTIVE)
    page.get_by_label("or a link to it").fill("http://media.test/call.mp4")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#source_url-problems")).to_contain_text("Only https:// is accepted")
    expect(page.get_by_label("or a link to it")).to_be_focused()
    page.get_by_label("or a link to it").fill(URL)
    page.get_by_label("Recording").set_input_files(SAMPLES / "sample.mp4")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#source_url-problems")).to_contain_text("Give a file or a link, not both")
    page.get_by_label("Recording").set_input_files([])
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    expect(page.locator("#pace")).to_contain_text("It is fetched from media.test")
    claim = fetches.claim(site.database, lease_s=60)
    assert claim is not None
    assert claim.link.text == URL
    fetches.advance(
        site.database, claim, received_bytes=2_000_000, total_bytes=8_000_000, version=None
    )
    expect(page.locator("#pace")).to_contain_text("2.0 MB of 8.0 MB", timeout=20_000)
    assert "hush" not in page.content()
    page.get_by_role("button", name="Cancel this job").click()
    expect(page.locator("#panel .state-word")).to_have_text("Cancelled")
    # The browser says so of every answer that is an error.
    reader.complaints = [line for line in reader.complaints if "422" not in line]
