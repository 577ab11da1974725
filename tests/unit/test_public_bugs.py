"""The page on public bug reports names the tests that bear their numbers, and a reason for each other report."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "public-bugs.md").read_text()
REPORTS = 105
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+) \|$", flags=re.MULTILINE)
LINK = re.compile(r"\[(\w+)\]\(\.\./\.\./([\w/.]+)\)")
NOT_HERE = "does not apply: "


@functools.cache
def marked() -> dict[int, set[tuple[str, str]]]:
    """Number -> the tests that bear it, each as file and name."""
    found: dict[int, set[tuple[str, str]]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "mark.bug" in text else ():
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for number in numbers(node):
                    test = (str(path.relative_to(ROOT)), node.name.removeprefix("test_"))
                    found.setdefault(number, set()).add(test)
    return found


def numbers(test: ast.FunctionDef) -> set[int]:
    """What stands in `pytest.mark.bug(…)` of a test, on itself or on a case of it."""
    calls = [node for decorator in test.decorator_list for node in ast.walk(decorator) if isinstance(node, ast.Call)]
    marks = [call for call in calls if ast.unparse(call.func) == "pytest.mark.bug"]
    return {argument.value for mark in marks for argument in mark.args if isinstance(argument, ast.Constant)}


def told() -> dict[int, str]:
    """Number -> what the page says of how the report is shown."""
    return {int(number): shown for number, _, _, shown in ROW.findall(PAGE)}


def test_every_report_has_a_row_of_its_own():
    assert [int(number) for number, _, _, _ in ROW.findall(PAGE)] == list(range(1, REPORTS + 1))


def test_the_page_names_the_tests_that_bear_the_numbers_and_no_others():
    named = {number: {(file, name) for name, file in LINK.findall(shown)} for number, shown in told().items()}
    assert {number: tests for number, tests in named.items() if tests} == marked()


def test_what_no_test_shows_has_a_reason():
    unshown = {number: shown for number, shown in told().items() if number not in marked()}
    assert [number for number, shown in unshown.items() if not re.fullmatch(rf"{NOT_HERE}.{{10,}}", shown)] == []


def test_at_least_eighty_reports_are_tests():
    assert len(marked()) >= 80
