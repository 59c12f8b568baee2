"""Reconstruction of the producer state from a log's files (edge).

The newest snapshot holds most of the state, and the batches from its offset on hold the rest. The
batches just before it supply details that a snapshot has no fields for.
Source: Kafka's UnifiedLog.rebuildProducerState.
"""

from collections.abc import Collection, Container, Iterable, Iterator
from pathlib import Path
from typing import Final

import structlog

from kafkawire.errors import CorruptBatchError
from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, EndTransactionMarker, read_control_batch
from storage.errors import CorruptLogError
from storage.producers import producer_snapshots
from storage.producers.producer_state import ProducerState
from storage.segment.batch_scan import walk_produced
from storage.segment.segment import Segment
from storage.segment.transaction_index import AbortedTransaction

log = structlog.get_logger(__name__)

RECALL_BYTES: Final = 512 * 1024
"""Amount of the log before a snapshot that is scanned for details missing in the snapshot."""


def rebuild(
    state: ProducerState,
    directory: Path,
    segments: Iterable[Segment],
    snapshots: Iterable[Offset],
    end_offset: Offset,
    reindexed: Container[Offset] = (),
) -> None:
    """Rebuild `state` from the batches of `segments`, which are all there are, and `snapshots`.

    `snapshots` are the offsets of trusted snapshots. Each segment that begins above the one in use
    gets its own snapshot, so that the next start reads less. The transaction index of each segment
    in `reindexed`, all of which begin at or above that snapshot, is rebuilt.
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
        aborted = _replay(state, segment, start) if start < end else []
        if segment.base_offset in reindexed:
            segment.transactions.replace(aborted)


def reindex(
    directory: Path,
    segments: Iterable[Segment],
    snapshots: Iterable[Offset],
    reindexed: Collection[Offset],
) -> None:
    """Rebuild the transaction indexes of the segments that begin at one of `reindexed`.

    `snapshots` are as in `rebuild`. The state on the way must not be served: a cleaning may have
    removed the marker of a transaction that is open in an old snapshot.
    """
    start, entries = producer_snapshots.read_newest(directory, snapshots)
    state = ProducerState()
    state.load(entries)
    last = max(reindexed)
    for segment in segments:
        if not start <= segment.base_offset <= last:
            continue
        aborted = _replay(state, segment, start)
        if segment.base_offset in reindexed:
            segment.transactions.replace(aborted)


def has_markers(segments: Iterable[Segment], start: Offset) -> bool:
    """Whether `segments` hold a transaction marker at the offset `start` or above."""
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
    """Add the batches that precede the snapshot at `start`, if they are close to it.

    Kafka lacks this: after a clean restart, a producer with several batches in flight may find that
    the broker remembers only the last of them.
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


def _replay(state: ProducerState, segment: Segment, start: Offset) -> list[AbortedTransaction]:
    """Replay the batches of `segment` from `start` on; return the aborted transactions."""
    aborted: list[AbortedTransaction] = []
    if not segment.size_bytes:
        return aborted
    try:
        for at, header in _produced_from(segment, start):
            found = state.replay(header, _marker(segment, at, header))
            if found is not None:
                aborted.append(found)
    except CorruptLogError as error:
        # Batches before the damage are served, and producer state reaches up to it.
        log.error("log.damaged", path=str(error.path), error=str(error))
    if not segment.is_active:
        segment.release()
    return aborted


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
    """Return the transaction marker in a control batch, or None if it holds none."""
    try:
        return read_control_batch(batch)
    except CorruptBatchError as error:
        log.error("marker.ignored", error=str(error))
        return None
