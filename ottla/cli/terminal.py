"""Output of the commands (edge).

On a terminal, tables have rules and colours. In a pipe, they are aligned plain columns without
decoration. `--json` prints one JSON document.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.cli.text import JsonValue, shown, shown_json

_GAP: Final = "  "

UTF_8: Final = ("utf-8", "utf8")

Cell = str | int


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_line(line: str) -> None:
    """Print one line with control characters escaped."""
    sys.stdout.write(shown(line) + "\n")


def print_json(value: JsonValue) -> None:
    """Print one indented JSON document, the whole output of a command."""
    # Escapes that any locale can write, and that every reader of JSON understands.
    is_ascii = sys.stdout.encoding.lower() not in UTF_8
    sys.stdout.write(shown_json(json.dumps(value, indent=2, ensure_ascii=is_ascii)) + "\n")


def print_done(verb: str, names: Sequence[str], *, as_json: bool) -> None:
    """Print a completed action as `created orders`, or in JSON as `{"created": ["orders"]}`."""
    if as_json:
        print_json({verb: [*names]})
        return
    for name in names:
        print_line(f"{verb} {name}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows under their column titles; columns of numbers are aligned to the right."""
    if is_terminal():
        _print_rich_table(columns, rows)
    else:
        for line in plain_table(columns, rows):
            print_line(line)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of a plain, aligned table."""
    cells = [list(columns)] + [[shown(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(columns))]
    is_number = [_is_number_column(rows, column) for column in range(len(columns))]
    return [
        _GAP.join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in cells
    ]


def _print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        justify = "right" if _is_number_column(rows, number) else "left"
        table.add_column(column, justify=justify, header_style="bold", overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(shown(str(cell)) for cell in row))
    # A name is shown as it is: no markup, and no emoji in place of `:key:`.
    Console(highlight=False, markup=False, emoji=False).print(table)


def _is_number_column(rows: Sequence[Sequence[Cell]], column: int) -> bool:
    return bool(rows) and all(isinstance(row[column], int) for row in rows)


def print_offsets(offsets: Iterable[tuple[tuple[str, int | str], int]], *, as_json: bool) -> None:
    """Print an offset per partition, in order."""
    rows = [(topic, name, offset) for (topic, name), offset in sorted(offsets)]
    if as_json:
        print_json(
            [{"topic": topic, "partition": name, "offset": offset} for topic, name, offset in rows]
        )
    else:
        print_table(("topic", "partition", "offset"), rows)
