"""`ottla logs`: look into segments, indexes and checkpoints without a broker. Composition."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.failure import EXIT_FOUND, CommandError, complain, guarded
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
        bool, typer.Option("--deep", help="Read the records in the batches too.")
    ] = False,
    strict_indexes: Annotated[
        bool,
        typer.Option(
            "--strict-indexes",
            help="Also report indexes with one entry per append, as Kafka up to 3.9.0 wrote them.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Check the segments, indexes and checkpoints in directories.

    Prints a line per partition. Replicas of a partition in several directories are compared with
    each other. Works also while a broker runs. A torn end beyond the recovery point is what a crash
    leaves and is no inconsistency. Exit code 3 when something is inconsistent.

    \b
    Examples:
      ottla logs verify /tmp/ottla
      ottla logs verify --deep cluster/broker-*/
    """
    from ottla.cli.logs.verify import VerifyOptions, segment_bytes, verify_directories
    from ottla.cli.logs.verify_report import print_results
    from ottla.cli.progress import progress_bar

    with progress_bar("checking", segment_bytes(directories)) as on_progress:
        options = VerifyOptions(
            with_records=deep, strict_indexes=strict_indexes, on_progress=on_progress
        )
        results = verify_directories(directories, options)
    if not results:
        # Whoever mistyped a path must not be told that all is well.
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
        bool, typer.Option("--deep", help="Read (and check) the records in the batches too.")
    ] = False,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print findings and totals only.")
    ] = False,
    json: Json = False,
) -> None:
    """Print what is in files, and what is wrong with them.

    Reads the files of any Kafka, also while a broker writes them. Exit code 3 when something is
    inconsistent.

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
            complain(f"{path}: left out, the name is that of no segment, index or checkpoint.")
            continue
        dumped_count += 1
        for item in items:
            finding_count += isinstance(item, FindingItem)
            if isinstance(item, shown):
                print_line(json_format.dumps(item.to_json()) if json else item.to_line())
    if not dumped_count:
        raise CommandError("none of these files could be read: see `ottla logs dump --help`.")
    if finding_count:
        raise typer.Exit(EXIT_FOUND)
