"""`ottla users`: users that log in by SCRAM (composition)."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import run_admin
from ottla.cli.failure import CommandError, guarded
from ottla.cli.options import Bootstrap, CommandConfig, Json
from ottla.cli.terminal import print_done, print_json, print_line, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.cli.text import JsonValue
    from ottla.client.admin.admin import Admin

    Users = Mapping[str, Mapping[str, int]]

app = typer.Typer(no_args_is_help=True, help="List, create, alter and delete SCRAM users.")
# As `ottla.client.admin_model.SCRAM_ITERATIONS`, which would be slow to import here.
DEFAULT_ITERATIONS = 8_192


class Mechanism(StrEnum):
    """SCRAM mechanisms."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
MechanismOption = Annotated[
    list[Mechanism] | None,
    typer.Option(
        "--mechanism", case_sensitive=False, help="Repeatable; default: SCRAM-SHA-512 alone."
    ),
]
Iterations = Annotated[
    int, typer.Option(help="Hashes that each login takes; brokers allow 4096 to 16384.")
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Read the password from the first line of FILE, or of standard input if it is `-`.",
    ),
]


@app.command("list")
@guarded
def list_users(
    bootstrap: Bootstrap = None, command_config: CommandConfig = None, json: Json = False
) -> None:
    """Print all users with their mechanisms.

    \b
    Example:
      ottla users list
    """

    _print(
        run_admin(bootstrap, command_config, lambda admin: admin.describe_user_scram_credentials()),
        as_json=json,
    )


@app.command()
@guarded
def describe(
    user: User,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the mechanisms of a user.

    \b
    Example:
      ottla users describe alice
    """

    _print(
        run_admin(
            bootstrap, command_config, lambda admin: admin.describe_user_scram_credentials([user])
        ),
        as_json=json,
    )


@app.command()
@guarded
def create(
    user: User,
    mechanism: MechanismOption = None,
    iterations: Iterations = DEFAULT_ITERATIONS,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Create a user.

    The password is typed, or comes from --password-file or the variable OTTLA_USER_PASSWORD. It is
    hashed before it is sent. A new user has no rights on a cluster with an authorizer: `ottla acls`
    grants them.

    \b
    Examples:
      ottla users create alice
      ottla users create bob --mechanism SCRAM-SHA-256 --password-file bob.password
    """
    from ottla.cli.password import read_password

    password = read_password(password_file, user)

    async def work(admin: "Admin") -> None:
        if await _mechanisms(admin, user):
            raise CommandError(f"user {user} exists: `ottla users alter` sets a password.")
        await _set(admin, user, mechanism, iterations, password)

    run_admin(bootstrap, command_config, work)
    print_done("created", [user], as_json=json)


@app.command()
@guarded
def alter(
    user: User,
    mechanism: MechanismOption = None,
    iterations: Iterations = DEFAULT_ITERATIONS,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Set the password of a user, or add a mechanism.

    Without --mechanism, all mechanisms of the user get the new password. Connections that exist
    already are not closed.

    \b
    Examples:
      ottla users alter alice
      ottla users alter alice --mechanism SCRAM-SHA-256 --password-file - < alice.password
    """
    from ottla.cli.password import read_password

    password = read_password(password_file, user)

    async def work(admin: "Admin") -> None:
        known = await _mechanisms(admin, user)
        if not known:
            raise CommandError(f"user {user} does not exist: `ottla users create` makes it.")
        await _set(admin, user, mechanism or known, iterations, password)

    run_admin(bootstrap, command_config, work)
    print_done("altered", [user], as_json=json)


@app.command()
@guarded
def delete(
    user: User,
    mechanism: MechanismOption = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Delete a user, or with --mechanism only that way to log in.

    Connections that exist already are not closed, and the access control entries stay.

    \b
    Example:
      ottla users delete alice
    """
    from ottla.client.admin_model import ScramDeletion

    async def work(admin: "Admin") -> None:
        chosen = mechanism or (await admin.describe_user_scram_credentials([user]))[user]
        await admin.alter_user_scram_credentials(
            [ScramDeletion(user=user, mechanism=str(each)) for each in chosen]
        )

    run_admin(bootstrap, command_config, work)
    print_done("deleted", [user], as_json=json)


async def _mechanisms(admin: "Admin", user: str) -> list[Mechanism]:
    """Return the mechanisms of a user, none if there is no such user."""
    from kafkawire.errors import ErrorCode
    from ottla.client.errors import BrokerError

    try:
        found = (await admin.describe_user_scram_credentials([user]))[user]
    except BrokerError as error:
        if error.code != ErrorCode.RESOURCE_NOT_FOUND:
            raise
        return []
    return [each for each in Mechanism if each in found]


async def _set(
    admin: "Admin", user: str, mechanisms: list[Mechanism] | None, iterations: int, password: str
) -> None:
    from ottla.client.admin_model import ScramUpsertion

    await admin.alter_user_scram_credentials(
        [
            ScramUpsertion(user=user, mechanism=each, password=password, iterations=iterations)
            for each in mechanisms or [Mechanism.SHA_512]
        ]
    )


def _print(users: "Users", *, as_json: bool) -> None:
    if as_json:
        found: list[JsonValue] = [
            {
                "user": user,
                "credentials": [
                    {"mechanism": mechanism, "iterations": iterations}
                    for mechanism, iterations in sorted(mechanisms.items())
                ],
            }
            for user, mechanisms in sorted(users.items())
        ]
        print_json(found)
        return
    if not users:
        print_line("no users")
        return
    rows = [
        (user, mechanism, iterations)
        for user, mechanisms in sorted(users.items())
        for mechanism, iterations in sorted(mechanisms.items())
    ]
    print_table(("user", "mechanism", "iterations"), rows)
