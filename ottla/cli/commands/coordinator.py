"""`ottla coordinator`: the coordinator daemon, and its export to ZooKeeper (composition)."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ottla.cli.failure import guarded

app = typer.Typer()

DEFAULT_DATA_DIR = Path("coordinator-data")
DataDir = Annotated[Path, typer.Option(help="Directory of the log and the snapshots.")]


@app.callback(invoke_without_command=True)
@guarded
def coordinator(
    context: typer.Context,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT")] = "127.0.0.1:2181",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    tick: Annotated[
        int, typer.Option(metavar="MS", help="Lateness of the loop that counts as a stall.")
    ] = 100,
    min_session_timeout: Annotated[int | None, typer.Option(metavar="MS")] = None,
    max_session_timeout: Annotated[int, typer.Option(metavar="MS")] = 60_000,
    linger: Annotated[
        int,
        typer.Option(
            metavar="MS",
            help="Time that a session outlives its connection, if its client requests it.",
        ),
    ] = 250,
    max_connections_per_address: Annotated[
        int, typer.Option(help="Like ZooKeeper's maxClientCnxns; 0 means no limit.")
    ] = 60,
    four_letter_words: Annotated[
        str,
        typer.Option(
            metavar="WORD,...", help="Allowed words, like 4lw.commands.whitelist; * for all."
        ),
    ] = "ruok,srvr",
    passwords: Annotated[
        str, typer.Option(help="keyed; or zookeeper, with which sessions survive an export.")
    ] = "keyed",
    super_digest: Annotated[str | None, typer.Option(metavar="USER:SHA1")] = None,
    super_digest_file: Annotated[
        Path | None, typer.Option(help="File with the digest, which the process list then hides.")
    ] = None,
    login_config: Annotated[
        Path | None,
        typer.Option(help="Java login configuration whose section Server has the users of SASL."),
    ] = None,
    super_user: Annotated[
        list[str] | None, typer.Option(help="User of SASL that bypasses every ACL.")
    ] = None,
    x509_super_user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Certificate that bypasses every ACL.")
    ] = None,
    enforce_auth_schemes: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEME,...", help="Serve only clients with an identity of digest, sasl, x509."
        ),
    ] = None,
    tls_listen: Annotated[str | None, typer.Option(metavar="HOST:PORT")] = None,
    tls_cert: Annotated[Path | None, typer.Option()] = None,
    tls_key: Annotated[Path | None, typer.Option()] = None,
    tls_key_password_file: Annotated[Path | None, typer.Option()] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(help="CA of client certificates, which are then required.")
    ] = None,
    tls_client_auth: Annotated[
        str | None, typer.Option(help="With a CA: need (default), or want.")
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz over HTTP."),
    ] = None,
    truncate_at: Annotated[
        str | None,
        typer.Option(metavar="FILE:OFFSET", help="Cut a damaged log at this place, and exit."),
    ] = None,
) -> None:
    """Run the coordinator until Ctrl-C or SIGTERM.

    It serves ZooKeeper's clients and tools. Every acknowledged change is on disk.

    \b
    Example:
      ottla coordinator --listen 127.0.0.1:2181 --data-dir /var/lib/ottla/coordinator
    """
    if context.invoked_subcommand is not None:
        # Each subcommand has its own --data-dir.
        return
    options = {
        "listen": listen,
        "data-dir": data_dir,
        "tick": tick,
        "min-session-timeout": min_session_timeout,
        "max-session-timeout": max_session_timeout,
        "linger": linger,
        "max-connections-per-address": max_connections_per_address,
        "four-letter-words": four_letter_words,
        "passwords": passwords,
        "super-digest": super_digest,
        "super-digest-file": super_digest_file,
        "login-config": login_config,
        "x509-super-user": x509_super_user,
        "enforce-auth-schemes": enforce_auth_schemes,
        "tls-listen": tls_listen,
        "tls-cert": tls_cert,
        "tls-key": tls_key,
        "tls-key-password-file": tls_key_password_file,
        "tls-ca": tls_ca,
        "tls-client-auth": tls_client_auth,
        "metrics-listen": metrics_listen,
        "truncate-at": truncate_at,
    }
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    _become_the_daemon([*given, *(f"--super-user={user}" for user in super_user or ())])


def _become_the_daemon(arguments: list[str]) -> NoReturn:
    """Replace this process by the daemon, which saves the 20 MB of the command line's libraries.

    The new process finds our packages through PYTHONPATH and ignores the working directory (-P),
    which may contain an unrelated folder called `coordination`.
    """
    import coordination

    ours = str(Path(coordination.__file__).parents[1])
    known = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (ours, known)))}
    sys.stdout.flush()
    command = [sys.executable, "-P", "-m", "coordination", *arguments]
    os.execve(sys.executable, command, environment)


@app.command("export-zookeeper")
@guarded
def export_zookeeper(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Empty data directory of a ZooKeeper server.")
    ],
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Write the state as a native ZooKeeper snapshot.

    The coordinator must be stopped. Versions, sequence counters and ephemeral nodes are preserved.
    Sessions re-attach if the coordinator ran with --passwords zookeeper.

    \b
    Example:
      ottla coordinator export-zookeeper /var/lib/zookeeper --data-dir coordinator-data
    """
    from coordination.__main__ import main

    raise typer.Exit(main([f"--data-dir={data_dir}", f"--export-zookeeper={directory}"]))
