"""Opens pages in headless Chromium."""

import contextlib
import shutil
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-headless-shell", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)

_Test = TypeVar("_Test", bound=Callable[..., object])


def needs_browser(test: _Test) -> _Test:
    """Mark a test that opens pages; it is skipped where there is no browser."""
    reason = "needs Chromium: `apt-get install chromium-headless-shell`"
    return pytest.mark.browser(pytest.mark.skipif(CHROMIUM is None, reason=reason)(test))


@dataclass
class Browser:
    """One page of a browser without a network, and all that went wrong in it."""

    page: Page
    faults: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def opened(
    address: str, *, width: int = 1400, dark: bool = False, height: int = 900
) -> Generator[Browser]:
    """Open ``address``; fail if its page logs anything."""
    with sync_playwright() as playwright:
        # The sandbox of Chromium refuses to run as root.
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        browser = Browser(page)
        page.on("console", lambda message: browser.faults.append(message.text))
        page.on("pageerror", lambda error: browser.faults.append(str(error)))
        page.goto(address)
        yield browser
        assert not browser.faults, browser.faults
        chromium.close()
