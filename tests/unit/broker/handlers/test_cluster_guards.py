"""Denials of requests about the cluster: `broker.handlers.guards.cluster_guards`."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.handlers.guards.cluster_guards import GUARDS, elect_leaders
from broker.handlers.guards.guard import Guard
from broker.network.reply import Reply
from broker.security.audit import Audit
from broker.security.authorizer import Authorizer
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.reassignment import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
)
from kafkawire.schema import decode, encode
from tests.unit.broker.requests import request


@pytest.mark.parametrize("version", range(APIS[ApiKey.ELECT_LEADERS].decodable[1] + 1))
def test_a_denied_election_is_answered_in_every_version(version: int) -> None:
    asked = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    denied = elect_leaders(request(ApiKey.ELECT_LEADERS, version, asked), asked)
    answer = decode(ElectLeadersResponse, encode(denied, version), version)
    has_common_code = version >= 1
    assert answer.error_code == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED if has_common_code else ErrorCode.NONE
    )
    [topic] = answer.replica_election_results
    assert [part.error_code for part in topic.partition_result] == [
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    ]


@pytest.mark.parametrize(
    ("is_active", "has_right", "code"),
    [
        (False, False, ErrorCode.NOT_CONTROLLER),
        (False, True, ErrorCode.NOT_CONTROLLER),
        (True, False, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (True, True, None),
    ],
)
def test_change_of_scram_users_is_for_the_controller_before_it_is_for_administrators(
    is_active: bool, has_right: bool, code: ErrorCode | None
) -> None:
    key, done = ApiKey.ALTER_USER_SCRAM_CREDENTIALS, Reply("done")
    parts = cast(Any, SimpleNamespace(controller=SimpleNamespace(is_active=is_active)))
    guard = Guard(Authorizer([], allows_unlisted=has_right), Audit(lambda: 0.0, logs_allowed=False))
    guarded = GUARDS[key](parts, guard, lambda _request, _message: done)
    deletions = [ScramCredentialDeletion(name=name, mechanism=1) for name in ("a", "b", "a")]
    message = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[])
    reply = guarded(request(key, 0, message), message)
    if code is None:
        assert reply is done
        return
    assert isinstance(reply.message, AlterUserScramCredentialsResponse)
    assert [(each.user, each.error_code, each.error_message) for each in reply.message.results] == [
        ("a", code, code.text),
        ("b", code, code.text),
    ]
