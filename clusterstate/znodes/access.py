"""Access control lists of Kafka's znodes with `zookeeper.set.acl` (decision).

Their creator may do everything, and everybody may read most of them.

Source: kafka.zk.ZkData.defaultAcls.
"""

from collections.abc import Sequence
from typing import Final

from clusterstate.znodes import paths
from coordination.protocol.messages import OPEN_ACL, READ_ONLY_ACL, Acl

CREATOR_ACL: Final = (Acl(31, "auth", ""),)
SENSITIVE: Final = (
    paths.config("users"),
    paths.config("brokers"),
    "/delegation_token/tokens",
    paths.LOGIN_SECRET,
)
"""Beginnings of the paths that only the brokers may read."""


def secure_acl(path: str) -> Sequence[Acl]:
    """Return the list for a new znode of a broker that has an identity."""
    if path == paths.CONSUMERS:
        # Old consumers write below it.
        return OPEN_ACL
    if path.startswith(SENSITIVE):
        return CREATOR_ACL
    return (*CREATOR_ACL, *READ_ONLY_ACL)
