"""`ottla acls`: access control entries (composition)."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import run_admin
from ottla.cli.failure import guarded, usage_error
from ottla.cli.options import Bootstrap, CommandConfig, Json
from ottla.cli.terminal import print_json, print_line, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkawire.acl import AclBinding, Operation
    from ottla.cli.acl_choice import Resources, Subjects
    from ottla.cli.text import JsonValue
    from ottla.client.admin.admin import Admin

app = typer.Typer(no_args_is_help=True, help="List, add and remove access control entries.")


class Pattern(StrEnum):
    """Kinds of patterns, as the options name them."""

    ANY = "any"
    MATCH = "match"
    LITERAL = "literal"
    PREFIXED = "prefixed"


Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="A topic, or `*` for all; repeatable."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="GROUP", help="A group, or `*` for all; repeatable."),
]
TransactionalIds = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id; repeatable."),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
PatternOption = Annotated[
    Pattern,
    typer.Option(
        "--resource-pattern-type",
        help="literal: that name. prefixed: names that begin with it. any: entries of both. "
        "match: all entries that apply to the name.",
    ),
]
Allowed = Annotated[
    list[str] | None,
    typer.Option(metavar="User:NAME", help="Allow this principal; `User:*` is everybody."),
]
Denied = Annotated[
    list[str] | None,
    typer.Option(metavar="User:NAME", help="Deny this principal, whatever else allows it."),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="Allow from this address only; default: from all."),
]
DeniedHosts = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="Deny from this address only; default: from all."),
]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", metavar="NAME", help="Read, Write, ...; default: All."),
]
Producer = Annotated[
    bool, typer.Option("--producer", help="Write, Describe and Create on the topics.")
]
Consumer = Annotated[
    bool, typer.Option("--consumer", help="Read and Describe on the topics, Read on the groups.")
]
Idempotent = Annotated[
    bool, typer.Option("--idempotent", help="With --producer: IdempotentWrite on the cluster.")
]


@app.command("list")
@guarded
def list_entries(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    resource_pattern_type: PatternOption = Pattern.ANY,
    principal: Annotated[
        list[str] | None,
        typer.Option(metavar="User:NAME", help="Only entries of this principal; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print entries, all of them without an option.

    \b
    Examples:
      ottla acls list
      ottla acls list --topic orders --resource-pattern-type match
    """
    from ottla.cli.acl_choice import filters

    resources = _resources(topic, group, transactional_id, cluster, resource_pattern_type)
    wanted = filters(resources, principal or ())

    async def work(admin: "Admin") -> "list[AclBinding]":
        return [found for each in wanted for found in await admin.describe_acls(each)]

    _print(dict.fromkeys(run_admin(bootstrap, command_config, work)), as_json=json)


@app.command()
@guarded
def add(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    resource_pattern_type: PatternOption = Pattern.LITERAL,
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    idempotent: Idempotent = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Add entries, for every combination of the options.

    \b
    Examples:
      ottla acls add --allow-principal User:alice --operation Read --topic orders
      ottla acls add --allow-principal User:bob --producer --topic bob- \\
        --resource-pattern-type prefixed
    """
    from ottla.cli.acl_choice import Role, bindings

    resources = _resources(topic, group, transactional_id, cluster, resource_pattern_type)
    subjects = _subjects(allow_principal, deny_principal, allow_host, deny_host)
    role = Role(is_producer=producer, is_consumer=consumer, is_idempotent=idempotent)
    try:
        wanted = bindings(resources, subjects, _operations(operation), role)
    except ValueError as error:
        usage_error(f"{error}.")

    run_admin(bootstrap, command_config, lambda admin: admin.create_acls(wanted))
    _print(wanted, as_json=json)


@app.command()
@guarded
def remove(
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    resource_pattern_type: PatternOption = Pattern.LITERAL,
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    idempotent: Idempotent = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Remove entries, chosen by the options of `add`; without a principal, all of the resources.

    \b
    Examples:
      ottla acls remove --allow-principal User:alice --operation Read --topic orders
      ottla acls remove --topic orders
    """
    from ottla.cli.acl_choice import Role, bindings, exact_filter, filters

    resources = _resources(topic, group, transactional_id, cluster, resource_pattern_type)
    subjects = _subjects(allow_principal, deny_principal, allow_host, deny_host)
    role = Role(is_producer=producer, is_consumer=consumer, is_idempotent=idempotent)
    chosen = any((allow_principal, deny_principal, allow_host, deny_host, operation, role))
    try:
        if chosen:
            found = bindings(resources, subjects, _operations(operation), role)
            wanted = [exact_filter(each) for each in found]
        elif any(resources.named()):
            wanted = filters(resources, ())
        else:
            usage_error("name a resource: --topic, --group, --transactional-id or --cluster.")
    except ValueError as error:
        usage_error(f"{error}.")

    _print(
        run_admin(bootstrap, command_config, lambda admin: admin.delete_acls(wanted)), as_json=json
    )


def _resources(
    topics: list[str] | None,
    groups: list[str] | None,
    transactional_ids: list[str] | None,
    is_cluster: bool,
    pattern: Pattern,
) -> "Resources":
    from kafkawire.acl import PatternType
    from ottla.cli.acl_choice import Resources

    return Resources(
        topics=topics or (),
        groups=groups or (),
        transactional_ids=transactional_ids or (),
        is_cluster=is_cluster,
        pattern_type=PatternType[pattern.name],
    )


def _subjects(
    allowed: list[str] | None,
    denied: list[str] | None,
    allowed_hosts: list[str] | None,
    denied_hosts: list[str] | None,
) -> "Subjects":
    from ottla.cli.acl_choice import Subjects

    return Subjects(
        allowed=allowed or (),
        denied=denied or (),
        allowed_hosts=allowed_hosts or (),
        denied_hosts=denied_hosts or (),
    )


def _operations(names: list[str] | None) -> "list[Operation]":
    from kafkawire.acl import Operation

    return [Operation.parse(name) for name in names or ()]


def _print(bindings: "Iterable[AclBinding]", *, as_json: bool) -> None:
    found = sorted(bindings, key=lambda each: (str(each.pattern), str(each.entry)))
    if as_json:
        print_json([_to_json(each) for each in found])
        return
    if not found:
        print_line("no entries")
        return
    rows = [
        (
            pattern.resource_type.title,
            pattern.name,
            pattern.pattern_type.title,
            entry.permission.title,
            entry.principal,
            entry.host,
            entry.operation.title,
        )
        for pattern, entry in found
    ]
    columns = ("resource", "name", "pattern", "permission", "principal", "host", "operation")
    print_table(columns, rows)


def _to_json(binding: "AclBinding") -> "JsonValue":
    pattern, entry = binding
    return {
        "resource_type": pattern.resource_type.title,
        "name": pattern.name,
        "pattern_type": pattern.pattern_type.title,
        "permission": entry.permission.title,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.title,
    }
