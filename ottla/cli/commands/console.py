"""`ottla console`: pages about a cluster in the browser (composition)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import cluster_access
from ottla.cli.failure import CommandError, guarded, usage_error
from ottla.cli.options import Bootstrap, CommandConfig

if TYPE_CHECKING:
    from ottla.console.access.address import ListenAddress

DEFAULT_LISTEN = "127.0.0.1:9021"
TOKEN_VARIABLE = "OTTLA_CONSOLE_TOKEN"


@guarded
def console(
    bootstrap: Bootstrap = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="IP:PORT", help="Address of the pages.")
    ] = DEFAULT_LISTEN,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the pages in the default browser.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Turn off all changes of the cluster.")
    ] = False,
    log_dir: Annotated[
        list[Path] | None,
        typer.Option(
            "--log-dir", metavar="DIR", help="Show the segments in this log directory; repeatable."
        ),
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option("--reports", metavar="DIR", help="Show the verdicts of audits below DIR."),
    ] = None,
    expose: Annotated[
        bool,
        typer.Option("--expose", help="Allow an address that other machines reach."),
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar=TOKEN_VARIABLE,
            help="Token that a browser needs, 16 characters or more. Prefer the variable: other "
            "users of this machine can read arguments.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Answer under this name, beside IP addresses and localhost; repeatable.",
        ),
    ] = None,
    any_port: Annotated[
        bool, typer.Option("--any-port", help="Use a free port if the port is taken.")
    ] = False,
    command_config: CommandConfig = None,
) -> None:
    """Show a cluster of Ottla or Kafka in the browser.

    Prints `console URL`, and runs until Ctrl-C. Brokers, topics, groups and their lag over time,
    records with search and live tail, segments, configs and audits. Needs the extra `console`.

    Without a token, every program of this machine can use the console with its rights.

    \b
    Examples:
      ottla console --open
      ottla console --bootstrap kafka-1:9092 --read-only
      ottla console --listen 0.0.0.0:9021 --expose --allow-host console.example.com
    """
    access = cluster_access(bootstrap, command_config)
    address = _address(listen, may_expose=expose, token=token)
    _require_extra()
    from ottla.cli.console_run import run_console
    from ottla.console.web.serving import ConsoleOptions

    options = ConsoleOptions(
        bootstrap=access.bootstrap,
        security=access.security,
        listen=address,
        token=token,
        host_names=tuple(allow_host or ()),
        is_read_only=read_only,
        log_dirs=tuple(_directories("--log-dir", log_dir or ())),
        reports=next(iter(_directories("--reports", () if reports is None else (reports,))), None),
    )
    run_console(options, opens_browser=open_browser, or_any_port=any_port)


def _address(listen: str, *, may_expose: bool, token: str | None) -> "ListenAddress":
    from ottla.console.access.address import parse_listen
    from ottla.console.access.token import MIN_TOKEN_CHARACTERS

    try:
        address = parse_listen(listen)
    except ValueError as error:
        usage_error(f"--listen: {error}.")
    if token is not None and len(token) < MIN_TOKEN_CHARACTERS:
        usage_error(f"--token needs at least {MIN_TOKEN_CHARACTERS} characters, got {len(token)}.")
    if not address.is_loopback and not (may_expose and token):
        usage_error(
            f"{address} can be reached by other machines: add --expose, and set a token in "
            f"{TOKEN_VARIABLE}."
        )
    return address


def _directories(option: str, directories: Sequence[Path]) -> Sequence[Path]:
    for directory in directories:
        if not directory.is_dir():
            usage_error(f"{option}: {directory} is not a directory.")
    return directories


def _require_extra() -> None:
    from ottla.cli.console_extra import missing_package

    if (package := missing_package()) is not None:
        raise CommandError(
            f"the console needs {package}: install it with `pip install 'ottla[console]'`."
        )
