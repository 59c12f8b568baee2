"""A minimal broker for producers, which responds and stores nothing (edge).

`python -m benchmarks.loads.bare_broker PORT TOPIC PARTITIONS`. One node leads all partitions of one
topic. Records are received and dropped: no checksum, no file. The rate of a producer against it is
the maximum rate of that producer on this machine, with any broker.
"""

from __future__ import annotations

import sys
from typing import Final

from benchmarks.loads.frame_loop import serve_frames
from benchmarks.loads.pipeline import SIZE_FIELD
from benchmarks.loads.process import HOST
from kafkawire.apis import ApiKey
from kafkawire.headers import RequestHeader, encode_response
from kafkawire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkawire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.messages.produce import ProduceRequest
from kafkawire.native import decode, decode_request_header, encode_accepted, frame_response

NODE: Final = 1
# APIs that a producer needs; Fetch shows that the broker supports current batches.
SERVED: Final = {
    ApiKey.PRODUCE: (3, 9),
    ApiKey.FETCH: (4, 12),
    ApiKey.METADATA: (0, 12),
    ApiKey.API_VERSIONS: (0, 3),
}


class _Broker:
    """The handlers of producers' requests."""

    def __init__(self, port: int, topic: str, partition_count: int) -> None:
        partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=NODE, replica_nodes=[NODE], isr_nodes=[NODE]
            )
            for index in range(partition_count)
        ]
        self._metadata = MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=NODE, host=HOST, port=port)],
            controller_id=NODE,
            topics=[MetadataResponseTopic(name=topic, partitions=partitions)],
        )
        self._versions = ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in SERVED.items()
            ]
        )

    def answer(self, frame: memoryview) -> bytes:
        """Return the response to a request; both include their sizes."""
        header, start = decode_request_header(frame[SIZE_FIELD.size :])
        if header.api_key is ApiKey.PRODUCE:
            return _accepted(header, frame[SIZE_FIELD.size + start :])
        message = self._metadata if header.api_key is ApiKey.METADATA else self._versions
        version = min(header.api_version, SERVED[header.api_key][1])
        return encode_response(header.api_key, version, header.correlation_id, message)


def _accepted(header: RequestHeader, body: memoryview) -> bytes:
    request = decode(ProduceRequest, body, header.api_version)
    topics = [
        (topic.name, [(data.index, 0, -1, 0) for data in topic.partition_data])
        for topic in request.topic_data
    ]
    return frame_response(header, encode_accepted(topics, header.api_version))


def main(arguments: list[str]) -> None:
    """Serve until killed."""
    port, topic, partition_count = int(arguments[0]), arguments[1], int(arguments[2])
    serve_frames(port, _Broker(port, topic, partition_count).answer)


if __name__ == "__main__":
    main(sys.argv[1:])
