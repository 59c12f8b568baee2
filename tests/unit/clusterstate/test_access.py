"""Access control lists of znodes: `clusterstate.znodes.access`."""

import pytest

from clusterstate.znodes.access import secure_acl
from coordination.protocol.messages import OPEN_ACL, Acl

ALL = Acl(31, "auth", "")
READ = Acl(1, "world", "anyone")


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/consumers", OPEN_ACL),
        ("/consumers/group", (ALL, READ)),
        ("/brokers/ids/1", (ALL, READ)),
        ("/config", (ALL, READ)),
        ("/config/topics/t", (ALL, READ)),
        ("/config/users", (ALL,)),
        ("/config/users/bob/clients/c", (ALL,)),
        ("/config/brokers/1", (ALL,)),
        ("/delegation_token", (ALL, READ)),
        ("/delegation_token/tokens/t", (ALL,)),
        ("/cluster/login_secret", (ALL,)),
        ("/kafka-acl/Topic/t", (ALL, READ)),
    ],
)
def test_the_lists_are_kafkas(path: str, acl: tuple[Acl, ...]) -> None:
    assert tuple(secure_acl(path)) == acl
