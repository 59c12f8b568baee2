"""Decision: the fixed-size entries of an index file. An active index is padded with zeros."""

from struct import Struct

from logcheck.finding import Check, Damage, Finding, Report


def read_entries(
    data: bytes, layout: Struct, file: str, check: Check, report: Report
) -> list[tuple[int, int]]:
    """Return the entries before the padding; report a partial entry, or one after the padding."""

    def find(damage: Damage, position: int, expected: str, found: str) -> None:
        report(
            Finding(
                check=check,
                damage=damage,
                file=file,
                position=position,
                expected=expected,
                found=found,
            )
        )

    whole = len(data) - len(data) % layout.size
    if whole < len(data):
        expected = f"entries of {layout.size} bytes"
        find(Damage.INDEX_CUT, whole, expected, f"{len(data) - whole} bytes more")
    # `rstrip` runs in C: the index of an active segment has megabytes of padding.
    used = len(data[:whole].rstrip(b"\0"))
    count = -(-used // layout.size)
    entries = [(first, second) for first, second in layout.iter_unpack(data[: count * layout.size])]
    if (0, 0) in entries:
        first_unused = entries.index((0, 0))
        if first_unused or count > 1:
            position = first_unused * layout.size
            find(Damage.INDEX_HOLE, position, "entries without a hole", "an entry that is all zero")
        return entries[:first_unused]
    return entries


def missing_index(file: str, check: Check) -> Finding:
    """Return the finding for a segment without its index `file`."""
    return Finding(
        check=check,
        damage=Damage.INDEX_MISSING,
        file=file,
        expected="an index beside the segment",
        found="none; a broker rebuilds the index when it starts",
    )
