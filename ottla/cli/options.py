"""Options that several commands share (decision)."""

from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

PROFILE: ContextVar[str | None] = ContextVar("profile", default=None)
"""The profile that `ottla --profile NAME` chooses for its command."""


class LayoutName(StrEnum):
    """Form of the nodes of a group in the coordinator."""

    KAFKA = "kafka"
    JAFKA = "jafka"


def named_path(text: str | Path) -> Path:
    """Return the path that an option names, which a variable without a value does not.

    Raises:
        typer.BadParameter: the text is empty.
    """
    if not str(text):
        raise typer.BadParameter("an empty text names no path; for this directory, give .")
    return Path(text)


# The limits of the protocol; brokers have lower ones.
MAX_PARTITIONS: Final = 2**31 - 1
MAX_REPLICATION_FACTOR: Final = 2**15 - 1
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_LOGIN: Final = "OTTLA_COORDINATOR_LOGIN names a file with a login at it."

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT[,...]",
        envvar="OTTLA_BOOTSTRAP",
        help="Brokers to connect to first, of Ottla or of Kafka.",
        show_default=DEFAULT_BOOTSTRAP,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="OTTLA_COMMAND_CONFIG",
        help="Properties of the connection: TLS, user and password, in Kafka's or kcat's names.",
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT[,...][/CHROOT]",
        help="Coordinator where the group's members meet, as Kafka's old consumers; it lists the "
        f"brokers, too. {_LOGIN}",
    ),
]
RequiredCoordinator = Annotated[
    str,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT[,...][/CHROOT]",
        help=f"Coordinator where the group's members meet; it lists the brokers, too. {_LOGIN}",
    ),
]
BrokerList = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT[,...][/CHROOT]",
        help="Coordinator that lists the brokers and partitions, as for Jafka's producer. "
        f"{_LOGIN}",
    ),
]
GroupLayout = Annotated[
    LayoutName,
    typer.Option("--layout", help="With --coordinator: form of the group's nodes."),
]
BrokerLayout = Annotated[
    LayoutName,
    typer.Option("--layout", help="With --coordinator: form of the brokers' nodes."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Same as --format json.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="Set this config; repeatable."),
]


def parse_settings(pairs: list[str] | None) -> dict[str, str]:
    """Return the `KEY=VALUE` pairs as a mapping.

    Raises:
        typer.BadParameter: a pair has no `=`, or no key.
    """
    settings: dict[str, str] = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not of the form KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings
