"""`ottla groups verify`, `export-offsets`, `import-offsets`, `migrate` (composition).

They concern groups whose members meet in the coordinator.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from ottla.cli.failure import EXIT_FOUND, CommandError, guarded
from ottla.cli.options import CommandConfig, GroupLayout, Json, LayoutName, RequiredCoordinator
from ottla.cli.terminal import print_json, print_line, print_offsets

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


class Place(StrEnum):
    """Where offsets are kept."""

    KAFKA = "kafka"
    ZNODES = "znodes"


@guarded
def verify(
    group: Group,
    coordinator: RequiredCoordinator,
    layout: GroupLayout = LayoutName.KAFKA,
    json: Json = False,
) -> None:
    """Check that every partition has an owner in the group.

    An owner must be a member of the group.
    The exit code is 3 if one has not; a rebalance may be under way then.

    \b
    Example:
      ottla groups verify billing --coordinator 127.0.0.1:2181
    """
    from ottla.cli.old_groups import groups_access, run_groups

    access = groups_access(coordinator, layout, None, None)
    faults = run_groups(access, lambda groups: groups.admin.verify(group))
    if json:
        print_json({"group_id": group, "faults": [*faults]})
    else:
        for fault in faults:
            print_line(fault)
    if faults:
        raise CommandError(f"group {group} has {len(faults)} faults.", EXIT_FOUND)


@guarded
def export_offsets(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")],
    coordinator: RequiredCoordinator,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="GROUP", help="Default: all groups; repeatable."),
    ] = None,
) -> None:
    """Write the offsets of groups to a file.

    The file has the form of Kafka's ExportZkOffsets.

    \b
    Example:
      ottla groups export-offsets offsets.txt --coordinator 127.0.0.1:2181 --group billing
    """
    from ottla.cli.old_groups import groups_access, run_groups

    access = groups_access(coordinator, LayoutName.KAFKA, None, None)
    lines = run_groups(access, lambda groups: groups.admin.export_offsets(group or ()))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print_line(f"{len(lines)} offsets written to {file}")


@guarded
def import_offsets(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to read.")],
    coordinator: RequiredCoordinator,
    layout: GroupLayout = LayoutName.KAFKA,
) -> None:
    """Set the offsets of groups from a file.

    As Kafka's ImportZkOffsets does, but only for groups without members. Create the topics first.

    \b
    Example:
      ottla groups import-offsets offsets.txt --coordinator 127.0.0.1:2181
    """
    from ottla.cli.old_groups import groups_access, import_old, run_groups

    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not text in UTF-8.") from None
    access = groups_access(coordinator, layout, None, None)
    counts = run_groups(access, lambda groups: import_old(groups, lines))
    for name, count in sorted(counts.items()):
        print_line(f"{name}: {count} offsets")


@guarded
def migrate(
    group: Group,
    to: Annotated[Place, typer.Option("--to", help="Place to copy the offsets to.")],
    coordinator: RequiredCoordinator,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the offsets without copying them.")
    ] = False,
    command_config: CommandConfig = None,
    layout: GroupLayout = LayoutName.KAFKA,
    json: Json = False,
) -> None:
    """Copy offsets to or from the Kafka group of the same name.

    Neither may have members. The offsets of the source stay.

    \b
    Example:
      ottla groups migrate billing --to kafka --coordinator 127.0.0.1:2181 --dry-run
    """
    from ottla.cli.old_groups import groups_access, run_groups
    from ottla.cli.old_groups import migrate as copy

    access = groups_access(coordinator, layout, None, command_config)
    place: Literal["kafka", "znodes"] = "kafka" if to is Place.KAFKA else "znodes"
    offsets = run_groups(access, lambda groups: copy(groups, group, place, is_dry_run=dry_run))
    print_offsets(offsets.items(), as_json=json)
