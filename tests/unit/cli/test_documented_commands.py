"""Every command and every option in the documentation exists."""

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ottla.cli.app import make_app

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MANY = 50


def typed(page: Path) -> Iterator[str]:
    """Yield every `ottla ...` command in a page, from shell blocks and from sentences."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            for part in re.sub(r"(^|\s)#.*", "", line).split("|"):
                if part.split()[:1] == ["ottla"]:
                    yield part
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    yield from re.findall(r"`(ottla [a-z][^`]*)`", prose)


@functools.cache
def root_command() -> Any:
    return typer.main.get_command(make_app())


def unknown_in(words: list[str]) -> list[str]:
    """Return the unknown commands and options of a command line."""
    command = root_command()
    left = words[1:]
    options: set[str] = set()
    while True:
        options |= {name for param in command.params for name in (*param.opts, "--help")}
        options |= {name for param in command.params for name in param.secondary_opts}
        commands = getattr(command, "commands", {})
        if not left or left[0] not in commands:
            break
        command = commands[left.pop(0)]
    is_nowhere = commands and left and not left[0].startswith("-")
    given = [word.partition("=")[0] for word in left if re.match(r"-{1,2}[a-z]", word)]
    return [*([left[0]] if is_nowhere else []), *(name for name in given if name not in options)]


def test_every_command_in_the_pages_exists() -> None:
    lines = [(page.name, line) for page in PAGES for line in typed(page)]
    assert len(lines) > MANY, "too few commands were found for a meaningful test"
    found = [(name, line, unknown_in(shlex.split(line))) for name, line in lines]
    assert [each for each in found if each[2]] == []


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("ottla topics describe orders --json", []),
        ("ottla topics explode orders", ["explode"]),
        ("ottla up --brokres 3", ["--brokres"]),
        ("ottla coordinator --data-dir=x", []),
    ],
)
def test_unknown_commands_and_options_are_detected(line: str, unknown: list[str]) -> None:
    assert unknown_in(line.split()) == unknown
