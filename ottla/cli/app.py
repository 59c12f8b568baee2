"""The `ottla` application (composition).

`ottla --help` has to be fast. Importing this module loads only typer and the commands' signatures;
each command imports its implementation inside its own function.
"""

import sys
from typing import Annotated

import typer

from ottla.cli.commands import (
    acls,
    audit,
    backup,
    broker,
    cluster,
    configs,
    console,
    consume,
    coordinator,
    export,
    groups,
    logs,
    perf,
    produce,
    profiles,
    quotas,
    service,
    topics,
    transactions,
    up,
    users,
    version,
)
from ottla.cli.options import PROFILE


def _options(
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", envvar="OTTLA_PROFILE", help="Cluster of your profiles file to use."
        ),
    ] = None,
) -> None:
    PROFILE.set(profile)


def make_app() -> typer.Typer:
    """Return the application; its help has panels and colours only on a terminal."""
    app = typer.Typer(
        name="ottla",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        help="Run, use and inspect a replicated log that speaks Kafka's protocol.",
        epilog="Start with: ottla up",
    )
    app.callback()(_options)
    app.command("up")(up.up)
    app.command("broker")(broker.run_broker)
    app.add_typer(service.app, name="service")
    app.add_typer(coordinator.app, name="coordinator")
    app.add_typer(topics.app, name="topics")
    app.add_typer(configs.app, name="configs")
    app.add_typer(groups.app, name="groups")
    app.add_typer(transactions.app, name="transactions")
    app.add_typer(cluster.app, name="cluster")
    app.add_typer(acls.app, name="acls")
    app.add_typer(users.app, name="users")
    app.add_typer(quotas.app, name="quotas")
    app.add_typer(profiles.app, name="profiles")
    app.command("produce")(produce.produce)
    app.command("consume")(consume.consume)
    app.add_typer(perf.app, name="perf")
    app.add_typer(logs.app, name="logs")
    app.command("audit")(audit.audit)
    app.command("export")(export.export)
    app.command("backup")(backup.backup)
    app.command("restore")(backup.restore)
    app.command("console")(console.console)
    app.command("version")(version.version)
    return app
