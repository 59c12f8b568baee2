"""`ottla groups`: lists, describes, resets and deletes consumer groups (composition)."""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import run_admin
from ottla.cli.failure import guarded, usage_error
from ottla.cli.options import Bootstrap, CommandConfig, Json
from ottla.cli.terminal import print_done, print_json, print_line, print_table

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

app = typer.Typer(no_args_is_help=True, help="List, describe, reset and delete consumer groups.")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@app.command("list")
@guarded
def list_groups(
    bootstrap: Bootstrap = None, command_config: CommandConfig = None, json: Json = False
) -> None:
    """Print all groups with their states.

    \b
    Example:
      ottla groups list
    """

    groups = run_admin(bootstrap, command_config, lambda admin: admin.list_groups())
    if json:
        print_json(
            [
                {
                    "group_id": group.group_id,
                    "protocol_type": group.protocol_type,
                    "state": group.state,
                }
                for group in groups
            ]
        )
        return
    rows = [[group.group_id, group.state or "-", group.protocol_type or "-"] for group in groups]
    print_table(("group", "state", "type"), rows)


@app.command()
@guarded
def describe(
    group: Group,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the offsets, lag and members of a group.

    For each partition: committed offset, log end offset, lag and owning member.

    \b
    Example:
      ottla groups describe billing
    """
    from ottla.cli.group_report import describe_group, to_json, to_rows

    report = run_admin(bootstrap, command_config, lambda admin: describe_group(admin, group))
    if json:
        print_json(to_json(report))
        return
    members = len(report.group.members)
    print_line(f"{group}: {report.group.state}, {members} members {report.group.assignor}".rstrip())
    columns = ("topic", "partition", "committed", "end", "lag", "member", "host")
    print_table(columns, to_rows(report))


@app.command("reset-offsets")
@guarded
def reset_offsets(
    group: Group,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="beginning, end, an offset, or a time like 2026-01-31T12:00:00Z.",
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC", help="Default: all topics with committed offsets."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the new offsets without committing them.")
    ] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Set the committed offsets of a group.

    The group must have no members.

    \b
    Example:
      ottla groups reset-offsets billing --to 2026-01-31T12:00:00Z --topic orders --dry-run
    """
    from ottla.cli.group_report import reset
    from ottla.cli.input_record import InputError
    from ottla.cli.start_point import parse_start_point

    try:
        start = parse_start_point(to)
    except InputError as error:
        usage_error(f"--to: {error}.")

    offsets = run_admin(
        bootstrap,
        command_config,
        lambda admin: reset(admin, group, start, topic or (), is_dry_run=dry_run),
    )
    if json:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, "offset": offset}
                for each, offset in sorted(offsets.items())
            ]
        )
        return
    print_table(
        ("topic", "partition", "offset"),
        [(each.topic, each.partition, offset) for each, offset in sorted(offsets.items())],
    )


@app.command()
@guarded
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="Names of groups.")],
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Delete groups with all their offsets.

    The groups must have no members.

    \b
    Example:
      ottla groups delete billing
    """

    async def work(admin: "Admin") -> None:
        for group in groups:
            await admin.delete_group(group)
            deleted.append(group)

    deleted: list[str] = []
    try:
        run_admin(bootstrap, command_config, work)
    finally:
        print_done("deleted", deleted, as_json=json)
