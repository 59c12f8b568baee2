"""`ottla export`: records of log directories as Parquet files (composition)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.failure import EXIT_FAILED, EXIT_FOUND, CommandError, guarded, usage_error
from ottla.cli.options import Json
from ottla.cli.terminal import print_json, print_table

if TYPE_CHECKING:
    from analytics.export.exporting import Exported, ExportRequest

MIN_FILE_BYTES = 1024 * 1024
DEFAULT_FILE_BYTES = 256 * 1024 * 1024
COLUMNS = ("topic", "partition", "from", "to", "records", "files", "note")


@guarded
def export(
    directories: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR",
            help="Log directories, directories of partitions, or their URIs; of several replicas "
            "of a partition, one is exported.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option("--to", metavar="TARGET", help="The directory of the export, new or old."),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="NAME", help="A topic; repeatable. [default: all but internal ones]"
        ),
    ] = None,
    isolation_level: Annotated[
        str,
        typer.Option(
            "--isolation-level",
            metavar="LEVEL",
            help="read_committed leaves out aborted and open transactions; or read_uncommitted.",
        ),
    ] = "read_committed",
    to_log_end: Annotated[
        bool,
        typer.Option(
            "--to-log-end",
            help="Export records above the high watermark, too, which another leader may replace.",
        ),
    ] = False,
    skip_damage: Annotated[
        bool,
        typer.Option("--skip-damage", help="Leave out damaged batches, and end with exit code 3."),
    ] = False,
    file_bytes: Annotated[
        int,
        typer.Option(
            "--file-bytes",
            metavar="BYTES",
            min=MIN_FILE_BYTES,
            help="Size of the records in a file, before their compression.",
        ),
    ] = DEFAULT_FILE_BYTES,
    json: Json = False,
) -> None:
    """Export the records of log directories to Parquet files.

    Exports each record exactly once. Needs no broker, and works on the files of Ottla and of Kafka.
    TARGET has a folder for each topic and partition, and a manifest. Run the same command again to
    export the records since the last run, or to continue after an interruption. Needs the extra
    `export`. Exit code 3 means that damaged batches were left out.

    \b
    Examples:
      ottla export /var/lib/ottla/data --to exported
      ottla export /copy/broker-1 /copy/broker-2 --to exported --topic orders
    """
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise CommandError("ottla export needs pyarrow: pip install 'ottla[export]'")
    from analytics.export.exporting import ExportRequest
    from analytics.place import is_remote
    from analytics.records.offset_choice import Isolation

    if is_remote(to):
        usage_error("--to must be a local directory")
    if isolation_level not in set(Isolation):
        usage_error(f"--isolation-level must be {' or '.join(Isolation)}, got {isolation_level}")
    results = _run(
        ExportRequest(
            directories=directories,
            target=Path(to),
            topics=topic or (),
            isolation=Isolation(isolation_level),
            to_log_end=to_log_end,
            skips_damage=skip_damage,
            file_bytes=file_bytes,
        )
    )
    _print(results, as_json=json)
    _conclude(results)


def _run(request: "ExportRequest") -> "list[Exported]":
    from analytics.errors import RecordsError, RecordsUsageError
    from analytics.export.exporting import run_export

    try:
        return run_export(request)
    except RecordsUsageError as error:
        usage_error(str(error))
    except RecordsError as error:
        raise CommandError(str(error)) from error


def _print(results: "list[Exported]", *, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        print_json({"partitions": [asdict(each) for each in results]})
        return
    rows = [
        (
            each.topic,
            each.partition,
            each.first_offset,
            each.next_offset,
            each.records,
            each.files,
            _note(each),
        )
        for each in results
    ]
    print_table(COLUMNS, rows)


def _note(result: "Exported") -> str:
    notes = [f"offsets {offsets} were deleted before" for offsets in result.missing]
    notes += [f"{len(result.skipped)} parts left out"] if result.skipped else []
    notes += ["failed"] if result.error else []
    return ", ".join(notes) or "-"


def _conclude(results: "list[Exported]") -> None:
    """Raise the failure of the command, if there is one."""
    failed = [each.error for each in results if each.error]
    if failed:
        more = f"; and {len(failed) - 1} more partitions failed" if len(failed) > 1 else ""
        raise CommandError(f"{failed[0]}{more}", EXIT_FAILED)
    skipped = [sentence for each in results for sentence in each.skipped]
    if skipped:
        raise CommandError(
            f"{len(skipped)} damaged parts were left out, the first one: {skipped[0]}", EXIT_FOUND
        )
