"""S7 and S4: the topic's id in `partition.metadata`, which all replicas share (decision)."""

import re
from typing import Final

from logcheck.checkpoint_text import read_properties
from logcheck.finding import Check, Damage, Finder, Report
from logcheck.replica_files import ReadBytes, read_reported

# 16 bytes in URL-safe base64 without padding.
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


def read_topic_id(read_bytes: ReadBytes, file: str | None, report: Report) -> str | None:
    """Return the topic's id; report a file without one. Brokers before 2.8 write no file."""
    data = None if file is None else read_reported(read_bytes, file, report)
    if file is None or not data:
        return None
    topic_id = read_properties(data, file, lambda _: None).get("topic_id", "")
    if _TOPIC_ID.fullmatch(topic_id):
        return topic_id
    find = Finder(Check.CHECKPOINTS, report).find
    find(Damage.BAD_PROPERTY, file, 1, None, "the topic's id", repr(data[:40])[1:])
    return None


def compare_topic_ids(first: str | None, other: str | None, file: str, report: Report) -> None:
    """Report the `other` replica's `file` if its id differs from that of the first replica."""
    if first is not None and other is not None and first != other:
        find = Finder(Check.REPLICAS, report).find
        find(Damage.REPLICA_DIFFERS, file, None, None, f"topic id {first}", other)
