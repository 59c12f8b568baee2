"""What is known of the producers, told from a log's files (edge: reads, and writes snapshots).

The newest snapshot says most of it, the batches from there on the rest; the batches just before it
say what it has no room for. Source: Kafka's UnifiedLog.rebuildProducerState.
"""

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Final

import structlog

from kafkawire.errors import CorruptBatchError
from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, EndTransactionMarker, read_control_batch
from storage import producer_snapshots
from storage.batch_scan import walk_produced
from storage.errors import CorruptLogError
from storage.producer_state import ProducerState
from storage.segment import Segment
from storage.transaction_index import AbortedTransaction

log = structlog.get_logger()

RECALL_BYTES: Final = 512 * 1024
"""How much is read again, by its headers, for what a snapshot has no room for."""


def rebuild(
    state: ProducerState,
    directory: Path,
    segments: Iterable[Segment],
    snapshots: Iterable[Offset],
    end_offset: Offset,
    reindexed: Container[Offset] = (),
) -> None:
    """Make `state` what the batches of `segments`, all there are, and `snapshots` say.

    `snapshots` are offsets of those that may be trusted. Segments that begin behind the one that
    is used get one of their own, so that this much need not be read again. The transaction index
    of each segment in `reindexed`, all of them behind that snapshot, is made again.
    """
    start, entries = producer_snapshots.read_newest(directory, snapshots)
    ended = state.ended_below(end_offset)
    state.load(entries)
    state.add_ended(ended)
    segments = list(segments)
    _recall(state, segments, start)
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, end in zip(segments, ends, strict=True):
        if segment.base_offset > start:
            producer_snapshots.write_snapshot(directory, segment.base_offset, state)
        aborted: list[AbortedTransaction] = []
        if segment.size_bytes and start < end:
            try:
                _replay(state, segment, start, aborted)
            except CorruptLogError as error:
                # What lies before damage is served; producers are known as far as it goes.
                log.error("log.damaged", path=str(error.path), error=str(error))
            if not segment.is_active:
                segment.release()
        if segment.base_offset in reindexed:
            segment.transactions.replace(aborted)


def has_markers(segments: Iterable[Segment], start: Offset) -> bool:
    """Whether a transaction ends in `segments` at the offset `start` or above."""
    for segment in segments:
        try:
            if any(
                header.is_control and header.base_offset >= start
                for _, header in _produced_from(segment, start)
            ):
                return True
        except CorruptLogError as error:
            log.error("log.damaged", path=str(error.path), error=str(error))
        finally:
            if not segment.is_active:
                segment.release()
    return False


def _recall(state: ProducerState, segments: list[Segment], start: Offset) -> None:
    """Look up the batches before those that a snapshot at `start` has, if they lie near.

    Kafka does without: after an orderly restart a producer with several batches under way may
    find that the broker knows the last of them only.
    """
    before = [segment for segment in segments if segment.base_offset < start]
    if not len(state) or not before or not before[-1].size_bytes:
        return
    segment = before[-1]
    try:
        place = segment.find(start)
        end = segment.size_bytes if place is None else place.position
        first = segment.index.offsets.lookup_position(max(0, end - RECALL_BYTES))
        state.recall(header for _, header in walk_produced(segment.file, first.position, end))
    except CorruptLogError as error:
        log.warning("producers.not_recalled", path=str(error.path), error=str(error))
    if not segment.is_active:
        segment.release()


def _replay(
    state: ProducerState, segment: Segment, start: Offset, aborted: list[AbortedTransaction]
) -> None:
    """Replay the batches of `segment` from the offset `start` on; note what was `aborted`."""
    for at, header in _produced_from(segment, start):
        found = state.replay(header, _marker(segment, at, header))
        if found is not None:
            aborted.append(found)


def _produced_from(segment: Segment, start: Offset) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    if start > segment.base_offset:
        place = segment.find(start)
        if place is None:
            return
        position = place.position
    yield from walk_produced(segment.file, position, segment.size_bytes)


def _marker(segment: Segment, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    return (
        read_marker(segment.file.read(position, header.size_bytes)) if header.is_control else None
    )


def read_marker(batch: bytes | memoryview) -> EndTransactionMarker | None:
    """Return what a control batch says about its producer's transaction, if it says anything."""
    try:
        return read_control_batch(batch)
    except CorruptBatchError as error:
        log.error("marker.ignored", error=str(error))
        return None
