"""`ottla broker`: one broker, in this process (composition)."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.failure import guarded


class LogLevel(StrEnum):
    """Severity from which a broker logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@guarded
def run_broker(
    properties: Annotated[
        Path | None,
        typer.Argument(metavar="SERVER.PROPERTIES", help="Configuration file in Kafka's format."),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="KEY=VALUE", help="Replace a key of the file."),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Lowest level to log.")] = LogLevel.INFO,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    An orderly stop finishes pending requests, flushes the logs and marks the log directories clean.

    The configuration keys are Kafka's. By default the broker listens on port 9092 of this machine.

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
