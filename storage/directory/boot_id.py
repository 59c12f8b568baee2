"""`.ottla-boot-id`: the boot of the machine in which a log dir was last written (edge).

Written records survive the death of their process in the page cache, but not a restart of the
machine. If the stored id differs from the current one and the last shutdown was not clean, the logs
may therefore lack records that were acknowledged. A missing file means the same: the log dir is
new, wiped, replaced, was last used by a version or program that does not write the file, or its
disk failed. In the last case a process of the same boot would otherwise trust the page cache.

Bytes on disk: the kernel's boot id. Containers of one machine share it, as they share the cache.
"""

from pathlib import Path
from typing import Final

from storage.disk.checkpoint import write_atomically

KERNEL_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
UNKNOWN_BOOT: Final = "unknown"
"""Id on systems that have none. There a restart of the machine cannot be detected."""


def current_boot_id() -> str:
    """Return the id of the running kernel's boot, or `UNKNOWN_BOOT`."""
    try:
        return KERNEL_BOOT_ID.read_text(encoding="ascii").strip() or UNKNOWN_BOOT
    except (OSError, ValueError):
        return UNKNOWN_BOOT


def read_boot_id(path: Path) -> str | None:
    """Return the stored id; None if there is no file.

    A damaged file has an id that no boot has.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None


def write_boot_id(path: Path, boot_id: str) -> None:
    """Store an id; it is durable on return."""
    write_atomically(path, f"{boot_id}\n")


def may_lack_records(stored: str | None, current: str, *, was_clean: bool) -> bool:
    """Whether a log dir may lack records that were written to it, or is new."""
    return not was_clean and stored != current
