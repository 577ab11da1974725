"""One Airflow API server and one browser for all tests of the pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

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


class People:
    """Profiles of the browser: people come back with their login and with the files that they have fetched before."""

    def __init__(self, browser: Browser, server: ApiServer) -> None:
        self._browser = browser
        self._server = server
        self._known: dict[tuple[str | None, int, bool], BrowserContext] = {}
        self._tokens: dict[str, str] = {}

    def profile(self, user: str | None, *, width: int, dark: bool, fresh: bool) -> BrowserContext:
        """The profile of a user; a fresh one is nobody else's."""
        key = (user, width, dark)
        if not fresh and key in self._known:
            return self._known[key]
        made = self._browser.new_context(
            viewport={"width": width, "height": 860}, color_scheme="dark" if dark else "light"
        )
        if user:
            if user not in self._tokens:
                self._tokens[user] = self._server.token(user)
            made.add_cookies([{"name": "_token", "value": self._tokens[user], "url": self._server.url}])
        if not fresh:
            self._known[key] = made
        return made

    def close(self) -> None:
        """End all profiles."""
        for context in self._known.values():
            context.close()


class Visit:
    """One person with a browser window."""

    def __init__(self, server: ApiServer, context: BrowserContext) -> None:
        self.server = server
        self.context = context
        self.page: Page = context.new_page()
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


@pytest.fixture(scope="session")
def people(chromium: Browser, api_server: ApiServer) -> Iterator[People]:
    found = People(chromium, api_server)
    yield found
    found.close()


@pytest.fixture
def visit(people: People, api_server: ApiServer) -> Iterator[Callable[..., Visit]]:
    """`visit(user)`: a window of a logged-in user, `visit(None)` of nobody; none of them may see a script fail.

    A test that changes cookies asks for a `fresh` profile.
    """
    made: list[Visit] = []

    def make(user: str | None = "admin", *, width: int = 1440, dark: bool = False, fresh: bool = False) -> Visit:
        made.append(Visit(api_server, people.profile(user, width=width, dark=dark, fresh=fresh)))
        return made[-1]

    yield make
    for one in made:
        one.page.close()
