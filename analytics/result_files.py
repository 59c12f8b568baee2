"""The files of an audit's result: findings as Parquet, the verdict as JSON, an HTML page (edge)."""

import fcntl
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow
from plotly.offline import get_plotlyjs
from pyarrow import parquet

from analytics.errors import AuditError
from analytics.finding_row import arrow_schema
from analytics.report.figures import draw_charts
from analytics.report.page import render_page
from analytics.run import Result


def write_result(result: Result, folder: Path) -> None:
    """Write the files to `folder`: all of them, or none.

    Files of an earlier audit are replaced. Two audits that end at the same time leave the files of
    one of them.

    Raises:
        AuditError: a file cannot be written; the message names it.
    """
    place = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".audit-", dir=folder) as temporary:
            for name, write in _WRITERS.items():
                place = folder / name
                write(result, Path(temporary) / name)
            _publish(Path(temporary), folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise AuditError(f"{place} cannot be written: {reason}") from error


def _publish(source: Path, folder: Path) -> None:
    """Move the files to `folder`; a lock keeps other audits from doing so meanwhile."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in _WRITERS:
            (source / name).replace(folder / name)
    finally:
        os.close(lock)


def _write_findings(result: Result, file: Path) -> None:
    table = pyarrow.Table.from_pylist(result.findings, schema=arrow_schema(pyarrow))
    parquet.write_table(table, file)


def _write_verdict(result: Result, file: Path) -> None:
    verdict = json.dumps(result.verdict.to_json() | {"summaries": result.summaries}, indent=2)
    file.write_text(verdict + "\n", encoding="utf-8")


def _write_page(result: Result, file: Path) -> None:
    charts = draw_charts(result.findings, result.summaries)
    page = render_page(result.verdict, result.findings, charts, get_plotlyjs())
    file.write_text(page, encoding="utf-8")


_WRITERS: Final[dict[str, Callable[[Result, Path], None]]] = {
    "findings.parquet": _write_findings,
    "verdict.json": _write_verdict,
    "report.html": _write_page,
}
