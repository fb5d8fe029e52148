"""A real Chromium for page tests, and a witness of everything that it complains about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    sync_playwright,
)

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--mute-audio",
)

SCREENSHOTS_SETTING = "OMNAI_TEST_SCREENSHOTS"
"""A folder for screenshots of the pages; without it none are taken, which is half the time."""

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 375, "height": 740}


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser from the path, else Playwright's own; skips with its reason where there is none."""
    found = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        except Error as error:
            if found is not None:
                raise
            pytest.skip(
                f"no Chromium: none of {', '.join(EXECUTABLES)} is on the path, and Playwright "
                f"has none of its own ({error.message.splitlines()[0]})"
            )
        try:
            yield browser
        finally:
            browser.close()


class Reader:
    """One person's browser window; `complaints` is what its console, policy and pages reported."""

    def __init__(self, browser: Browser, origin: str, **options: Any) -> None:
        self.complaints: list[str] = []
        self.origin = origin
        self.context: BrowserContext = browser.new_context(base_url=origin, **options)
        self.context.set_default_timeout(15_000)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._see)
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', event =>"
            " console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI))"
        )

    def sign_in(self, cookie: tuple[str, str]) -> None:
        name, value = cookie
        self.context.add_cookies([{"name": name, "value": value, "url": self.origin}])

    def shoot(self, name: str, *, is_whole: bool = True) -> None:
        if folder := os.environ.get(SCREENSHOTS_SETTING):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=is_whole)

    def close(self) -> None:
        """Nothing may have been complained of."""
        self.context.close()
        assert self.complaints == []

    def overflow_px(self) -> int:
        """By how much the page is wider than its window."""
        self.page.wait_for_load_state()  # before its style is there every page is too wide
        root = "document.documentElement"
        return int(self.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "data:", "blob:", "about:")):
            self.complaints.append(f"foreign address: {request.url}")
