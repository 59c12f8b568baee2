"""Writer of a log of many short transactions, for audits (edge).

Each transaction has one record, and every second one is aborted. A few transactions are always
open, and they overlap.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from pathlib import Path
from typing import Final

from kafkawire.records import BatchBuilder, ControlType, build_control_batch

OPEN_AT_ONCE: Final = 50
_ENTRY: Final = struct.Struct(">hqqqq")
_FIRST_PRODUCER: Final = 100


def write_transactions(root: Path, count: int, *, first_aborted: int = 0) -> None:
    """Write partition 0 of `orders` into a log directory, with its indexes and checkpoints.

    Only transactions from the number `first_aborted` on are aborted.
    """
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    now_ms = int(time.time() * 1000)
    opened: deque[tuple[int, int]] = deque()
    entries, batches, offset = bytearray(), bytearray(), 0
    for number in range(count + OPEN_AT_ONCE):
        if number >= OPEN_AT_ONCE:
            first, ended = opened.popleft()
            is_aborted = ended % 2 == 0 and ended >= first_aborted
            producer_id = _FIRST_PRODUCER + ended % OPEN_AT_ONCE
            kind = ControlType.ABORT if is_aborted else ControlType.COMMIT
            batches += build_control_batch(
                kind,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=now_ms,
                base_offset=offset,
                leader_epoch=0,
            )
            if is_aborted:
                stable = opened[0][0] if opened else offset + 1
                entries += _ENTRY.pack(0, producer_id, first, offset, stable)
            offset += 1
        if number < count:
            producer_id, sequence = _FIRST_PRODUCER + number % OPEN_AT_ONCE, number // OPEN_AT_ONCE
            builder = BatchBuilder(
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
            )
            builder.append(now_ms, b"key-%d" % number, b"value")
            batches += builder.build(offset, 0)
            opened.append((offset, number))
            offset += 1
    log = directory / f"{0:020d}.log"
    log.write_bytes(batches)
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).touch()
    log.with_suffix(".txnindex").write_bytes(entries)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    for name in ("replication-offset", "recovery-point-offset"):
        (root / f"{name}-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")
