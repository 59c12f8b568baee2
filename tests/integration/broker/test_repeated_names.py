"""Requests that name a subject thousands of times get its result once.

Each result may have thousands of entries: their product would not fit into memory.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.apis import APIS, ApiKey
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafkawire.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopic
from kafkawire.messages.group_admin import DescribeGroupsRequest
from kafkawire.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.messages.transaction_admin import DescribeTransactionsRequest
from tests.integration.broker.wire import Wire

COUNT = 2_000
BROKER = 4
ALL = OffsetFetchRequestGroup(group_id="repeated", topics=None)


@pytest.mark.parametrize(
    ("api", "version", "request_", "results"),
    [
        pytest.param(
            ApiKey.DESCRIBE_GROUPS,
            5,
            DescribeGroupsRequest(groups=["repeated"] * COUNT + ["other"]),
            lambda found: [each.group_id for each in found.groups] == ["repeated", "other"],
            id="groups",
        ),
        pytest.param(
            ApiKey.OFFSET_FETCH,
            8,
            OffsetFetchRequest(groups=[ALL] * COUNT),
            lambda found: [each.group_id for each in found.groups] == ["repeated"],
            id="offsets",
        ),
        pytest.param(
            ApiKey.DESCRIBE_PRODUCERS,
            0,
            DescribeProducersRequest(
                topics=[DescribeProducersTopic(name="t", partition_indexes=[0, 1, 0])] * COUNT
            ),
            lambda found: [len(each.partitions) for each in found.topics] == [2],
            id="producers",
        ),
        pytest.param(
            ApiKey.DESCRIBE_TRANSACTIONS,
            0,
            DescribeTransactionsRequest(transactional_ids=["repeated"] * COUNT),
            lambda found: len(found.transaction_states) == 1,
            id="transactions",
        ),
    ],
)
def test_repeated_names_have_one_result(
    wire: Wire, api: ApiKey, version: int, request_: object, results: Callable[[Any], bool]
) -> None:
    found = wire.ask(api, version, request_, APIS[api].response)
    assert results(found)


def test_repeated_resources_have_one_result_per_set_of_keys(wire: Wire) -> None:
    everything = MetadataRequest(topics=[])
    [broker] = wire.ask(ApiKey.METADATA, 9, everything, MetadataResponse).brokers

    def resource(*keys: str) -> DescribeConfigsResource:
        return DescribeConfigsResource(
            resource_type=BROKER,
            resource_name=str(broker.node_id),
            configuration_keys=list(keys) or None,
        )

    request = DescribeConfigsRequest(
        resources=[resource()] * COUNT + [resource("log.dirs", "num.partitions")] * 2,
        include_synonyms=True,
        include_documentation=True,
    )
    found = wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, request, DescribeConfigsResponse).results
    everything_count, few_count = (len(each.configs) for each in found)
    assert everything_count > 100
    assert few_count == 2
