"""`ottla produce`: sends the lines of a file or of standard input (composition)."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.cli.command_config import cluster_access
from ottla.cli.failure import guarded, run_client, usage_error
from ottla.cli.options import (
    Bootstrap,
    BrokerLayout,
    BrokerList,
    CommandConfig,
    Json,
    LayoutName,
    Topic,
)
from ottla.cli.terminal import print_json
from ottla.cli.transfer import Transfer

DEFAULT_LINGER_MS: Final = 5.0
DEFAULT_BATCH_BYTES: Final = 256 * 1024


class Compression(StrEnum):
    """Compression codecs of the record format."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class AckLevel(StrEnum):
    """Acknowledgements to wait for: none, from the leader, or from all in-sync replicas."""

    ZERO = "0"
    ONE = "1"
    ALL = "all"


@guarded
def produce(
    topic: Topic,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Lines to send. Default: standard input."),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Text between key and value of each line."),
    ] = None,
    json_lines: Annotated[
        bool,
        typer.Option(
            help="Each line is a JSON object with key, value, headers, partition, timestamp.",
        ),
    ] = False,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Send all records to this partition.")
    ] = None,
    compression: Annotated[
        Compression, typer.Option(help="Compression codec of batches.")
    ] = Compression.NONE,
    acks: Annotated[AckLevel, typer.Option(help="Acknowledgements to wait for.")] = AckLevel.ALL,
    linger_ms: Annotated[
        float, typer.Option(min=0, help="Time that a batch waits for more records.")
    ] = DEFAULT_LINGER_MS,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    coordinator: BrokerList = None,
    layout: BrokerLayout = LayoutName.KAFKA,
    json: Json = False,
) -> None:
    """Send one record per line.

    With --coordinator, records go to the partitions of live brokers, as Jafka's producer chooses
    them: by the hash of the key over all of them, or by chance without a key.

    At the end it prints the number and rate of records to standard error.

    \b
    Examples:
      printf 'hello\\nworld\\n' | ottla produce greetings
      ottla produce orders orders.jsonl --json-lines --compression zstd
      ottla produce orders orders.txt --coordinator 127.0.0.1:2181
    """
    from ottla.cli.input_record import line_parser
    from ottla.cli.produce_lines import ProduceOptions, produce_lines

    if json_lines and key_separator is not None:
        usage_error("--json-lines and --key-separator are mutually exclusive: choose one.")
    if key_separator == "":
        usage_error("--key-separator is empty: give the text between key and value.")
    if file is None and sys.stdin is None:
        usage_error("standard input is closed: name a file.")
    if file is not None and not file.is_file():
        usage_error(f"{file} is not a file: name an existing file, or pipe the lines in.")
    if coordinator is not None and partition is not None:
        usage_error("--partition cannot be used with --coordinator: the producer chooses it.")
    options = ProduceOptions(
        topic=topic,
        partition=partition,
        acks="all" if acks is AckLevel.ALL else 0 if acks is AckLevel.ZERO else 1,
        compression=compression.value,
        linger_ms=linger_ms,
        batch_size_bytes=DEFAULT_BATCH_BYTES,
    )
    parse = line_parser(key_separator=key_separator, is_json=json_lines)
    transfer = Transfer("sent", None if file is None else file.stat().st_size)
    if coordinator is None:
        access = cluster_access(bootstrap, command_config)
        work = produce_lines(file, parse, access, options, transfer)
    else:
        from ottla.cli.old_groups import groups_access
        from ottla.cli.produce_old import produce_old

        found = groups_access(coordinator, layout, bootstrap, command_config)
        work = produce_old(file, parse, found, options, transfer)
    with transfer:
        run_client(work)
    if json:
        print_json(transfer.to_json())
    else:
        typer.echo(transfer.to_line(), err=True)
