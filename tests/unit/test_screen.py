"""What a command prints is text, whatever the names in it hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.cli import screen

EVIL = "raw\x1b[2J\r\nDAG fine\t\x9b31m\u202edne\u2028\ud800é"
SHOWN = "raw\\x1b[2J\\r\\nDAG fine\\t\\x9b31m\\u202edne\\u2028\\ud800é"


def test_lines_and_cells_hold_nothing_that_a_terminal_obeys(capsys):
    screen.say(EVIL, 5)
    screen.warn(EVIL)
    screen.say_table(("name", "count"), [(EVIL, 1_000), ("b", 2)])
    screen.ask(EVIL, sys.stdout)
    told = capsys.readouterr()
    assert told.err == f"{SHOWN}\n"
    assert told.out.splitlines() == [
        SHOWN,
        "5",
        f"{'name':<{len(SHOWN)}}  count",
        f"{'-' * len(SHOWN)}  -----",
        f"{SHOWN}  1,000",
        f"{'b':<{len(SHOWN)}}      2",
        f"{SHOWN} ",
    ]
    with pytest.raises(SystemExit) as left:
        screen.leave(f"one\ntwo {EVIL[:6]}")
    assert left.value.code == "one\ntwo raw\\x1b[2"


def test_json_escapes_by_itself(capsys):
    screen.say_json({EVIL: EVIL})
    told = capsys.readouterr().out
    assert told.replace("\n", "").isprintable()
    assert told.isascii()
    assert json.loads(told) == {EVIL: EVIL}


@given(st.text())
def test_text_without_control_characters_stays_as_it_is(text):
    shown = screen.plain(text)
    assert not any(char < " " or "\x7f" <= char < "\xa0" for char in shown)
    assert len(shown.splitlines()) <= 1
    if text.isprintable():
        assert shown == text


def test_no_command_prints_past_it():
    room = Path(screen.__file__).parent
    past = [path.name for path in sorted(room.glob("*.py")) if "print(" in path.read_text().replace("_print(", "")]
    assert past == ["screen.py"]
