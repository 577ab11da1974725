"""Frozen values of the product made as fast as others, for as long as seeds run.

A frozen dataclass sets each field by a call that goes past its own guard; in a simulation, which makes a thousand of
them in a few milliseconds, that is a sixth of all time. That nothing assigns to them is shown by every other test.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

PACKAGE = "airflow_kafka_hdfs."


@contextmanager
def plain_values() -> Iterator[None]:
    """Within, frozen dataclasses of the product are not guarded; all else about them stays."""
    with ExitStack() as stack:
        for cls in _frozen_classes():
            stack.enter_context(
                mock.patch.multiple(
                    cls, __init__=_plain_init(cls), __setattr__=object.__setattr__, __delattr__=object.__delattr__
                )
            )
        yield


def _frozen_classes() -> set[type[Any]]:
    """Of all modules that are loaded."""
    return {
        cls
        for name, module in tuple(sys.modules.items())
        if name.startswith(PACKAGE)
        for cls in vars(module).values()
        if isinstance(cls, type) and cls.__module__.startswith(PACKAGE) and _is_frozen(cls)
    }


def _is_frozen(cls: type[Any]) -> bool:
    return dataclasses.is_dataclass(cls) and "__setattr__" in vars(cls)


@functools.cache
def _plain_init(cls: type[Any]) -> Callable[..., None]:
    """As `dataclass` writes it for the same fields where nothing is frozen."""
    fields = [
        (
            item.name,
            Any,
            dataclasses.field(
                default=item.default, default_factory=item.default_factory, init=item.init, kw_only=item.kw_only
            ),
        )
        for item in dataclasses.fields(cls)
    ]
    after = {"__post_init__": cls.__post_init__} if hasattr(cls, "__post_init__") else {}
    return dataclasses.make_dataclass(cls.__name__, fields, namespace=after).__init__
