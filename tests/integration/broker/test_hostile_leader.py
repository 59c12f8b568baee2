"""A leader whose responses name impossible offsets, and a real follower."""

import asyncio
from pathlib import Path
from struct import Struct

import pytest

from broker.cluster.metadata_cache import Endpoint
from broker.config.replication_keys import ReplicationKeys
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.headers import decode_request_header, encode_response
from kafkawire.ids import BrokerId
from kafkawire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkawire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kafkawire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from tests.integration.broker.replica_rig import TOPIC, TOPIC_ID, Rig, now_ms

SIZE = Struct(">i")
KEYS = ReplicationKeys(replica_fetch_backoff_ms=1, replica_fetch_wait_max_ms=1)
SERVED = ((ApiKey.FETCH, 17), (ApiKey.LIST_OFFSETS, 7), (ApiKey.API_VERSIONS, 4))
IMPOSSIBLE = -7
ENOUGH_REQUESTS = 10


class HostileLeader:
    """Responds to each Fetch with `data`, and to each ListOffsets with an impossible offset."""

    def __init__(self, data: PartitionData) -> None:
        self.answered = asyncio.Semaphore(0)
        self._data = data

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
                header, _ = decode_request_header(await reader.readexactly(size))
                key, version = header.api_key, header.api_version
                message = self._message(key)
                writer.write(encode_response(key, version, header.correlation_id, message))
                self.answered.release()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    def _message(self, key: ApiKey) -> object:
        if key == ApiKey.API_VERSIONS:
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=key, min_version=0, max_version=newest)
                    for key, newest in SERVED
                ]
            )
        if key == ApiKey.LIST_OFFSETS:
            found = ListOffsetsPartitionResponse(offset=IMPOSSIBLE)
            return ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[found])]
            )
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[self._data])
        return FetchResponse(session_id=1, responses=[topic])


@pytest.mark.parametrize(
    "data",
    [
        PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        PartitionData(diverging_epoch=EpochEndOffset(epoch=0, end_offset=IMPOSSIBLE)),
    ],
    ids=["out of range", "divergence"],
)
async def test_a_log_never_begins_at_a_negative_offset(tmp_path: Path, data: PartitionData) -> None:
    leader, rig = HostileLeader(data), Rig(tmp_path, KEYS)
    await rig.start(1)
    server = await asyncio.start_server(leader.serve, "127.0.0.1", 0)
    rig.register(2)
    rig.brokers[1].endpoints[BrokerId(2)] = Endpoint(*server.sockets[0].getsockname())
    rig.send_metadata()
    await rig.set_leader(2, (1, 2), replicas=(1, 2))
    for _ in range(ENOUGH_REQUESTS):
        await leader.answered.acquire()
    local = rig.brokers[1].replica.log
    assert (local.log_start_offset, local.log_end_offset) == (0, 0)
    await rig.stop()
    server.close()
    logs = Logs.open([tmp_path / "broker-1"], config_of=lambda _: LogConfig(), now_ms=now_ms())
    assert [each.log_end_offset for each in logs] == [0]
    logs.close()
