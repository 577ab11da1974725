"""Callables in a plan: pinned by import path and by a digest of what they do, compared again before they are used.

An attempt's files must be a function of its plan. A converter or decoder is code of the DAG's author, which a
deployment may replace between two attempts; then the later one must not go on with the plan as if nothing had happened.

The digest is taken of compiled code, not of source text or files: comments, formatting and unrelated changes of the
module leave it alone. It follows what the code refers to, as far as the author's own module goes: helper functions,
classes, constants, default values, closures and the state of callable objects. What comes from other modules counts by
its name, so a new release of a library is not noticed. Another minor version of Python compiles differently and counts
as a change.
"""

from __future__ import annotations

import enum
import functools
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_hdfs.ingest import wire

_DAG_FILE_PREFIX = re.compile(r"^unusual_prefix_[0-9a-f]+_")
"""Airflow puts it before the module name of a DAG file; it holds the file's path, which differs between machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableRef:
    """A callable as a plan names it.

    Attributes:
        path: `module:qualified name`; of its class for a callable object.
        digest: of its code and of what that refers to.
    """

    path: str
    digest: str


def reference(value: Callable[..., Any]) -> CallableRef:
    """The reference of a function, class, method, partial or callable object."""
    described = _Describer(_module_of(value)).describe(value)
    return CallableRef(path=_path_of(value), digest=wire.canonical_digest(described))


def difference(pinned: CallableRef, running: Callable[..., Any]) -> str | None:
    """Why a running callable is not the one that a plan pinned; None if it is."""
    found = reference(running)
    if found.path != pinned.path:
        return f"the plan was made with {pinned.path}, this code brings {found.path}"
    if found.digest != pinned.digest:
        return f"{pinned.path} has changed since the plan was made: its code was {pinned.digest}, now {found.digest}"
    return None


def _module_of(value: Any) -> str:
    target = _target(value)
    return _DAG_FILE_PREFIX.sub("", getattr(target, "__module__", None) or "builtins")


def _path_of(value: Any) -> str:
    target = _target(value)
    return f"{_module_of(value)}:{getattr(target, '__qualname__', type(target).__qualname__)}"


def _target(value: Any) -> Any:
    """What gives a callable its name: the function of a partial or bound method, the class of an object."""
    while isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, types.MethodType):
        return value.__func__
    return value if hasattr(value, "__qualname__") else type(value)


class _Describer:
    """Turns a callable into plain JSON values that change when what it does changes.

    Args:
        home: module up to whose border code is followed.
    """

    def __init__(self, home: str) -> None:
        self.home = home
        self.seen: dict[int, int] = {}
        self.open: list[int] = []

    def describe(self, value: Any) -> Any:
        """Plain values of anything; functions and objects met before are named by their number, so that circles end."""
        plain = self._plain(value)
        if plain is not None:
            return plain
        if isinstance(value, tuple | list | set | frozenset | Mapping):
            return self._container(value)
        if id(value) in self.seen:
            return ["met", self.seen[id(value)]]
        self.seen[id(value)] = len(self.seen)
        if isinstance(value, functools.partial):
            return ["partial", *map(self.describe, (value.func, list(value.args), value.keywords))]
        if isinstance(value, types.MethodType):
            return ["method", self.describe(value.__func__), self.describe(value.__self__)]
        if isinstance(value, staticmethod | classmethod):
            return [type(value).__name__, self.describe(value.__func__)]
        if isinstance(value, property):
            return ["property", *map(self.describe, (value.fget, value.fset, value.fdel))]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        return self._object(value)

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, enum.Enum | bool | int | float | complex | str | bytes):
            return [type(value).__name__, repr(value)]
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__]
        if isinstance(value, re.Pattern):
            return ["pattern", repr(value.pattern), value.flags]
        if isinstance(value, types.CodeType):
            return self._code(value)
        return None

    def _container(self, value: Any) -> Any:
        # Not by `seen`: whether equal constants are one object differs between processes.
        if id(value) in self.open:
            return ["circle"]
        self.open.append(id(value))
        try:
            if isinstance(value, Mapping):
                pairs = [[repr(self.describe(key)), self.describe(item)] for key, item in value.items()]
                return [type(value).__name__, *sorted(pairs, key=lambda pair: pair[0])]
            if isinstance(value, set | frozenset):  # in any order, so their items can't be numbered
                return [type(value).__name__, *sorted(repr(self._plain(item) or _path_of(item)) for item in value)]
            return [type(value).__name__, *map(self.describe, value)]
        finally:
            self.open.pop()

    def _function(self, function: types.FunctionType) -> Any:
        if _module_of(function) != self.home:
            return ["function", _path_of(function)]
        names = sorted(name for name in _names(function.__code__) if name in function.__globals__)
        return [
            "function",
            _path_of(function),
            self.describe(function.__code__),
            self.describe(function.__defaults__),
            self.describe(function.__kwdefaults__),
            [self.describe(_content(cell)) for cell in function.__closure__ or ()],
            [[name, self.describe(function.__globals__[name])] for name in names],
        ]

    def _class(self, cls: type) -> Any:
        if _module_of(cls) != self.home:
            return ["class", _path_of(cls)]
        hidden = {"__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__"}
        own = sorted((name, item) for name, item in vars(cls).items() if name not in hidden)
        return [
            "class",
            _path_of(cls),
            [self.describe(base) for base in cls.__bases__],
            [[name, self.describe(item)] for name, item in own],
        ]

    def _object(self, value: Any) -> Any:
        slots = [name for cls in type(value).__mro__ for name in _slot_names(cls) if hasattr(value, name)]
        state = {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}
        is_own = _module_of(type(value)) == self.home
        name = getattr(value, "__qualname__", "")  # built-in functions and method descriptors
        wrapped = self.describe(getattr(value, "__wrapped__", None))
        return ["object", name, wrapped, self.describe(type(value)), self.describe(state) if is_own else []]

    def _code(self, code: types.CodeType) -> Any:
        return [
            code.co_name,
            code.co_code.hex(),
            code.co_exceptiontable.hex(),
            code.co_flags,
            [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount],
            [*code.co_names],
            [*code.co_varnames],
            [*code.co_freevars],
            [self.describe(constant) for constant in code.co_consts],
        ]


def _names(code: types.CodeType) -> set[str]:
    """Global names (and attribute names, which do no harm) of a function and of the functions inside it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a recursive inner function before its first assignment
        return None


def _slot_names(cls: type) -> list[str]:
    slots = vars(cls).get("__slots__", ())
    return [slots] if isinstance(slots, str) else [name for name in slots if name not in ("__dict__", "__weakref__")]
