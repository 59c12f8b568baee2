"""The fixed-size entries of an index file (decision).

An active index is padded with zeros.
"""

from struct import Struct

from logcheck.finding import Check, Damage, Finder, Report


def read_entries(
    data: bytes,
    layout: Struct,
    file: str,
    check: Check,
    report: Report,
    *,
    may_begin_with_zero: bool = False,
) -> list[tuple[int, int]]:
    """Return the entries before the padding; report a partial entry, or one after the padding.

    With `may_begin_with_zero` a first entry that is all zero is not padding if others follow.
    """

    find = Finder(check, report).find
    whole = len(data) - len(data) % layout.size
    if whole < len(data):
        expected = f"entries of {layout.size} bytes"
        found = f"{len(data) - whole} bytes more"
        find(Damage.INDEX_CUT, file, whole, None, expected, found)
    # `rstrip` runs in C: the index of an active segment has megabytes of padding.
    used = len(data[:whole].rstrip(b"\0"))
    count = -(-used // layout.size)
    entries = [(first, second) for first, second in layout.iter_unpack(data[: count * layout.size])]
    first = 1 if may_begin_with_zero and count > 1 else 0
    if (0, 0) in entries[first:]:
        first_unused = entries.index((0, 0), first)
        if first_unused or count > 1:
            position = first_unused * layout.size
            expected, found = "entries without a hole", "an entry that is all zero"
            find(Damage.INDEX_HOLE, file, position, None, expected, found)
        return entries[:first_unused]
    return entries
