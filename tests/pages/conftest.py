"""One Airflow API server and one browser for all tests of the pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.pages.browser import browser as started_browser
from tests.pages.server import ApiServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/pages/" in item.path.as_posix():
            item.add_marker(pytest.mark.airflow)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    server = ApiServer(tmp_path_factory.mktemp("pages"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


class Visit:
    """One person with a browser window."""

    def __init__(self, browser: Browser, server: ApiServer, user: str | None, *, width: int, dark: bool) -> None:
        self.server = server
        self.context = browser.new_context(
            viewport={"width": width, "height": 860}, color_scheme="dark" if dark else "light"
        )
        if user:
            self.context.add_cookies([{"name": "_token", "value": server.token(user), "url": server.url}])
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._said)

    def _said(self, message: object) -> None:
        if getattr(message, "type", "") == "error":
            self.errors.append(str(getattr(message, "text", "")))

    def open(self, path: str) -> Page:
        """Open one of our pages and wait until it is whole."""
        self.page.goto(f"{self.server.url}/lineage/{path}", wait_until="domcontentloaded")
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def picture(self, name: str) -> None:
        """Keep a screenshot where `LINEAGE_PICTURES` says, for people to look at."""
        folder = os.environ.get("LINEAGE_PICTURES")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=f"{folder}/{name}.png")


@pytest.fixture
def visit(chromium: Browser, api_server: ApiServer) -> Iterator[Callable[..., Visit]]:
    """`visit(user)`: a window of a logged-in user, `visit(None)` of nobody; none of them may see a script fail."""
    made: list[Visit] = []

    def make(user: str | None = "admin", *, width: int = 1440, dark: bool = False) -> Visit:
        made.append(Visit(chromium, api_server, user, width=width, dark=dark))
        return made[-1]

    yield make
    for one in made:
        one.context.close()
