"""`ottla broker`: one broker, in this process. Composition."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.failure import guarded


class LogLevel(StrEnum):
    """How much a broker logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@guarded
def run_broker(
    properties: Annotated[
        Path | None,
        typer.Argument(metavar="SERVER.PROPERTIES", help="Kafka's configuration file."),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="KEY=VALUE", help="Replaces a key of the file."),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="The least that is logged.")] = LogLevel.INFO,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    It stops in order: finishes what it has begun, flushes, marks its directories clean.

    The keys are Kafka's. Without a file and overrides it listens on port 9092 of this machine.

    \b
    Example:
      ottla broker --override listeners=PLAINTEXT://127.0.0.1:9092 --override log.dirs=/tmp/ottla
    """
    from broker.__main__ import main

    arguments = [] if properties is None else [str(properties)]
    arguments += ["--log-level", log_level.value]
    for pair in override or ():
        arguments += ["--override", pair]
    raise typer.Exit(main(arguments))
