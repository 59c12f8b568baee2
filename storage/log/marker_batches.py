"""Control batches for the transaction markers that a leader appends in one write (decision)."""

from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import (
    BatchHeader,
    TimestampType,
    build_control_batch,
    read_header,
    set_log_append_time,
)
from storage.errors import StorageError
from storage.producers.producer_state import NewMarker, ProducerState


class MarkerBatches(NamedTuple):
    """Consecutive control batches, and the result of each marker: its offset, or an error."""

    data: bytearray
    headers: list[BatchHeader]
    results: list[Offset | StorageError]


def build_marker_batches(
    markers: Sequence[NewMarker],
    producers: ProducerState,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    timestamp_type: TimestampType,
    now_ms: int,
) -> MarkerBatches:
    """Return a control batch for each of `markers` that `producers` admit, from `base_offset` on.

    `timestamp_type` is the topic's. As in Kafka, markers are never compressed.
    """
    built = MarkerBatches(bytearray(), [], [])
    for marker, refusal in zip(markers, producers.check_markers(markers), strict=True):
        if refusal is not None:
            built.results.append(refusal)
            continue
        offset = Offset(base_offset + len(built.headers))
        batch = build_control_batch(
            marker.control_type,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_ms,
            base_offset=offset,
            leader_epoch=leader_epoch,
        )
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            set_log_append_time(memoryview(batch), now_ms)
        built.data.extend(batch)
        built.headers.append(read_header(batch))
        built.results.append(offset)
    return built
