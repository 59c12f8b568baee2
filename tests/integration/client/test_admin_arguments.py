"""Arguments of the admin client that are of a wrong class are named."""

from collections.abc import Coroutine
from typing import Any

import pytest

from kafkawire.acl import AclBinding, AclFilter
from ottla import Admin, TopicPartition
from ottla.client.errors import ConfigurationError
from tests.integration.client.fake_broker import FakeCluster

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("wrong", ["user", 5, object()], ids=lambda each: type(each).__name__)
async def test_an_argument_of_another_class_is_named(cluster: FakeCluster, wrong: Any) -> None:
    async with Admin(cluster.bootstrap) as admin:
        calls: dict[str, Coroutine[Any, Any, object]] = {
            "entity must be a dict": admin.describe_client_quotas(wrong),
            "an entity's kind must be str": admin.describe_client_quotas({b"user": "a"}),  # type: ignore[dict-item]
            "the name of a user must be str": admin.describe_client_quotas({"user": 5}),  # type: ignore[dict-item]
            "transaction must be OpenTransaction": admin.abort_transaction(wrong),
            "replicas must be a list of ids": admin.alter_reassignments({T0: wrong}),
            "a change must be .*ScramUpsertion": admin.alter_user_scram_credentials([wrong]),
            "wanted must be AclFilter": admin.describe_acls(wrong),
            "a binding must be AclBinding": admin.create_acls([wrong]),
            "the pattern of a binding": admin.create_acls([AclBinding(wrong, wrong)]),
            "a filter must be AclFilter": admin.delete_acls([AclFilter(), wrong]),
            "a principal must be": admin.create_delegation_token(owner=wrong),
            "the partitions of a topic must be": admin.describe_log_dirs(None, {"t": wrong}),
            "producer_ids must be a list of ids": admin.list_transactions(producer_ids=wrong),
            "a member must be GroupMember": admin.remove_members("g", [wrong]),
        }
        for reason, call in calls.items():
            with pytest.raises(ConfigurationError, match=reason):
                await call
