"""`ottla perf`: measures the throughput and latency of a cluster (composition)."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from ottla.cli.command_config import cluster_access
from ottla.cli.commands.produce import AckLevel, Compression
from ottla.cli.failure import guarded, run_client
from ottla.cli.options import Bootstrap, CommandConfig, Json, Topic
from ottla.cli.terminal import print_json, print_line
from ottla.cli.transfer import Transfer

DEFAULT_SIZE_BYTES: Final = 100
DEFAULT_BATCH_BYTES: Final = 64 * 1024
DEFAULT_TIMEOUT_MS: Final = 10_000
MAX_RECORDS: Final = 10_000_000
MAX_SIZE_BYTES: Final = 100 * 1024 * 1024

app = typer.Typer(no_args_is_help=True, help="Measure throughput and latency of a cluster.")


class RoundTripAcks(StrEnum):
    """Acknowledgements of a record that is read again."""

    ONE = "1"
    ALL = "all"


Records = Annotated[
    int, typer.Option("--records", "-n", min=1, max=MAX_RECORDS, help="Number of records.")
]
Size = Annotated[
    int, typer.Option("--size", min=0, max=MAX_SIZE_BYTES, help="Bytes of each value.")
]
Timeout = Annotated[
    int, typer.Option("--timeout-ms", min=1, help="Give up when nothing arrives for so long.")
]


@app.command()
@guarded
def produce(
    topic: Topic,
    records: Records = 100_000,
    size: Size = DEFAULT_SIZE_BYTES,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Limit of records per second.")
    ] = None,
    acks: Annotated[AckLevel, typer.Option(help="Acknowledgements to wait for.")] = AckLevel.ALL,
    compression: Annotated[
        Compression, typer.Option(help="Compression codec of batches.")
    ] = Compression.NONE,
    linger_ms: Annotated[
        float, typer.Option(min=0, help="Time that a batch waits for more records.")
    ] = 0,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Bytes at which a batch is sent.")
    ] = DEFAULT_BATCH_BYTES,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Send records as fast as possible, or at a rate, and print rate and latencies.

    \b
    Examples:
      ottla perf produce bench --records 1000000 --size 100
      ottla perf produce bench --rate 10000 --acks 1 --json
    """
    from ottla.cli.latency import LatencySummary
    from ottla.cli.perf_run import ProduceLoad, produce_load

    load = ProduceLoad(
        topic=topic,
        record_count=records,
        size_bytes=size,
        rate=rate,
        acks="all" if acks is AckLevel.ALL else 0 if acks is AckLevel.ZERO else 1,
        compression=compression.value,
        linger_ms=linger_ms,
        batch_size_bytes=batch_size,
    )
    with Transfer("sent") as transfer:
        access = cluster_access(bootstrap, command_config)
        latencies_ms = run_client(produce_load(access, load, transfer))
    summary = LatencySummary.of(latencies_ms)
    if json:
        print_json({**transfer.to_json(), **summary.to_json()})
        return
    print_line(transfer.to_line())
    print_line(summary.to_line())


@app.command()
@guarded
def consume(
    topic: Topic,
    records: Records = 100_000,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="NAME", help="Read as a member of this.")
    ] = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Read records from the beginning as fast as possible, and print the rate.

    \b
    Example:
      ottla perf consume bench --records 1000000
    """
    from ottla.cli.perf_run import consume_load

    access = cluster_access(bootstrap, command_config)
    with Transfer("received") as transfer:
        run_client(consume_load(access, topic, records, group, timeout_ms, transfer))
    if json:
        print_json(transfer.to_json())
        return
    print_line(transfer.to_line())


@app.command("end-to-end")
@guarded
def end_to_end(
    topic: Topic,
    records: Records = 1_000,
    size: Size = DEFAULT_SIZE_BYTES,
    acks: Annotated[
        RoundTripAcks, typer.Option(help="Acknowledgements to wait for.")
    ] = RoundTripAcks.ALL,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Send records one at a time, read each again, and print the latencies.

    \b
    Example:
      ottla perf end-to-end bench --records 1000
    """
    from ottla.cli.latency import LatencySummary
    from ottla.cli.perf_run import end_to_end_load

    access = cluster_access(bootstrap, command_config)
    summary = LatencySummary.of(
        run_client(
            end_to_end_load(
                access,
                topic,
                records,
                size,
                "all" if acks is RoundTripAcks.ALL else 1,
                timeout_ms,
            )
        )
    )
    if json:
        print_json({"records": records, **summary.to_json()})
        return
    print_line(summary.to_line())
