"""`ottla topics`: creates, lists, describes, alters and deletes topics (composition).

`ottla.client.admin.admin_topics` builds the requests.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import cluster_access, run_admin
from ottla.cli.failure import guarded, run_client, usage_error
from ottla.cli.options import (
    MAX_PARTITIONS,
    MAX_REPLICATION_FACTOR,
    Bootstrap,
    CommandConfig,
    Json,
    Setting,
    Topic,
    parse_settings,
)
from ottla.cli.terminal import print_done, print_json, print_line, print_table

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

app = typer.Typer(no_args_is_help=True, help="Create, list, describe, change and delete topics.")

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of topics.")]


@app.command()
@guarded
def create(
    topic: Topic,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, max=MAX_PARTITIONS, help="Default: the broker's."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=MAX_REPLICATION_FACTOR,
            help="Default: the broker's.",
        ),
    ] = None,
    replicas: Annotated[
        list[str] | None,
        typer.Option(
            "--replicas",
            metavar="PARTITION=BROKER,...",
            help="Replicas of a partition, the preferred leader first; once per partition.",
        ),
    ] = None,
    config: Setting = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Create a topic.

    \b
    Examples:
      ottla topics create orders --partitions 6 --config retention.ms=86400000
      ottla topics create orders --replicas 0=1,2,3 --replicas 1=2,3,1
    """
    if replicas and (partitions or replication_factor):
        usage_error(
            "--replicas sets both numbers: leave out --partitions and --replication-factor."
        )
    from ottla.client.admin_model import BROKER_DEFAULT, NewTopic

    new_topic = NewTopic(
        topic,
        partitions=partitions or BROKER_DEFAULT,
        replication_factor=replication_factor or BROKER_DEFAULT,
        configs=parse_settings(config),
        assignment=_assignment(topic, replicas) if replicas else None,
    )

    run_admin(bootstrap, command_config, lambda admin: admin.create_topics([new_topic]))
    print_done("created", [topic], as_json=json)


def _assignment(topic: str, replicas: list[str]) -> dict[int, tuple[int, ...]]:
    from ottla.cli.partition_argument import parse_moves

    try:
        moves = parse_moves(f"{topic}:{each}" for each in replicas)
    except ValueError:
        usage_error(
            "--replicas must be PARTITION=BROKER,... such as 0=1,2,3, once per partition, got "
            f"{' '.join(replicas)}."
        )
    return {where.partition: brokers for where, brokers in moves.items()}


@app.command("list")
@guarded
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Include the brokers' internal topics.")
    ] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the names of all topics, one per line.

    \b
    Example:
      ottla topics list
    """

    names = run_admin(
        bootstrap, command_config, lambda admin: admin.list_topics(include_internal=internal)
    )
    if json:
        print_json([*names])
    else:
        for name in names:
            print_line(name)


@app.command()
@guarded
def describe(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Default: all.")
    ] = None,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated", help="Only partitions with an out-of-sync replica."),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a leader.")
    ] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print leader, replicas, ISR and offsets of partitions.

    \b
    Examples:
      ottla topics describe orders
      ottla topics describe --under-replicated
    """
    from ottla.cli.topic_report import describe_topics, narrowed, to_json, to_rows

    reports = run_client(describe_topics(cluster_access(bootstrap, command_config), topics))
    if under_replicated or unavailable:
        reports = narrowed(reports, under_replicated=under_replicated, unavailable=unavailable)
    if json:
        print_json([to_json(report) for report in reports])
        return
    columns = ("topic", "partition", "leader", "epoch", "replicas", "in sync", "start", "end")
    print_table(columns, [row for report in reports for row in to_rows(report)])


@app.command()
@guarded
def alter(
    topic: Topic,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, max=MAX_PARTITIONS, help="New number of partitions."
        ),
    ] = None,
    config: Setting = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Reset this config to its default; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Add partitions, or change configs of a topic.

    Adding partitions changes the partition of some keys.

    \b
    Example:
      ottla topics alter orders --partitions 12 --config retention.ms=3600000
    """
    from ottla.client.admin_model import ResourceType
    from ottla.client.errors import OttlaError

    changes: dict[str, str | None] = {**parse_settings(config)}
    if both := changes.keys() & set(delete_config or ()):
        usage_error(f"--config and --delete-config both name {min(both)}: choose one.")
    changes.update(dict.fromkeys(delete_config or ()))
    if partitions is None and not changes:
        usage_error("nothing to change: give --partitions, --config or --delete-config.")

    async def work(admin: "Admin") -> None:
        if changes:
            await admin.alter_configs(ResourceType.TOPIC, topic, changes)
        if partitions is not None:
            try:
                await admin.create_partitions({topic: partitions})
            except OttlaError as error:
                if changes:
                    error.add_note(f"The configs of {topic} were changed.")
                raise

    run_admin(bootstrap, command_config, work)
    print_done("changed", [topic], as_json=json)


@app.command()
@guarded
def delete(
    topics: Topics,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Delete topics with all their records.

    The deletion cannot be undone.

    \b
    Example:
      ottla topics delete orders
    """

    run_admin(bootstrap, command_config, lambda admin: admin.delete_topics(topics))
    print_done("deleted", topics, as_json=json)


@app.command("delete-records")
@guarded
def delete_records(
    places: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:PARTITION]", help="Topics or partitions.")
    ],
    before: Annotated[
        str,
        typer.Option(
            "--before", metavar="WHERE", help="end, an offset, or a time: keep later records."
        ),
    ],
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Delete the oldest records of partitions.

    Prints the new start of each partition. An offset beyond the end of a partition deletes all of
    its records.

    \b
    Examples:
      ottla topics delete-records orders:0 --before 1000
      ottla topics delete-records orders --before 2026-01-31T12:00:00Z
    """
    from ottla.cli.input_record import InputError
    from ottla.cli.log_positions import delete_before
    from ottla.cli.start_point import Beginning, parse_start_point

    try:
        start = parse_start_point(before)
    except InputError as error:
        usage_error(f"--before: {error}.")
    if isinstance(start, Beginning):
        usage_error("--before beginning would delete nothing: name an offset, a time, or end.")
    starts = run_admin(bootstrap, command_config, lambda admin: delete_before(admin, places, start))
    if json:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, "start": start_offset}
                for each, start_offset in starts.items()
            ]
        )
        return
    print_table(
        ("topic", "partition", "start"), [(*each, offset) for each, offset in starts.items()]
    )
