"""What all commands that change something have in common: show what will be done, ask, do it, tell what was done.

People get lines, scripts (`--output json`) one JSON object on the standard output, `{"will": […], "changed": …, …}`;
what is said to people then goes to the standard error output.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_kafka_hdfs.cli.screen import ask, say, say_json


@dataclass(frozen=True, slots=True)
class Change:
    """What a command is about to do.

    Args:
        args: with `yes` and `output`.
        will: what it will do, one line each; empty if there is nothing to do.
    """

    args: Namespace
    will: tuple[str, ...]

    @property
    def as_json(self) -> bool:
        """Whether a script reads the answer."""
        return bool(self.args.output == "json")

    def agreed(self) -> Change:
        """Show it, and go on only if the person says so, or `--yes` was given.

        Raises:
            SystemExit: with code 1: nothing was changed.
        """
        screen = sys.stderr if self.as_json else sys.stdout
        if not (self.as_json and self.args.yes):
            say(*self.will, file=screen)
        if self.args.yes:
            return self
        ask("Go on? [y/N]", screen)
        try:
            answer = input("")
        except EOFError:
            raise SystemExit("nothing was changed: nobody answered; scripts give --yes") from None
        if answer.strip().lower() not in ("y", "yes"):
            raise SystemExit("nothing was changed")
        return self

    def tell(self, did: Iterable[str], *, changed: bool = True, **facts: Any) -> None:
        """Say what was done.

        Args:
            did: lines for people.
            changed: whether anything is another than before.
            facts: the same for scripts.
        """
        lines = list(did)
        if self.as_json:
            say_json({"will": list(self.will), "changed": changed, "did": lines, **facts})
        else:
            say(*lines)


def change(args: Namespace, will: Iterable[str]) -> Change:
    """Ask for agreement to what a command will do; see `Change.agreed`. Without lines nobody is asked."""
    found = Change(args, tuple(will))
    return found.agreed() if found.will else found
