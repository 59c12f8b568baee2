"""WriteTxnMarkers version 0, which the independent codecs lack; laid out from Kafka's schema."""

from struct import pack

from kafkawire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkawire.schema import decode, encode


def test_markers_of_the_oldest_version_have_kafkas_bytes() -> None:
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=7,
                producer_epoch=3,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name="ab", partition_indexes=[4, 5])],
                coordinator_epoch=6,
            )
        ]
    )
    data = pack(">iqh?ih2siiii", 1, 7, 3, True, 1, 2, b"ab", 2, 4, 5, 6)
    assert encode(request, 0) == data
    assert decode(WriteTxnMarkersRequest, data, 0) == request


def test_results_of_the_oldest_version_have_kafkas_bytes() -> None:
    partition = WritableTxnMarkerPartitionResult(partition_index=4, error_code=6)
    topic = WritableTxnMarkerTopicResult(name="ab", partitions=[partition])
    result = WritableTxnMarkerResult(producer_id=7, topics=[topic])
    response = WriteTxnMarkersResponse(markers=[result])
    data = pack(">iqih2siih", 1, 7, 1, 2, b"ab", 1, 4, 6)
    assert encode(response, 0) == data
    assert decode(WriteTxnMarkersResponse, data, 0) == response
