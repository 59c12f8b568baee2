"""`ottla up`: runs a whole cluster on this machine (composition)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.failure import guarded, usage_error
from ottla.cli.options import Json, parse_settings

if TYPE_CHECKING:
    from ottla.cli.up.plan import ClusterPlan

DEFAULT_DIRECTORY = Path("ottla-data")
MAX_BROKERS = 100


@guarded
def up(
    brokers: Annotated[int, typer.Option(min=1, max=MAX_BROKERS, help="Number of brokers.")] = 3,
    directory: Annotated[
        Path, typer.Option("--dir", help="Directory of all data: broker-1, ..., coordinator.")
    ] = DEFAULT_DIRECTORY,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65_535, help="First broker's port; the others follow. 0: any free ports."
        ),
    ] = 9092,
    coordinator_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The coordinator's port. 0: any free port.")
    ] = 0,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="KEY=VALUE", help="Set a key of every broker."),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart/--no-restart", help="Restart processes that died.")
    ] = True,
    json: Json = False,
) -> None:
    """Run a coordinator and brokers on this machine.

    Prints `ready HOST:PORT,...` once all brokers have registered and know each other. Ctrl-C or
    SIGTERM stops them in order. The session of a broker that dies is closed at once, and the broker
    is restarted. Each process has a directory with its log (log.jsonl) and process id (pid). With
    --override zookeeper.connect=... the brokers use an existing coordinator or ZooKeeper.

    \b
    Examples:
      ottla up
      ottla up --brokers 5 --dir /var/lib/ottla --port 19092 --override num.partitions=6
    """
    from ottla.cli.up.ground import claimed
    from ottla.cli.up.running import run_until_signal

    with claimed(directory):
        plan = _plan(
            directory,
            broker_count=brokers,
            port=port,
            coordinator_port=coordinator_port,
            overrides=parse_settings(override),
        )
        run_until_signal(plan, may_restart=restart, is_json=json)


def _plan(
    directory: Path,
    *,
    broker_count: int,
    port: int,
    coordinator_port: int,
    overrides: dict[str, str],
) -> "ClusterPlan":
    from ottla.cli.up.ground import free_ports, require_free
    from ottla.cli.up.plan import make_plan

    ports = free_ports(broker_count) if port == 0 else [port + each for each in range(broker_count)]
    try:
        plan = make_plan(
            directory,
            broker_ports=ports,
            coordinator_port=coordinator_port or free_ports(1)[0],
            overrides=overrides,
        )
    except ValueError as error:
        usage_error(str(error))
    require_free([*ports, *([coordinator_port] if coordinator_port and plan.coordinator else [])])
    return plan
