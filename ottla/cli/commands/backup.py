"""`ottla backup` and `ottla restore`: copies of log directories (composition)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.failure import EXIT_FOUND, CommandError, guarded, usage_error
from ottla.cli.options import Json
from ottla.cli.terminal import print_json, print_line

if TYPE_CHECKING:
    from ottla.cli.backup.manifest import Manifest


@guarded
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="A new directory for the backup.")
    ],
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Log directories, and the data directory of a coordinator.",
            exists=True,
            file_okay=False,
        ),
    ],
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Check the copied logs afterwards.")
    ] = True,
    json: Json = False,
) -> None:
    """Copy log directories, of a stopped or a running broker.

    The copy of a partition is its state at one time, as after a crash: of a running broker, it has
    everything that was acknowledged before the command began. The file manifest.json, which is
    written last, names every file with its size and SHA-256. Exit code 3 means that the copied logs
    have inconsistencies.

    \b
    Examples:
      ottla backup /backup/monday /var/lib/ottla/data
      ottla backup /backup/monday ottla-data/broker-1 ottla-data/broker-2 ottla-data/coordinator
    """
    from datetime import UTC, datetime

    from ottla.cli.backup.copying import copy_directory, in_order, size_of
    from ottla.cli.backup.manifest import FILE_NAME, MAX_DIRECTORIES, Manifest, write_manifest
    from ottla.cli.backup.moves import Moves
    from ottla.cli.backup.writing import new_file, sync_directory
    from ottla.cli.progress import progress_bar

    if len(sources) > MAX_DIRECTORIES:
        usage_error(f"a backup has at most {MAX_DIRECTORIES} directories, got {len(sources)}.")
    if len({each.resolve() for each in sources}) != len(sources):
        usage_error("a directory is named twice.")
    if target.exists() and any(target.iterdir()):
        raise CommandError(f"{target} is not empty: choose a new directory")
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    began, ordered = datetime.now(UTC), in_order(sources)
    moves = Moves(ordered)
    with progress_bar("copying", sum(map(size_of, sources))) as on_progress:
        copied = tuple(
            copy_directory(source, target, str(number), on_progress, moves)
            for number, source in enumerate(ordered, start=1)
        )
    ended = datetime.now(UTC)
    manifest = Manifest(began=began.isoformat(), ended=ended.isoformat(), directories=copied)
    finding_count = _verify(target, manifest) if verify else 0
    unfinished = target / f"{FILE_NAME}.tmp"
    sync_directory(target)
    with new_file(unfinished) as file:
        file.write(write_manifest(manifest).encode())
    unfinished.replace(target / FILE_NAME)
    sync_directory(target)
    _report("backed up", target, manifest, as_json=json)
    if finding_count:
        raise CommandError(
            f"{finding_count} inconsistencies in the copied logs: see `ottla logs verify "
            f"{target}/*`; the logs themselves may have them, too",
            EXIT_FOUND,
        )


def _verify(target: Path, manifest: "Manifest") -> int:
    """Return the number of inconsistencies in the copied logs."""
    from ottla.cli.logs.verify import verify_directories

    log_dirs = [
        target / each.folder
        for each in manifest.directories
        if any(file.path == "meta.properties" for file in each.files)
    ]
    return sum(len(result.findings) for result in verify_directories(log_dirs))


@guarded
def restore(
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="The backup.", exists=True, file_okay=False)
    ],
    to: Annotated[
        list[Path] | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="Target of each directory, in the order of the manifest; by default its source.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only compare the backup with its manifest.")
    ] = False,
    json: Json = False,
) -> None:
    """Copy the directories of a backup back to empty directories.

    Every file is compared with the manifest. If one differs, nothing is restored and the exit code
    is 3. A broker that starts on a restored directory recovers its logs, and leaves the in-sync
    sets of partitions that other brokers have, too.

    \b
    Examples:
      ottla restore /backup/monday --check
      ottla restore /backup/monday --to /var/lib/ottla/data
    """
    from ottla.cli.backup.restoring import check_backup, open_backup, restore_directories
    from ottla.cli.progress import progress_bar

    if check and to:
        usage_error("--check restores nothing: leave out --to.")
    manifest = open_backup(source)
    targets = to or [Path(each.source) for each in manifest.directories]
    if len(targets) != len(manifest.directories):
        usage_error(
            f"the backup has {len(manifest.directories)} directories, but --to names "
            f"{len(targets)}."
        )
    if len({each.resolve() for each in targets}) != len(targets):
        usage_error("--to names a directory twice: each directory of the backup needs its own.")
    with progress_bar("checking" if check else "restoring", manifest.size_bytes) as on_progress:
        if check:
            check_backup(source, manifest, on_progress)
        else:
            restore_directories(source, manifest, targets, on_progress)
    _report("checked" if check else "restored", source, manifest, as_json=json)


def _report(verb: str, place: Path, manifest: "Manifest", *, as_json: bool) -> None:
    counts = {
        "directories": len(manifest.directories),
        "files": manifest.file_count,
        "size_bytes": manifest.size_bytes,
    }
    if as_json:
        print_json({"done": verb, "backup": str(place), **counts})
    else:
        print_line(
            f"{verb}: {counts['directories']} directories, {counts['files']} files, "
            f"{counts['size_bytes']} bytes; {place}"
        )
