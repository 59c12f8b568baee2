"""The marks of the line counter agree with coverage's own tracer."""

from pathlib import Path
from typing import Any

from coverage import Coverage

from tests import line_counter

SOURCE = '''\
"""A module."""

from __future__ import annotations

import functools
from contextlib import suppress


class Shape:
    """A class."""

    sides: int = 4
    names = ("square",
             "rectangle")

    @property
    @functools.cache
    def area(self) -> int:
        """A property."""
        return self.sides

    def unused(self):
        """A method that nothing calls."""
        return (
            1 +
            2
        )


def choose(value):
    match value:
        case 0:
            return "zero"
        case 1 | 2:
            return "few"
        case [first, *_] if first:
            return first
        case _:
            return "other"


def attempt(value):
    try:
        chosen = 10 / value
    except TypeError:
        chosen = None
    except (ZeroDivisionError,
            OverflowError):
        chosen = 0
    except ValueError:
        chosen = -1
    else:
        chosen += 1
    finally:
        value = None
    with suppress(KeyError):
        {}[value]
        chosen = "not reached"
    return chosen


def count(limit):
    total = 0
    for number in range(limit):
        if number == 1:
            continue
        elif number == 3:
            break
        else:
            total += number
    else:
        total = -total
    while total > 0:
        total -= 1
    return [
        each
        for each in range(total)
    ]


async def later():
    global answer
    async for _ in later():
        pass


choose(1)
choose([5])
attempt(0)
attempt(3)
count(2)
Shape().area
if Shape.sides > 5:
    Shape = None
'''


def test_marked_lines_are_those_that_coverage_traces(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(SOURCE, encoding="utf-8")
    tracer = Coverage(data_file=None, include=[str(path)])
    with tracer.collect():
        exec(compile(SOURCE, path, "exec", dont_inherit=True), {})
    _, statements, _, missing, _ = tracer.analysis2(str(path))
    marks = run(SOURCE, path)["_lines_that_ran_"]
    assert [line for line in statements if not marks[line]] == missing
    assert missing, "the sample has lines that do not run"


def test_lines_do_not_count_during_a_pause(tmp_path: Path) -> None:
    names = run("def one():\n    return 1\n\ndef two():\n    return 2\n", tmp_path / "sample.py")
    marks = names["_lines_that_ran_"]
    with line_counter.paused():
        assert names["one"]() == 1
    assert names["two"]() == 2
    assert marks == [False, True, False, False, True, True]
    assert names["_lines_that_ran_"] is marks


def run(source: str, path: Path) -> dict[str, Any]:
    """Run the source with marks; return its global names."""
    names: dict[str, Any] = {"__name__": "sample"}
    exec(compile(line_counter.marked(source.encode(), str(path)), path, "exec"), names)
    return names
