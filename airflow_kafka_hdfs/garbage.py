"""Python's search for circular garbage, kept off work that makes very many objects which all stay.

The search is set off by objects that are made and not yet freed, and looks in the end at all of them. Thousands of
messages, work units or rows, all in use, set it off time and again, and each look at the modules of an Airflow process
takes a tenth of a second.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search() -> Iterator[None]:
    """No search for the body of the statement; unchanged where somebody has switched it off for good."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()


class LeftOut:
    """What lives already is left out of the search from `begin` to `end`, unless somebody has it left out anyway."""

    def __init__(self) -> None:
        self._froze = False

    def begin(self) -> None:
        """Leave out what lives now."""
        if not gc.get_freeze_count():
            gc.freeze()
            self._froze = True

    def end(self) -> None:
        """Look at everything again; doing it twice is harmless."""
        if self._froze:
            gc.unfreeze()
            self._froze = False
