"""`ottla quotas`: lists and changes the quotas of users, clients and addresses (composition)."""

from typing import Annotated

import typer

from ottla.cli.command_config import run_admin
from ottla.cli.failure import guarded, usage_error
from ottla.cli.options import Bootstrap, CommandConfig, Json
from ottla.cli.terminal import print_done, print_json, print_table

app = typer.Typer(no_args_is_help=True, help="List and change quotas of clients.")

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="NAME", help="A client id.")]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="A client's address.")]
Default = Annotated[
    list[str] | None,
    typer.Option("--default", metavar="KIND", help="The default of user, client-id or ip."),
]


@app.command("list")
@guarded
def list_quotas(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print quotas, by default of all users, clients and addresses.

    \b
    Examples:
      ottla quotas list
      ottla quotas list --user alice
      ottla quotas list --default client-id
    """
    from ottla.cli.quota_choice import to_json, to_rows

    entity = _entity(user, client_id, ip, default)
    quotas = run_admin(
        bootstrap, command_config, lambda admin: admin.describe_client_quotas(entity)
    )
    if json:
        print_json(to_json(quotas))
        return
    print_table(("entity", "quota", "value"), to_rows(quotas))


@app.command()
@guarded
def alter(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=NUMBER", help="Set this quota; repeatable."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="KEY", help="Remove this quota; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Set and remove quotas of a user, a client id, a user's client, or an address.

    Keys are producer_byte_rate and consumer_byte_rate (bytes per second and broker),
    request_percentage, controller_mutation_rate, and for addresses connection_creation_rate.

    \b
    Examples:
      ottla quotas alter --user alice --set producer_byte_rate=1000000
      ottla quotas alter --default client-id --set request_percentage=50
      ottla quotas alter --user alice --client-id app --delete consumer_byte_rate
    """
    from ottla.cli.quota_choice import entity_text, parse_changes

    entity = _entity(user, client_id, ip, default)
    if not entity:
        usage_error("name the entity: --user, --client-id, --ip or --default.")
    try:
        changes = parse_changes(settings or (), delete or ())
    except ValueError as error:
        usage_error(f"{error}.")
    run_admin(bootstrap, command_config, lambda admin: admin.alter_client_quotas(entity, changes))
    print_done("changed", [entity_text(entity)], as_json=json)


def _entity(
    user: str | None, client_id: str | None, ip: str | None, default: list[str] | None
) -> dict[str, str | None]:
    from ottla.cli.quota_choice import parse_entity

    try:
        return parse_entity({"user": user, "client-id": client_id, "ip": ip}, default or ())
    except ValueError as error:
        usage_error(f"{error}.")
