"""`ottla logs`: inspects segments, indexes and checkpoints without a broker (composition)."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.failure import EXIT_FOUND, CommandError, complain, guarded, usage_error
from ottla.cli.options import Json
from ottla.cli.terminal import print_line

app = typer.Typer(no_args_is_help=True, help="Read the files of a log directory, offline.")


@app.command()
@guarded
def verify(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Log directories, or the directories of single partitions.",
            exists=True,
            file_okay=False,
        ),
    ],
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Also read the records in the batches, and check producers."),
    ] = False,
    strict_indexes: Annotated[
        bool,
        typer.Option(
            "--strict-indexes",
            help="Also report indexes with one entry per append, as Kafka up to 3.9.0 writes them.",
        ),
    ] = False,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="KEY=VALUE",
            help="cleanup.policy=delete, my-topic:cleanup.policy=compact, ...; repeatable.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check segments, indexes and checkpoints.

    Prints a line per partition, and compares the replicas of a partition in several directories. A
    broker may run meanwhile. A torn tail beyond the recovery point is a normal trace of a crash and
    not an inconsistency. Exit code 3 means that inconsistencies were found.

    \b
    Examples:
      ottla logs verify /tmp/ottla
      ottla logs verify --deep cluster/broker-*/
    """
    from logcheck.rule import parse_rules
    from ottla.cli.logs.partition_verification import VerifyOptions
    from ottla.cli.logs.verify import segment_bytes, verify_directories
    from ottla.cli.logs.verify_report import print_results
    from ottla.cli.progress import progress_bar

    try:
        rules = parse_rules(rule or [])
        rules = replace(rules, now_ms=rules.now_ms or time.time_ns() // 1_000_000)
    except ValueError as error:
        usage_error(str(error))
    with progress_bar("checking", segment_bytes(directories)) as on_progress:
        options = VerifyOptions(
            with_records=deep,
            rules=rules,
            strict_indexes=strict_indexes,
            on_progress=on_progress,
        )
        results = verify_directories(directories, options)
    if not results:
        # A mistyped path must not look like a successful verification.
        named = ", ".join(map(str, directories))
        raise CommandError(f"no partition was found in {named}: name a broker's log directory.")
    if print_results(results, as_json=json):
        raise typer.Exit(EXIT_FOUND)


@app.command()
@guarded
def dump(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Segments, indexes, checkpoints.", exists=True),
    ],
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read and check the records in the batches.")
    ] = False,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print only findings and totals.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the contents and inconsistencies of files.

    Reads the files of Ottla and of Kafka, also while a broker writes them. Exit code 3 means that
    inconsistencies were found.

    \b
    Example:
      ottla logs dump --deep /tmp/ottla/greetings-0/00000000000000000000.log
    """
    import json as json_format

    from ottla.cli.logs.dump_files import dump_file
    from ottla.cli.logs.item import FileItem, FindingItem, Summary

    shown = (FileItem, FindingItem, Summary) if summary else (object,)
    dumped_count = finding_count = 0
    for path in files:
        items = dump_file(path, with_records=deep)
        if items is None:
            complain(f"{path}: skipped, the name is not that of a segment, index or checkpoint.")
            continue
        dumped_count += 1
        for item in items:
            finding_count += isinstance(item, FindingItem)
            if isinstance(item, shown):
                print_line(json_format.dumps(item.to_json()) if json else item.to_line())
    if not dumped_count:
        raise CommandError("none of these files can be read: see `ottla logs dump --help`.")
    if finding_count:
        raise typer.Exit(EXIT_FOUND)
