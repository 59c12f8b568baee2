"""`ottla cluster`: brokers, leader elections and moves of replicas (composition)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import cluster_access, run_admin
from ottla.cli.failure import EXIT_FAILED, complain, guarded, run_client, usage_error
from ottla.cli.options import Bootstrap, CommandConfig, Json
from ottla.cli.terminal import print_done, print_json, print_line, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkawire.ids import TopicPartition
    from ottla.cli.text import JsonValue
    from ottla.client.admin.admin import Admin
    from ottla.client.admin_model import LogDirectory, Reassignment

app = typer.Typer(no_args_is_help=True, help="Describe the cluster, elect leaders, move replicas.")

Places = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC[:PARTITION]", help="Default: all.")
]


@app.command()
@guarded
def describe(
    bootstrap: Bootstrap = None, command_config: CommandConfig = None, json: Json = False
) -> None:
    """Print brokers, controller and partition counts.

    \b
    Example:
      ottla cluster describe --json
    """
    from ottla.cli.cluster_report import COLUMNS, describe_cluster, to_json, to_rows

    report = run_client(describe_cluster(cluster_access(bootstrap, command_config)))
    if json:
        print_json(to_json(report))
        return
    print_line(f"cluster {report.cluster.cluster_id}")
    print_table(COLUMNS, to_rows(report))


@app.command()
@guarded
def elect(
    partitions: Places = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Elect any live replica if none in sync is left."),
    ] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Return leadership to the preferred leaders.

    Prints the partitions whose leader has changed. An unclean election can lose records, so its
    partitions must be named.

    \b
    Examples:
      ottla cluster elect
      ottla cluster elect orders:0 --unclean
    """
    from ottla.cli.cluster_moves import elect_leaders
    from ottla.client.admin_model import ElectionType

    if unclean and not partitions:
        usage_error("an unclean election can lose records: name the partitions.")
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    work = elect_leaders(cluster_access(bootstrap, command_config), partitions, kind)
    elected, failures = run_client(work)
    if json:
        print_json([{"topic": each.topic, "partition": each.partition} for each in elected])
    else:
        for where in elected:
            print_line(f"elected {where}")
    for failure in failures:
        complain(str(failure))
    if failures:
        raise typer.Exit(EXIT_FAILED)


@app.command()
@guarded
def reassign(
    moves: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC:PARTITION=BROKER,...",
            help="New replicas; with --brokers or --cancel only TOPIC[:PARTITION].",
        ),
    ] = None,
    brokers: Annotated[
        str | None, typer.Option(metavar="ID,...", help="Spread the partitions over these brokers.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Moves in the format of kafka-reassign-partitions.sh.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel moves in progress.")] = False,
    throttle: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="BYTES", help="Copy at most so many bytes per second and broker."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the moves complete.")] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Move partitions to other brokers.

    They stay in use meanwhile. The first broker of a list is the preferred leader. With --wait, a
    throttle is removed once the moves complete, unless other partitions move; otherwise `ottla
    cluster unthrottle` removes it.

    \b
    Examples:
      ottla cluster reassign orders:0=1,2,3 orders:1=2,3,4 --wait
      ottla cluster reassign orders --brokers 1,2,3 --throttle 10000000 --wait
      ottla cluster reassign orders:0 --cancel
    """
    from ottla.cli.cluster_moves import MoveRequest, move

    if (plan is not None) + bool(moves) != 1:
        usage_error("name the moves: either TOPIC:PARTITION=BROKER,... or --plan FILE.")
    if sum((plan is not None, brokers is not None, cancel)) > 1:
        usage_error("--plan, --brokers and --cancel are mutually exclusive: choose one.")
    if cancel and throttle is not None:
        usage_error("--throttle is for moves: leave it out with --cancel.")
    text = None if plan is None else plan.read_text(encoding="utf-8", errors="replace")
    request = MoveRequest(tuple(moves or ()), brokers, text, cancel, throttle)
    moved = run_client(move(cluster_access(bootstrap, command_config), request, is_waiting=wait))
    verb = "cancelled" if cancel else "moved" if wait else "moving"
    print_done(verb, [str(where) for where in moved], as_json=json)


@app.command()
@guarded
def unthrottle(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Default: all.")
    ] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Remove throttles, from brokers only if no partition moves.

    Topics keep no list of throttled replicas; brokers keep their rates for other moves.

    \b
    Example:
      ottla cluster unthrottle orders
    """
    from ottla.cli.cluster_moves import unthrottle as remove

    done = run_client(remove(cluster_access(bootstrap, command_config), topics))
    print_done("unthrottled", done, as_json=json)


@app.command()
@guarded
def reassignments(
    partitions: Places = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the reassignments in progress.

    \b
    Example:
      ottla cluster reassignments
    """
    from ottla.cli.cluster_moves import list_moves

    found = run_client(list_moves(cluster_access(bootstrap, command_config), partitions))
    if json:
        print_json([_move_json(where, each) for where, each in found.items()])
        return
    print_table(("topic", "partition", "replicas", "adding", "removing"), _move_rows(found))


@app.command("log-dirs")
@guarded
def log_dirs(
    broker: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Only this broker; repeatable.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic; repeatable."),
    ] = None,
    replicas: Annotated[
        bool, typer.Option("--replicas", help="Print a line per replica, not per directory.")
    ] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the log directories of brokers.

    For each directory, or with --replicas for each replica, its size.

    \b
    Examples:
      ottla cluster log-dirs
      ottla cluster log-dirs --broker 1 --topic orders --replicas
    """
    from ottla.cli import log_dir_report

    async def work(admin: "Admin") -> "list[LogDirectory]":
        topics = None
        if topic is not None:
            described = await admin.describe_topics(topic)
            topics = {name: range(len(it.partitions)) for name, it in described.items()}
        return await admin.describe_log_dirs(broker, topics)

    found = run_admin(bootstrap, command_config, work)
    if json:
        print_json(log_dir_report.to_json(found))
    elif replicas:
        print_table(log_dir_report.REPLICA_COLUMNS, log_dir_report.to_replica_rows(found))
    else:
        print_table(log_dir_report.SUMMARY_COLUMNS, log_dir_report.to_summary_rows(found))


def _move_rows(found: "Mapping[TopicPartition, Reassignment]") -> list[list[str | int]]:
    return [
        [
            where.topic,
            where.partition,
            *(_ids(each) for each in (it.replicas, it.adding, it.removing)),
        ]
        for where, it in sorted(found.items())
    ]


def _move_json(where: "TopicPartition", found: "Reassignment") -> "JsonValue":
    return {
        "topic": where.topic,
        "partition": where.partition,
        "replicas": list(found.replicas),
        "adding": list(found.adding),
        "removing": list(found.removing),
    }


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
