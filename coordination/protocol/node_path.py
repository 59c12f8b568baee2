"""Validation of node paths (decision). Source: ZooKeeper `PathUtils.validatePath`."""

import re
from typing import Final

# Java counts UTF-16 units: a character beyond the basic plane is a surrogate pair, and refused.
_ILLEGAL = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]"
    r"|//|/\.\.?(?:/|\Z)"
)

MAX_CREATED_CHARS: Final = 4_096
"""Limit for the path of a new node, because each watch holds a copy of its path."""
MAX_CHARS: Final = MAX_CREATED_CHARS + len(f"{-(2**31)}")
"""Length of the longest path that a node can have, which ends with the lowest sequence number."""
ROOT: Final = "/"
SYSTEM: Final = "/zookeeper"
QUOTA: Final = "/zookeeper/quota"
CONFIG: Final = "/zookeeper/config"
# The tree depends on these nodes.
UNDELETABLE: Final = frozenset({"", ROOT, SYSTEM, QUOTA, CONFIG})


def is_valid(path: str) -> bool:
    """Whether a node may have this path."""
    if path == ROOT:
        return True
    return path.startswith("/") and not path.endswith("/") and not _ILLEGAL.search(path)


def parent_of(path: str) -> str:
    """Return the part before the last slash: "" for children of the root."""
    return path.rpartition("/")[0]
