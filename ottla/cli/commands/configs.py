"""`ottla configs`: configs of topics and brokers (composition)."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import run_admin
from ottla.cli.failure import CommandError, guarded, usage_error
from ottla.cli.options import Bootstrap, CommandConfig, Json, Setting, parse_settings
from ottla.cli.terminal import print_done, print_json, print_table

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin_model import ConfigEntry, ResourceType

app = typer.Typer(no_args_is_help=True, help="Describe and change configs of topics and brokers.")


class Kind(StrEnum):
    """Kinds of resources that have configs."""

    TOPIC = "topic"
    BROKER = "broker"


KindArgument = Annotated[Kind, typer.Argument(metavar="topic|broker", help="Kind of the resource.")]
ALL_BROKERS = "default"
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A topic's name, a broker's id, or `default` for the configs of all brokers.",
    ),
]
SOURCES = {1: "topic", 2: "broker", 3: "all brokers", 4: "file", 5: "default"}


@app.command()
@guarded
def describe(
    kind: KindArgument,
    name: Name,
    changed: Annotated[
        bool, typer.Option("--changed", help="Omit configs at their default.")
    ] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the effective configs.

    \b
    Examples:
      ottla configs describe topic orders
      ottla configs describe broker 1 --changed
      ottla configs describe broker default
    """

    async def work(admin: "Admin") -> "dict[str, ConfigEntry]":
        entity = await _entity(admin, kind, name)
        return await admin.describe_configs(_resource(kind), entity)

    entries = run_admin(bootstrap, command_config, work)
    shown = [entry for _, entry in sorted(entries.items()) if not (changed and entry.is_default)]
    if json:
        print_json(
            [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "source": SOURCES.get(entry.source, str(entry.source)),
                    "is_default": entry.is_default,
                    "is_read_only": entry.is_read_only,
                    "is_sensitive": entry.is_sensitive,
                }
                for entry in shown
            ]
        )
        return
    rows = [
        (
            entry.name,
            "(hidden)" if entry.is_sensitive else entry.value or "",
            SOURCES.get(entry.source, str(entry.source)),
        )
        for entry in shown
    ]
    print_table(("key", "value", "source"), rows)


@app.command()
@guarded
def alter(
    kind: KindArgument,
    name: Name,
    config: Setting = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Reset this config to its default; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Change configs of a topic or broker at run time.

    \b
    Examples:
      ottla configs alter topic orders --config retention.ms=3600000 --delete-config segment.ms
      ottla configs alter broker default --config log.retention.ms=86400000
    """
    changes: dict[str, str | None] = {**parse_settings(config)}
    changes.update(dict.fromkeys(delete_config or ()))
    if not changes:
        usage_error("nothing to change: give --config or --delete-config.")

    async def work(admin: "Admin") -> None:
        entity = await _entity(admin, kind, name)
        await admin.alter_configs(_resource(kind), entity, changes)

    run_admin(bootstrap, command_config, work)
    print_done("changed", [f"{kind} {name}"], as_json=json)


def _resource(kind: Kind) -> "ResourceType":
    from ottla.client.admin_model import ResourceType

    return ResourceType.TOPIC if kind is Kind.TOPIC else ResourceType.BROKER


async def _entity(admin: "Admin", kind: Kind, name: str) -> str:
    """Return the resource name in the protocol, which is empty for all brokers.

    Raises:
        CommandError: the broker is not in the cluster.
    """
    if kind is Kind.TOPIC:
        return name
    if name == ALL_BROKERS:
        return ""
    # The client would wait for the broker to return, but a mistyped id should fail at once.
    alive = [str(broker) for broker in sorted((await admin.describe_cluster()).brokers)]
    if name not in alive:
        raise CommandError(f"no broker {name} in the cluster: it has brokers {', '.join(alive)}.")
    return name
