"""Actors as greenlets: each stops before every port call, and a seeded choice says who goes on, and who dies.

Everything runs in one thread without any real waiting, so that a seed reproduces its run exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import greenlet

from tests.fakes.faulty_store import Crash


class Actor:
    """One simulated process.

    Attributes:
        name: for traces.
        done: it returned, raised or died.
        died: it was crashed.
        error: the exception it ended with, if it ended with one that is no crash.
    """

    def __init__(self, name: str, body: Callable[[], object]) -> None:
        self.name = name
        self.done = False
        self.died = False
        self.error: Exception | None = None
        self.calls = 0
        self._body = body
        self._greenlet = greenlet.greenlet(self._run)

    def _run(self) -> None:
        try:
            self._body()
        except Crash:
            self.died = True
        except Exception as error:
            self.error = error
        self.done = True

    def go_on(self) -> None:
        """Do one port call and stop before the next."""
        self._greenlet.switch()

    def crash(self) -> None:
        """Die before the port call at hand."""
        self._greenlet.throw(Crash, Crash(f"{self.name} dies"))
        self.died = self.done = True


class Scheduler:
    """Interleaves actors.

    Args:
        seed: decides everything.
        crash_share: chance that a chosen actor dies instead of going on.
        stickiness: chance that the actor of the last step is chosen again, so that some are much faster than others.
    """

    def __init__(self, seed: int, crash_share: float = 0.0, stickiness: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.crash_share = crash_share
        self.stickiness = stickiness
        self.actors: list[Actor] = []
        self.trace: list[str] = []
        self.crashes = 0

    def spawn(self, name: str, body: Callable[[], object]) -> Actor:
        """Add an actor; it begins when it is chosen."""
        actor = Actor(name, body)
        self.actors.append(actor)
        return actor

    def pause(self, label: str) -> None:
        """Called by simulated ports before each call: hand control back, unless nobody schedules."""
        current = greenlet.getcurrent()
        if current.parent is not None:
            self.trace.append(label)
            current.parent.switch()

    def run(self, until: Callable[[], bool] = lambda: False, most_steps: int = 100_000) -> None:
        """Let the actors go on until all are done."""
        last: Actor | None = None
        alive = [actor for actor in self.actors if not actor.done]
        for _ in range(most_steps):
            if last is not None and last.done:
                alive.remove(last)
                last = None
            if not alive or until():
                return
            stays = last is not None and self.random.random() < self.stickiness
            actor = last if stays and last is not None else self.random.choice(alive)
            last = actor
            if self.crash_share and actor.calls and self.random.random() < self.crash_share:
                self.trace.append(f"{actor.name} dies")
                self.crashes += 1
                actor.crash()
            else:
                actor.calls += 1
                self.trace.append(actor.name)
                actor.go_on()
        raise AssertionError(f"the actors did not come to an end in {most_steps} steps")
