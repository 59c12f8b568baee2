"""`ottla groups`: lists, describes, resets and deletes groups and their members (composition)."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ottla.cli.command_config import run_admin
from ottla.cli.commands import coordinated_groups
from ottla.cli.failure import guarded, usage_error
from ottla.cli.options import (
    Bootstrap,
    CommandConfig,
    Coordinator,
    GroupLayout,
    Json,
    LayoutName,
)
from ottla.cli.terminal import print_done, print_json, print_line, print_offsets, print_table

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin_model import GroupMember

NANOSECONDS_PER_MS: Final = 1_000_000

app = typer.Typer(no_args_is_help=True, help="List, describe, reset and delete consumer groups.")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@app.command("list")
@guarded
def list_groups(
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    coordinator: Coordinator = None,
    layout: GroupLayout = LayoutName.KAFKA,
    json: Json = False,
) -> None:
    """Print all groups with their states.

    \b
    Examples:
      ottla groups list
      ottla groups list --coordinator 127.0.0.1:2181
    """
    if coordinator is not None:
        from ottla.cli.old_groups import groups_access, run_groups

        access = groups_access(coordinator, layout, bootstrap, command_config)
        counts = run_groups(access, lambda groups: groups.admin.list_groups())
        if json:
            print_json([{"group_id": name, "members": counts[name]} for name in counts])
        else:
            print_table(("group", "members"), [[name, counts[name]] for name in counts])
        return
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
    coordinator: Coordinator = None,
    layout: GroupLayout = LayoutName.KAFKA,
    json: Json = False,
) -> None:
    """Print the offsets, lag and members of a group.

    For each partition: committed offset, log end offset, lag and owning member.

    \b
    Example:
      ottla groups describe billing
    """
    if coordinator is not None:
        from ottla.cli.old_groups import describe_old, groups_access, old_json, old_rows, run_groups

        access = groups_access(coordinator, layout, bootstrap, command_config)
        old = run_groups(access, lambda groups: describe_old(groups, group))
        if json:
            print_json(old_json(group, old))
            return
        print_line(f"{group}: {len(old.group.members)} members")
        old_columns = ("topic", "partition", "committed", "end", "lag", "member")
        print_table(old_columns, old_rows(old))
        return
    from ottla.cli.group_report import describe_group, to_json, to_rows

    report = run_admin(bootstrap, command_config, lambda admin: describe_group(admin, group))
    if json:
        print_json(to_json(report))
        return
    members = len(report.group.members)
    print_line(f"{group}: {report.group.state}, {members} members {report.group.assignor}".rstrip())
    columns = ("topic", "partition", "committed", "end", "lag", "member", "host")
    print_table(columns, to_rows(report))


@app.command()
@guarded
def members(
    group: Group,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Print the members of a group and their partitions.

    \b
    Example:
      ottla groups members billing
    """
    from ottla.cli.group_report import describe_existing, members_json, to_member_rows

    found = run_admin(bootstrap, command_config, lambda admin: describe_existing(admin, group))
    if json:
        print_json(members_json(found))
        return
    print_table(("member", "instance", "client", "host", "partitions"), to_member_rows(found))


@app.command("remove-members")
@guarded
def remove_members(
    group: Group,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="MEMBER", help="Member ids or instance ids. Default: all."),
    ] = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Remove members from a group, which then rebalances.

    A member that still runs joins again; stop it first.

    \b
    Example:
      ottla groups remove-members billing worker-7
    """
    from ottla.cli.group_report import chosen_members, describe_existing

    async def work(admin: "Admin") -> "list[GroupMember]":
        chosen = chosen_members(await describe_existing(admin, group), names or ())
        if chosen:
            await admin.remove_members(group, chosen)
        return chosen

    removed = run_admin(bootstrap, command_config, work)
    print_done("removed", [each.instance_id or each.member_id for each in removed], as_json=json)


@app.command("delete-offsets")
@guarded
def delete_offsets(
    group: Group,
    places: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:PARTITION]", help="Topics or partitions.")
    ],
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Delete committed offsets of a group.

    No member may be subscribed to the topics.

    \b
    Example:
      ottla groups delete-offsets billing orders:0
    """
    from ottla.cli.log_positions import named_partitions

    async def work(admin: "Admin") -> list[str]:
        partitions = await named_partitions(admin, places)
        await admin.delete_group_offsets(group, partitions)
        return [str(each) for each in partitions]

    print_done("deleted", run_admin(bootstrap, command_config, work), as_json=json)


@app.command("reset-offsets")
@guarded
def reset_offsets(
    group: Group,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="beginning, end, an offset, or a time like 2026-01-31T12:00:00Z.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(metavar="COUNT", help="Move each offset by this number of records."),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Go back to records of this age, such as 1h30m."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:PARTITION]",
            help="Default: all topics with committed offsets.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the new offsets without committing them.")
    ] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    coordinator: Coordinator = None,
    layout: GroupLayout = LayoutName.KAFKA,
    json: Json = False,
) -> None:
    """Set the committed offsets of a group.

    The group must have no members. Offsets outside of a log move to its beginning or end.

    \b
    Examples:
      ottla groups reset-offsets billing --to 2026-01-31T12:00:00Z --topic orders --dry-run
      ottla groups reset-offsets billing --shift-by -100 --topic orders:0
      ottla groups reset-offsets billing --by-duration 1h30m
    """
    from ottla.cli.group_report import reset
    from ottla.cli.input_record import InputError
    from ottla.cli.start_point import parse_reset_point

    now_ms = time.time_ns() // NANOSECONDS_PER_MS
    try:
        start = parse_reset_point(to, shift_by, by_duration, now_ms)
    except InputError as error:
        usage_error(f"{error}.")

    if coordinator is not None:
        from ottla.cli.old_groups import groups_access, reset_old, run_groups

        access = groups_access(coordinator, layout, bootstrap, command_config)
        changed = run_groups(
            access,
            lambda groups: reset_old(groups, group, start, topic or (), is_dry_run=dry_run),
        )
        print_offsets(changed.items(), as_json=json)
        return
    offsets = run_admin(
        bootstrap,
        command_config,
        lambda admin: reset(admin, group, start, topic or (), is_dry_run=dry_run),
    )
    print_offsets(offsets.items(), as_json=json)


@app.command()
@guarded
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="Names of groups.")],
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    coordinator: Coordinator = None,
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
        if coordinator is None:
            run_admin(bootstrap, command_config, work)
        else:
            from ottla.cli.old_groups import delete_old, groups_access, run_groups

            access = groups_access(coordinator, LayoutName.KAFKA, bootstrap, command_config)
            run_groups(access, lambda old: delete_old(old, groups, deleted))
    finally:
        print_done("deleted", deleted, as_json=json)


app.command("verify")(coordinated_groups.verify)
app.command("export-offsets")(coordinated_groups.export_offsets)
app.command("import-offsets")(coordinated_groups.import_offsets)
app.command("migrate")(coordinated_groups.migrate)
