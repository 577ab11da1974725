"""Debian's Chromium, driven by Playwright's Python package; no browser is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PACKAGES = ("chromium", "fonts-liberation")
_HELP = f"The tests of the pages need Chromium; as root: apt-get install {' '.join(_PACKAGES)}; then run them again."


class NoBrowserError(RuntimeError):
    """There is no Chromium, and it could not be installed."""


def chromium() -> Path:
    """The program; installed from the system's packages if it is missing and we may do that.

    Raises:
        NoBrowserError: it is missing; the text says what to install.
    """
    found = _found()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "timeout": 600}
        subprocess.run(["apt-get", "update"], check=False, **quiet)
        subprocess.run(["apt-get", "install", "--yes", "--no-install-recommends", *_PACKAGES], check=False, **quiet)
        found = _found()
    if found is None:
        raise NoBrowserError(_HELP)
    return found


def _found() -> Path | None:
    return next((Path(path) for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless browser."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield made
        made.close()
