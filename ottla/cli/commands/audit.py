"""`ottla audit`: Spark jobs over the files of log directories (composition)."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.failure import EXIT_INTERRUPTED, CommandError, guarded, usage_error
from ottla.cli.options import Json
from ottla.cli.terminal import print_json, print_line

if TYPE_CHECKING:
    from analytics.run import Result

MIN_SHOWN = 20
SNAPSHOT = "snapshot"


@guarded
def audit(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="integrity, compaction, replicas, retention, cost, collisions; "
            "or snapshot, which writes --out FILE.",
        ),
    ],
    directories: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR",
            help="Log directories (one per replica), directories of partitions, or their URIs.",
        ),
    ],
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="The Spark master.")
    ] = "local[*]",
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="DIR|FILE",
            help="Reference for the compaction audit: the log directory of an uncompacted "
            "replica, a snapshot, or a producer's ledger (.jsonl).",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Directory for findings.parquet, verdict.json and report.html.",
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="KEY=VALUE",
            help="delete.retention.ms, retention.ms, ...; repeatable.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Report index shapes that only Kafka up to 3.9.0 writes."),
    ] = False,
    json: Json = False,
) -> None:
    """Audit the files of a log with Spark.

    Needs no broker and scales to any size.

    Works on the files of Ottla and of Kafka. Audit a live broker through a copy by hard links.
    Needs Java 17 and the extra `analytics`. Exit code 0: clean, 1: failed, 2: wrong usage,
    3: findings.

    \b
    Example:
      ottla audit compaction /tmp/ottla --against /backup/uncompacted --out report
    """
    try:
        if name == SNAPSHOT:
            _take_snapshot(directories, out, rule or [])
            return
        _check_charts(out)
        result = _audit(name, directories, master, against, rule or [], is_strict=strict)
    except KeyboardInterrupt:
        raise CommandError(
            "the audit was interrupted; nothing is proved", EXIT_INTERRUPTED
        ) from None
    # Printed first: the disk of the files may be full.
    _print_result(result, as_json=json)
    if out is not None:
        _write_result(result, out)
    if result.verdict.exit_code:
        raise typer.Exit(result.verdict.exit_code)


def _check_charts(out: Path | None) -> None:
    """Refuse a report that could not be drawn, before the audit takes its time."""
    if out is not None and find_spec("plotly") is None:
        raise CommandError("reports need plotly: pip install 'ottla[analytics]'")


def _print_result(result: "Result", *, as_json: bool) -> None:
    if as_json:
        print_json(result.verdict.to_json() | {"findings": result.findings})
    else:
        for finding in result.findings[:MIN_SHOWN]:
            print_line(_line(finding))
        if len(result.findings) > MIN_SHOWN:
            print_line(f"  and {len(result.findings) - MIN_SHOWN} more; --out DIR writes them all")
        for line in result.verdict.lines():
            print_line(line)
    sys.stdout.flush()


def _write_result(result: "Result", out: Path) -> None:
    from analytics.errors import AuditError
    from analytics.result_files import write_result

    try:
        write_result(result, out)
    except AuditError as error:
        raise CommandError(str(error)) from error


def _take_snapshot(directories: list[str], out: Path | None, rules: list[str]) -> None:
    from analytics.errors import AuditError
    from analytics.run import snapshot_logs
    from logcheck.rule import parse_rules

    if out is None:
        usage_error("a snapshot needs --out FILE")
    try:
        count = snapshot_logs(directories, out, parse_rules(rules).key_limit)
    except (AuditError, ValueError) as error:
        raise CommandError(str(error)) from error
    print_line(f"snapshot: {count} keys in {out}")


def _audit(
    name: str,
    directories: list[str],
    master: str,
    against: str | None,
    rules: list[str],
    *,
    is_strict: bool,
) -> "Result":
    from analytics.errors import AuditError, AuditUsageError
    from analytics.plan import Audit
    from analytics.run import Request, run_audit
    from logcheck.rule import parse_rules

    if name not in set(Audit):
        usage_error(f"{name!r} is not an audit; choose from {', '.join(Audit)}, {SNAPSHOT}")
    try:
        parsed = parse_rules(rules, is_strict=is_strict)
    except ValueError as error:
        usage_error(str(error))
    try:
        return run_audit(
            Request(
                audit=Audit(name),
                directories=directories,
                against=against,
                master=master,
                rules=parsed,
            )
        )
    except AuditUsageError as error:
        usage_error(str(error))
    except AuditError as error:
        raise CommandError(str(error)) from error


def _line(finding: dict[str, str | int | None]) -> str:
    mark = " " if finding["severity"] == "note" else "!"
    place = "" if finding["position"] is None else f" at {finding['position']}"
    offset = "" if finding["offset"] is None else f", offset {finding['offset']}"
    return (
        f"{mark} {finding['file']}{place}{offset}: {finding['check']} {finding['what']}: "
        f"expected {finding['expected']}, found {finding['found']}"
    )
