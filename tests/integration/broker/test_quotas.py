"""Client quotas: set over the wire or by a tool at the nodes, persisted, and enforced."""

import asyncio
import json
import time

from clusterstate.znodes import paths
from coordination.client import Client
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntry,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.conftest import StartBroker
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator, wait_until

PAYLOAD = b"x" * 20_000
LIMIT = 1500
"""Ten seconds' worth are less than the payload: one request exceeds the quota by a third."""
Names = tuple[tuple[str, str | None], ...]
SLOW: Names = (("client-id", "slow"),)


def alter(
    wire: Wire, names: Names, *, version: int = 1, **quotas: float | None
) -> tuple[int, str | None]:
    entry = AlteredEntry(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )
    request = AlterClientQuotasRequest(entries=[entry])
    key = ApiKey.ALTER_CLIENT_QUOTAS
    [result] = wire.ask(key, version, request, AlterClientQuotasResponse).entries
    return result.error_code, result.error_message


def described(wire: Wire, *components: ComponentData) -> dict[Names, dict[str, float]]:
    request = DescribeClientQuotasRequest(components=components)
    key = ApiKey.DESCRIBE_CLIENT_QUOTAS
    answer = wire.ask(key, 1, request, DescribeClientQuotasResponse)
    assert answer.error_code == ErrorCode.NONE
    return {
        tuple((each.entity_type, each.entity_name) for each in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries or ()
    }


def produce(wire: Wire, client_id: str) -> int:
    """Write one batch; return the throttle time in the response."""
    data = PartitionProduceData(index=0, records=batch(PAYLOAD))
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    answer = wire.ask(ApiKey.PRODUCE, 9, request, ProduceResponse, client_id)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return answer.throttle_time_ms


def fetch(wire: Wire, client_id: str) -> tuple[int, int]:
    """Read from the beginning; return the number of bytes and the throttle time."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="t", partitions=[partition])],
        session_epoch=-1,
    )
    answer = wire.ask(ApiKey.FETCH, 12, request, FetchResponse, client_id)
    records = answer.responses[0].partitions[0].records
    return len(records or b""), answer.throttle_time_ms  # type: ignore[arg-type]


def test_a_producer_above_its_quota_is_throttled_and_muted(start_broker: StartBroker) -> None:
    broker = start_broker()
    with Wire(broker.port) as admin, Wire(broker.port) as slow:
        admin.create_topic("t")
        assert alter(admin, SLOW, producer_byte_rate=LIMIT) == (ErrorCode.NONE, None)
        # The connection is muted from the first response on.
        began_s = time.monotonic()
        throttle_ms = produce(slow, "slow")
        assert 1000 < throttle_ms < 5000
        assert produce(admin, "another") == 0
        produce(slow, "slow")
        assert time.monotonic() - began_s > throttle_ms / 1000 - 0.1
        assert alter(admin, SLOW, producer_byte_rate=None) == (ErrorCode.NONE, None)
        assert produce(admin, "slow") == 0


def test_a_consumer_above_its_quota_gets_its_records_and_then_waits(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with Wire(broker.port) as admin, Wire(broker.port) as slow:
        admin.create_topic("t")
        for _ in range(3):
            produce(admin, "another")
        everybody: Names = (("user", None), ("client-id", None))
        assert alter(admin, everybody, consumer_byte_rate=LIMIT) == (ErrorCode.NONE, None)
        size, throttle_ms = fetch(slow, "slow")
        assert len(PAYLOAD) < size < 2 * len(PAYLOAD), "one batch of any size"
        assert 1000 < throttle_ms < 5000
        size, throttle_ms = fetch(slow, "slow")
        assert throttle_ms > 0


def test_quotas_are_described_and_survive_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    both: Names = (("user", "anna"), ("client-id", "a b"))
    with Wire(broker.port) as wire:
        for version in (0, 1):
            assert alter(wire, both, version=version, producer_byte_rate=5)[0] == 0
        assert alter(wire, (("user", None),), request_percentage=50.5)[0] == 0
        assert alter(wire, (("ip", "10.0.0.1"),), connection_creation_rate=7)[0] == 0
        assert alter(wire, (("user", ""),), producer_byte_rate=5)[0] == ErrorCode.INVALID_REQUEST
        assert alter(wire, SLOW, no_such_key=5)[0] == ErrorCode.INVALID_REQUEST
    broker.stop()
    again = start_broker(broker.data_dir)
    with Wire(again.port) as wire:
        assert described(wire) == {
            both: {"producer_byte_rate": 5.0},
            (("user", None),): {"request_percentage": 50.5},
            (("ip", "10.0.0.1"),): {"connection_creation_rate": 7.0},
        }
        anna = ComponentData(entity_type="user", match_type=0, match="anna")
        assert list(described(wire, anna)) == [both]
        request = DescribeClientQuotasRequest(components=[anna, anna])
        key = ApiKey.DESCRIBE_CLIENT_QUOTAS
        answer = wire.ask(key, 0, request, DescribeClientQuotasResponse)
        assert (answer.error_code, answer.entries) == (ErrorCode.INVALID_REQUEST, None)


def test_a_tool_sets_quotas_at_the_nodes(
    coordinator: Coordinator, start_broker: StartBroker
) -> None:
    broker = start_broker(overrides={"zookeeper.connect": coordinator.address})

    async def write() -> None:
        async with Client(coordinator.address, has_heartbeat_thread=False) as client:
            config = {"version": 1, "config": {"producer_byte_rate": str(LIMIT)}}
            await client.create(paths.config("clients/slow"), json.dumps(config).encode())
            notification = {"version": 2, "entity_path": "clients/slow"}
            prefix = paths.CONFIG_CHANGE_PREFIX
            await client.create(prefix, json.dumps(notification).encode(), sequential=True)

    with Wire(broker.port) as wire, Wire(broker.port) as slow:
        wire.create_topic("t")
        assert produce(slow, "slow") == 0
        asyncio.run(write())
        wait_until(lambda: SLOW in described(wire))
        broker.wait_for_event("quota.changed")
        assert produce(slow, "slow") > 0
