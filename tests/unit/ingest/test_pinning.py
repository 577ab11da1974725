"""A pinned callable is the same after a change of form and another one after a change of what it does."""

import functools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from airflow_kafka_hdfs.ingest.pinning import difference, reference

BASE = """
import dataclasses, functools, json, re

LIMIT = 10
FIELDS = {"a", "b", "c", "d"}
PATTERN = re.compile("x+")

def helper(value):
    return value * LIMIT if PATTERN else None

def convert(record):
    if record in FIELDS:
        return None
    return [helper(item) for item in record if item in {"p", "q", "r"}]

class Rename:
    factor = 2
    def __init__(self, old, new):
        self.old, self.new = old, new
    def __call__(self, record):
        return helper(record) * self.factor

@dataclasses.dataclass(frozen=True)
class Keep:
    names: tuple = ("a",)
    def __call__(self, record):
        return record

def adder(n):
    def add(record):
        return record + n
    return add

def recursive(n):
    def inner(k):
        return inner(k - 1) if k else n
    return inner

cached = functools.lru_cache(convert)
partial = functools.partial(convert, 3)
rename = Rename("a", "b")
keep = Keep()
added = adder(3)
looping = recursive(2)
method = rename.__call__
"""

NAMES = ["convert", "Rename", "cached", "partial", "rename", "keep", "added", "looping", "method"]


def load(source, name="user_code"):
    space = {"__name__": name}
    exec(compile(textwrap.dedent(source), f"/somewhere/{name}.py", "exec"), space)
    return space


def digests(source, name="user_code"):
    space = load(source, name)
    return {each: reference(space[each]) for each in NAMES}


@pytest.mark.parametrize(
    "edit",
    [
        ("LIMIT = 10", "# a comment\n\nLIMIT  =  10"),
        ("def adder(n):", "def unrelated(x):\n    return 1\n\ndef adder(n):"),
    ],
)
def test_form_and_unrelated_changes_leave_the_digest_alone(edit):
    assert digests(BASE.replace(*edit)) == digests(BASE)


def test_the_prefix_that_airflow_gives_dag_files_is_no_part_of_the_name():
    plain = reference(load(BASE, "my_dag")["convert"])
    assert reference(load(BASE, f"unusual_prefix_{'0' * 40}_my_dag")["convert"]) == plain
    assert plain.path == "my_dag:convert"


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (
            ("return value * LIMIT", "return value - LIMIT"),
            {"convert", "Rename", "cached", "partial", "rename", "method"},
        ),
        (("LIMIT = 10", "LIMIT = 11"), {"convert", "Rename", "cached", "partial", "rename", "method"}),
        (('{"a", "b", "c", "d"}', '{"a", "b", "c"}'), {"convert", "cached", "partial"}),
        (('{"p", "q", "r"}', '{"p", "q", "s"}'), {"convert", "cached", "partial"}),
        (('re.compile("x+")', 're.compile("x*")'), {"convert", "Rename", "cached", "partial", "rename", "method"}),
        (("factor = 2", "factor = 3"), {"Rename", "rename", "method"}),
        (('Rename("a", "b")', 'Rename("a", "c")'), {"rename", "method"}),
        (('names: tuple = ("a",)', 'names: tuple = ("b",)'), {"keep"}),
        (("adder(3)", "adder(4)"), {"added"}),
        (("inner(k - 1)", "inner(k - 2)"), {"looping"}),
        (("partial(convert, 3)", "partial(convert, 4)"), {"partial"}),
    ],
)
def test_a_change_of_what_the_code_does_changes_the_digest(edit, changed):
    before, after = digests(BASE), digests(BASE.replace(*edit))
    assert {name for name in NAMES if before[name] != after[name]} == changed
    assert all(
        "has changed since the plan was made:" in difference(before[n], load(BASE.replace(*edit))[n]) for n in changed
    )


def test_another_callable_is_named():
    space = load(BASE)
    assert difference(reference(space["convert"]), space["convert"]) is None
    assert difference(reference(space["convert"]), space["rename"]) == (
        "the plan was made with user_code:convert, this code brings user_code:Rename"
    )


def test_builtins_and_circles_have_references():
    assert reference(len).path == "builtins:len"
    assert reference(str.upper).path.endswith("str.upper")
    circle = []
    circle.append(circle)
    assert reference(functools.partial(len, circle)) == reference(functools.partial(len, circle))


def test_processes_agree_whatever_their_hash_seed_and_whether_the_module_was_compiled_before(tmp_path: Path):
    (tmp_path / "user_code.py").write_text(BASE)
    script = (
        "import user_code; from airflow_kafka_hdfs.ingest.pinning import reference;"
        f"print([reference(getattr(user_code, n)).digest for n in {NAMES}])"
    )
    answers = set()
    for seed in ("1", "2", "3"):  # the first one compiles, the others load what it left
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path.cwd())])}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        answers.add(subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True).stdout)
    assert len(answers) == 1
    assert answers.pop().count(b"sha256:") == len(NAMES)
