"""Batches of producers for tests."""

from kafkawire.ids import LeaderEpoch
from kafkawire.records import (
    BatchBuilder,
    BatchHeader,
    ControlType,
    assign_offsets,
    build_control_batch,
    read_control_batch,
    read_header,
)
from storage.errors import StorageError
from storage.log.log import NO_APPEND_TIME, AppendInfo, Log
from storage.producers.producer_state import NewMarker
from tests.unit.storage.logs import NOW_MS

MAX_SEQUENCE = 2**31 - 1


def produced(
    producer_id: int,
    base_sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    timestamp_ms: int = NOW_MS,
    is_transactional: bool = False,
) -> bytearray:
    """Return a batch as an idempotent producer sends it."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    for number in range(count):
        builder.append(timestamp_ms, b"key", b"%d" % number)
    return builder.build()


def header_of(
    producer_id: int, base_sequence: int, count: int = 1, *, epoch: int = 0
) -> BatchHeader:
    """Return the header of `produced`."""
    return read_header(produced(producer_id, base_sequence, count, epoch=epoch))


def marker(
    producer_id: int,
    base_offset: int,
    control_type: ControlType = ControlType.COMMIT,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
) -> bytearray:
    """Return a control batch that ends a transaction, as a leader sends it to a follower."""
    return build_control_batch(
        control_type,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=NOW_MS,
        base_offset=base_offset,
        leader_epoch=0,
    )


def write(log: Log, batch: bytes | bytearray, epoch: int = 0, now_ms: int = NOW_MS) -> AppendInfo:
    """Append as a leader of `epoch`; the markers of control batches like from a coordinator."""
    header = read_header(batch)
    if not header.is_control:
        data = memoryview(bytearray(batch))
        return log.append_as_leader(data, header, LeaderEpoch(epoch), now_ms)
    end = read_control_batch(batch)
    assert end is not None, "a transaction marker"
    sent = NewMarker(
        header.producer_id, header.producer_epoch, end.control_type, end.coordinator_epoch
    )
    [result] = log.append_markers([sent], LeaderEpoch(epoch), header.max_timestamp_ms)
    if isinstance(result, StorageError):
        raise result
    return AppendInfo(result, result, NO_APPEND_TIME, log.log_start_offset)


def follow(log: Log, batch: bytearray, offset: int | None = None) -> None:
    """Append as a follower, by default at the end."""
    assign_offsets(memoryview(batch), log.log_end_offset if offset is None else offset, 0)
    log.append_as_follower(memoryview(batch), NOW_MS)
