"""`ottla transactions`: lists, describes and ends transactions (composition)."""

import math
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import run_admin
from ottla.cli.failure import EXIT_FOUND, CommandError, guarded, usage_error
from ottla.cli.options import Bootstrap, CommandConfig, Json
from ottla.cli.terminal import print_done, print_json, print_line, print_table

if TYPE_CHECKING:
    from kafkawire.ids import TopicPartition
    from ottla.client.admin.admin import Admin
    from ottla.client.admin_model import (
        HangingTransaction,
        OpenTransaction,
        ProducerState,
        TransactionListing,
    )

app = typer.Typer(no_args_is_help=True, help="List, describe and end transactions.")

DEFAULT_MAX_TIMEOUT_S = 900

Place = Annotated[
    str, typer.Argument(metavar="TOPIC:PARTITION", help="A partition, such as orders:0.")
]
Replica = Annotated[
    int | None,
    typer.Option("--broker", metavar="ID", help="Ask this broker, not the leaders."),
]


@app.command("list")
@guarded
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Ongoing, CompleteCommit, ...; repeatable."),
    ] = None,
    longer_than_s: Annotated[
        float | None,
        typer.Option("--longer-than", metavar="SECONDS", help="Only those that began longer ago."),
    ] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print all transactional ids with their coordinators and states.

    \b
    Example:
      ottla transactions list --state Ongoing
    """

    longer_than_ms = None if longer_than_s is None else _ms("--longer-than", longer_than_s)

    async def work(admin: "Admin") -> "list[TransactionListing]":
        return await admin.list_transactions(
            states=state or (),
            min_duration_ms=longer_than_ms,
        )

    found = run_admin(bootstrap, command_config, work)
    columns = ("transactional_id", "coordinator_id", "producer_id", "state")
    if json:
        print_json([{name: getattr(each, name) for name in columns} for each in found])
        return
    titles = ("transactional id", "coordinator", "producer id", "state")
    print_table(titles, [[getattr(each, name) for name in columns] for each in found])


@app.command()
@guarded
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")],
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the state, the producer and the partitions of a transactional id.

    \b
    Example:
      ottla transactions describe bookings-1
    """
    from ottla.cli.transaction_report import description_json, description_rows

    found = run_admin(
        bootstrap, command_config, lambda admin: admin.describe_transaction(transactional_id)
    )
    if json:
        print_json(description_json(found))
        return
    for name, value in description_rows(found):
        print_line(f"{name}: {value}")


