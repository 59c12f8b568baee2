"""`/consumers/<group>`: groups whose members meet in the coordinator (decision).

The members are Kafka's old consumers (up to 2.0), Jafka's, and `ottla.zookeeper`. `name` is the
name of a partition in the layout of the group: `0` in Kafka's, `<broker>-<number>` in Jafka's.
"""

import re
from typing import Final

from clusterstate.znodes.paths import CONSUMERS

IDS: Final = "ids"
OWNERS: Final = "owners"
OFFSETS: Final = "offsets"
MAX_OFFSET: Final = 2**63 - 1
_GROUP: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_group_name(name: str) -> bool:
    """Whether old consumers accept the name, and a path can contain it."""
    return _GROUP.fullmatch(name) is not None and name not in (".", "..")


def group(name: str) -> str:
    """Return the parent of everything that concerns a group."""
    return f"{CONSUMERS}/{name}"


def members(group_name: str) -> str:
    """Return the parent of the members' ephemeral registrations."""
    return f"{CONSUMERS}/{group_name}/{IDS}"


def member(group_name: str, consumer_id: str) -> str:
    """Return the path of a member's ephemeral registration."""
    return f"{CONSUMERS}/{group_name}/{IDS}/{consumer_id}"


def owners(group_name: str) -> str:
    """Return the parent of the topics with owners."""
    return f"{CONSUMERS}/{group_name}/{OWNERS}"


def owner(group_name: str, topic: str, name: str) -> str:
    """Return the path of the ephemeral claim of a partition; its data is a thread id."""
    return f"{CONSUMERS}/{group_name}/{OWNERS}/{topic}/{name}"


def offsets(group_name: str) -> str:
    """Return the parent of the topics with offsets."""
    return f"{CONSUMERS}/{group_name}/{OFFSETS}"


def offset(group_name: str, topic: str, name: str) -> str:
    """Return the path of the offset of the next record that the group reads."""
    return f"{CONSUMERS}/{group_name}/{OFFSETS}/{topic}/{name}"


def encode_offset(value: int) -> bytes:
    """Return the data of an offset's node: decimal text."""
    return b"%d" % value


def decode_offset(data: bytes | None) -> int | None:
    """Return the offset in a node; None for anything that is not the offset of a record.

    Blanks and a newline around it are accepted, as an editor of nodes leaves them. Java members
    fail their whole rebalance there.
    """
    text = (data or b"").strip()
    if not text.isdigit():
        return None
    # Compared by length first: the conversion of long texts takes quadratic time.
    value = int(text) if len(text) <= len(str(MAX_OFFSET)) else MAX_OFFSET + 1
    return value if value <= MAX_OFFSET else None
