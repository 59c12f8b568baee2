"""`ottla up`: runs a whole cluster on this machine (composition)."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.failure import guarded
from ottla.cli.options import Json, named_path, parse_settings
from ottla.cli.up.machine import MAX_BROKERS

DEFAULT_DIRECTORY = Path("ottla-data")
CONSOLE_PORT = 9021


@guarded
def up(
    brokers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_BROKERS,
            help="Number of brokers on this machine.",
            show_default="3; over several machines one per core",
        ),
    ] = None,
    directory: Annotated[
        Path,
        typer.Option(
            "--dir",
            metavar="PATH",
            parser=named_path,
            help="Directory of all data: broker-1, ..., coordinator.",
        ),
    ] = DEFAULT_DIRECTORY,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65_535, help="First broker's port; the others follow. 0: any free ports."
        ),
    ] = 9092,
    coordinator_port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65_535,
            help="The coordinator's port. 0: any free port, or 2181 with --joinable.",
        ),
    ] = 0,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="KEY=VALUE", help="Set a key of every broker."),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="TLS, passwords and access control, in DIR/security."),
    ] = False,
    advertised_host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="Listen on all interfaces; clients find the brokers at HOST. Needs --secure, "
            "except for addresses of the machine itself (127...).",
        ),
    ] = None,
    joinable: Annotated[
        bool,
        typer.Option("--joinable", help="Let other machines join, at --advertised-host."),
    ] = False,
    join: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Join the cluster of this coordinator."),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart/--no-restart", help="Restart processes that died.")
    ] = True,
    console: Annotated[
        bool, typer.Option("--console/--no-console", help="Show the cluster in the browser, too.")
    ] = True,
    json: Json = False,
) -> None:
    """Run a coordinator and brokers on this machine.

    Prints `ready HOST:PORT,...` once all brokers have registered and know each other. Ctrl-C or
    SIGTERM stops them in order. The session of a broker that dies is closed at once, and the broker
    is restarted. Each process has a directory with its log (log.jsonl) and process id (pid). With
    --override zookeeper.connect=... the brokers use an existing coordinator or ZooKeeper.

    With --secure, the folder `security` gets a certificate authority, certificates, and users with
    random passwords; client.properties in it is a connection for commands and Kafka's tools.

    A cluster over several machines: `--joinable` on the first, `--join` on each other one, with
    copies of the files that the first prints. The brokers of a machine that joins have ids from the
    coordinator, so that they never clash, and keep them. The rack of a broker is its machine. Each
    machine can stop and restart by itself.

    Prints `console URL` as soon as the console answers (see `ottla console`); with --secure the
    address has a token. It listens on this machine only.

    \b
    Examples:
      ottla up
      ottla up --secure
      ottla up --secure --joinable --advertised-host first.example
      ottla up --secure --join first.example:2181
      ottla up --brokers 5 --dir /var/lib/ottla --port 19092 --override num.partitions=6
    """
    from ottla.cli.up.cluster_resources import claimed
    from ottla.cli.up.preparing import Wanted, check_options, prepare
    from ottla.cli.up.running import run_until_signal

    wanted = Wanted(
        directory=directory,
        broker_count=brokers,
        port=port,
        coordinator_port=coordinator_port,
        overrides=parse_settings(override),
        is_secure=secure,
        advertised_host=advertised_host,
        is_joinable=joinable,
        join=join,
        is_json=json,
    )
    check_options(wanted)
    with claimed(directory):
        run_until_signal(
            prepare(wanted),
            may_restart=restart,
            is_json=json,
            console_port=(CONSOLE_PORT if port else 0) if console else None,
        )