@app.command("describe-producers")
@guarded
def describe_producers(
    place: Place,
    broker: Replica = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the active producers of a partition and their open transactions.

    \b
    Example:
      ottla transactions describe-producers orders:0
    """
    from ottla.cli.transaction_report import PRODUCER_COLUMNS, producer_json, producer_row

    partition = _partition(place)

    async def work(admin: "Admin") -> "tuple[ProducerState, ...]":
        return (await admin.describe_producers([partition], broker_id=broker))[partition]

    found = run_admin(bootstrap, command_config, work)
    if json:
        print_json([producer_json(each) for each in found])
        return
    print_table(PRODUCER_COLUMNS, [producer_row(each) for each in found])


@app.command("find-hanging")
@guarded
def find_hanging(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC[:PARTITION]", help="Default: all topics; repeatable."
        ),
    ] = None,
    broker: Replica = None,
    max_timeout_s: Annotated[
        float,
        typer.Option(
            "--max-transaction-timeout",
            metavar="SECONDS",
            help="transaction.max.timeout.ms of the brokers, in seconds.",
        ),
    ] = DEFAULT_MAX_TIMEOUT_S,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the transactions that are open and that no coordinator will end.

    Readers with isolation_level=read_committed stop before them. End them with
    `ottla transactions abort`. Exit code 3 means that some were found.

    \b
    Example:
      ottla transactions find-hanging --topic orders
    """
    from ottla.cli.transaction_report import HANGING_COLUMNS, hanging_json, hanging_row

    try:
        places = _places(topic or [])
    except ValueError as error:
        usage_error(f"--topic: {error}.")

    max_timeout_ms = _ms("--max-transaction-timeout", max_timeout_s)

    async def work(admin: "Admin") -> "list[HangingTransaction]":
        return await admin.find_hanging_transactions(
            await _existing(admin, places, broker),
            broker_id=broker,
            max_timeout_ms=max_timeout_ms,
        )

    found = run_admin(bootstrap, command_config, work)
    if json:
        print_json([hanging_json(each) for each in found])
    else:
        print_table(HANGING_COLUMNS, [hanging_row(each) for each in found])
    if found:
        raise typer.Exit(EXIT_FOUND)


@app.command()
@guarded
def abort(
    place: Place,
    start_offset: Annotated[
        int | None,
        typer.Option(metavar="OFFSET", help="First offset of the transaction in the partition."),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(metavar="ID", help="Its producer, instead of its start.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option(metavar="EPOCH", help="With --producer-id.")
    ] = None,
    coordinator_epoch: Annotated[
        int, typer.Option(metavar="EPOCH", help="With --producer-id; -1 if none is known.")
    ] = -1,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """End a hanging transaction in a partition.

    The coordinator does not learn of it: abort only a transaction that
    `ottla transactions find-hanging` has printed. A live one would lose its records in this
    partition although it commits.

    \b
    Examples:
      ottla transactions abort orders:0 --start-offset 1042
      ottla transactions abort orders:0 --producer-id 7 --producer-epoch 2
    """
    partition = _partition(place)
    by_producer = producer_id is not None and producer_epoch is not None
    if (start_offset is not None) == by_producer or (producer_id is None) != (
        producer_epoch is None
    ):
        usage_error("name either --start-offset, or --producer-id and --producer-epoch.")

    async def work(admin: "Admin") -> None:
        from ottla.client.admin_model import OpenTransaction

        if start_offset is not None:
            found = await _open_at(admin, partition, start_offset)
        else:
            assert producer_id is not None
            assert producer_epoch is not None
            found = OpenTransaction(
                partition=partition,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
        await admin.abort_transaction(found)

    run_admin(bootstrap, command_config, work)
    print_done("aborted", [f"{place}"], as_json=json)


async def _open_at(
    admin: "Admin", partition: "TopicPartition", start_offset: int
) -> "OpenTransaction":
    """Return the open transaction that starts at an offset.

    Raises:
        CommandError: there is none.
    """
    from ottla.client.admin_model import OpenTransaction

    for each in (await admin.describe_producers([partition]))[partition]:
        if each.transaction_start_offset == start_offset:
            return OpenTransaction(
                partition=partition,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                coordinator_epoch=each.coordinator_epoch,
            )
    raise CommandError(
        f"no transaction is open in {partition} from offset {start_offset} on: see "
        f"`ottla transactions describe-producers {partition.topic}:{partition.partition}`."
    )


async def _existing(
    admin: "Admin", places: "list[tuple[str, int | None]]", broker: int | None
) -> "list[TopicPartition]":
    """Return the partitions in `places`, of all topics by default, that `broker` replicates."""
    from kafkawire.ids import TopicPartition

    topics = await admin.describe_all_topics()
    wanted = places or [(name, None) for name in topics]
    for name, _ in wanted:
        if name not in topics:
            raise CommandError(f"topic {name} does not exist: see `ottla topics list`.")
    return [
        TopicPartition(name, held.partition)
        for name, number in wanted
        for held in topics[name].partitions
        if number in (None, held.partition) and (broker is None or broker in held.replicas)
    ]


def _ms(option: str, seconds: float) -> int:
    milliseconds = seconds * 1000
    if not math.isfinite(milliseconds):
        usage_error(f"{option} must be a number of seconds, got {seconds}.")
    return int(milliseconds)


def _partition(place: str) -> "TopicPartition":
    try:
        [(topic, number)] = _places([place])
        if number is None:
            raise ValueError(f"{place!r} names no partition: use {place}:0")
    except ValueError as error:
        usage_error(f"{error}.")
    from kafkawire.ids import TopicPartition

    return TopicPartition(topic, number)


def _places(texts: list[str]) -> list[tuple[str, int | None]]:
    from ottla.cli.partition_argument import parse_partition

    return [parse_partition(text) for text in texts]
