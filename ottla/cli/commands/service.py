"""`ottla service`: unit files with which systemd runs our daemons (composition)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.failure import CommandError, guarded, usage_error

if TYPE_CHECKING:
    from ottla.cli.service_unit import Unit

app = typer.Typer(
    no_args_is_help=True, help="Write systemd unit files for a broker or a coordinator."
)

UNIT_DIRECTORY = Path("/etc/systemd/system")
User = Annotated[str, typer.Option(help="The user that the daemon runs as; it must exist.")]
Install = Annotated[
    bool, typer.Option("--install", help="Write the file to DIRECTORY, instead of printing it.")
]
Directory = Annotated[Path, typer.Option(help="Directory of the unit files.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a different file.")]


@app.command("broker")
@guarded
def broker(
    properties: Annotated[
        Path, typer.Argument(metavar="SERVER.PROPERTIES", help="The broker's configuration.")
    ] = Path("/etc/ottla/server.properties"),
    user: User = "ottla",
    with_coordinator: Annotated[
        bool,
        typer.Option("--with-coordinator", help="Start after the coordinator of this machine."),
    ] = False,
    install: Install = False,
    directory: Directory = UNIT_DIRECTORY,
    force: Force = False,
) -> None:
    """Print, or install, the unit of a broker.

    systemd regards the broker as started once it serves clients, stops it in order, and restarts it
    when it dies or hangs.

    \b
    Examples:
      ottla service broker
      ottla service broker /etc/ottla/server.properties --user kafka --install
    """
    from ottla.cli.service_unit import broker_unit

    try:
        unit = broker_unit(
            sys.executable, str(properties.absolute()), user, after_coordinator=with_coordinator
        )
    except ValueError as error:
        usage_error(f"{error}.")
    _deliver(unit, directory, is_installed=install, may_replace=force)


@app.command("coordinator")
@guarded
def coordinator(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT")] = "127.0.0.1:2181",
    data_dir: Annotated[Path, typer.Option(help="Directory of its log and snapshots.")] = Path(
        "/var/lib/ottla/coordinator"
    ),
    user: User = "ottla",
    install: Install = False,
    directory: Directory = UNIT_DIRECTORY,
    force: Force = False,
) -> None:
    """Print, or install, the unit of a coordinator.

    \b
    Example:
      ottla service coordinator --listen 0.0.0.0:2181 --install
    """
    from ottla.cli.service_unit import coordinator_unit

    try:
        unit = coordinator_unit(sys.executable, listen, str(data_dir.absolute()), user)
    except ValueError as error:
        usage_error(f"{error}.")
    _deliver(unit, directory, is_installed=install, may_replace=force)


def _deliver(unit: "Unit", directory: Path, *, is_installed: bool, may_replace: bool) -> None:
    if not is_installed:
        sys.stdout.write(unit.text)
        return
    path = directory / unit.name
    if path.exists() and path.read_bytes() != unit.text.encode() and not may_replace:
        raise CommandError(f"{path} exists and differs: compare them, or add --force")
    path.write_text(unit.text, encoding="utf-8")
    sys.stdout.write(f"written: {path}\nnext: systemctl daemon-reload\n")
    sys.stdout.write(f"      systemctl enable --now {unit.name}\n")
