"""`ottla up`: runs a whole cluster on this machine (composition)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.failure import guarded, usage_error
from ottla.cli.options import Json, parse_settings

if TYPE_CHECKING:
    from ottla.cli.up.plan import ClusterPlan
    from ottla.cli.up.secured import Security

DEFAULT_DIRECTORY = Path("ottla-data")
MAX_BROKERS = 100
CONSOLE_PORT = 9021


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
    secure: Annotated[
        bool,
        typer.Option("--secure", help="TLS, passwords and access control, in DIR/security."),
    ] = False,
    advertised_host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="With --secure: listen on all interfaces; clients find the brokers at HOST.",
        ),
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

    Prints `console URL` as soon as the console answers (see `ottla console`); with --secure the
    address has a token. It listens on this machine only.

    \b
    Examples:
      ottla up
      ottla up --secure
      ottla up --brokers 5 --dir /var/lib/ottla --port 19092 --override num.partitions=6
    """
    from ottla.cli.up.coordinator_login import write_login
    from ottla.cli.up.ground import claimed
    from ottla.cli.up.running import run_until_signal
    from ottla.cli.up.security_folder import refuse_secured, write_configurations

    if advertised_host is not None:
        _check_advertised(advertised_host, is_secure=secure)
    with claimed(directory):
        security = None
        if secure:
            security = _security(directory, brokers, advertised_host, as_json=json)
        else:
            refuse_secured(directory)
        plan = _plan(
            directory,
            broker_count=brokers,
            port=port,
            coordinator_port=coordinator_port,
            overrides=parse_settings(override),
            login_config=write_login(directory).absolute(),
            security=security,
            advertised_host=advertised_host,
        )
        if secure:
            write_configurations(plan)
        run_until_signal(
            plan,
            may_restart=restart,
            is_json=json,
            console_port=(CONSOLE_PORT if port else 0) if console else None,
        )


def _check_advertised(host: str, *, is_secure: bool) -> None:
    from ottla.cli.up.secured import is_host

    if not is_secure:
        usage_error("--advertised-host opens the brokers to the network: add --secure.")
    if not is_host(host):
        usage_error(f"--advertised-host must be a name or an address, got {host!r}.")


def _security(
    directory: Path, broker_count: int, advertised_host: str | None, *, as_json: bool
) -> "Security":
    from datetime import UTC, datetime

    from ottla.cli.up.report import report_json, report_line
    from ottla.cli.up.secured import hosts_of
    from ottla.cli.up.security_folder import open_security

    return open_security(
        directory,
        brokers=[f"broker-{number}" for number in range(1, broker_count + 1)],
        hosts=hosts_of(advertised_host),
        now=datetime.now(UTC),
        report=report_json if as_json else report_line,
    )


def _plan(
    directory: Path,
    *,
    broker_count: int,
    port: int,
    coordinator_port: int,
    overrides: dict[str, str],
    login_config: Path,
    security: "Security | None",
    advertised_host: str | None,
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
            login_config=login_config,
            security=security,
            advertised_host=advertised_host,
        )
    except ValueError as error:
        usage_error(str(error))
    require_free([*ports, *([coordinator_port] if coordinator_port and plan.coordinator else [])])
    return plan
