"""Denials of requests about the cluster: `broker.handlers.guards.cluster_guards`."""

import pytest

from broker.handlers.guards.cluster_guards import elect_leaders
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.reassignment import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
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
