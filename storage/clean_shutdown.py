"""`.kafka_cleanshutdown`: the log dir was closed in order, so nothing needs recovery (edge).

Bytes on disk: `{"version":0,"brokerEpoch":N}`, as Kafka 3.9 writes it; older versions leave the
file empty. It is removed as soon as it was read, so that a crash while loading is not taken for an
orderly stop. Source: KAFKA-10471, KIP-966.
"""

import json
from pathlib import Path
from typing import Final, NamedTuple

from storage.checkpoint import sync_directory, write_atomically

UNKNOWN_BROKER_EPOCH: Final = -1
VERSION: Final = 0


class CleanShutdown(NamedTuple):
    """How a log dir was left; the epoch that its broker had then, -1 if that is not known."""

    was_clean: bool
    broker_epoch: int


def take_marker(path: Path) -> CleanShutdown:
    """Read the marker and remove it; that is durable when this returns."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return CleanShutdown(was_clean=False, broker_epoch=UNKNOWN_BROKER_EPOCH)
    path.unlink()
    sync_directory(path.parent)
    return CleanShutdown(was_clean=True, broker_epoch=_broker_epoch(text))


def write_marker(path: Path, broker_epoch: int) -> None:
    """Write the marker; durable when this returns."""
    content = {"version": VERSION, "brokerEpoch": broker_epoch}
    write_atomically(path, json.dumps(content, separators=(",", ":")))


def _broker_epoch(text: str) -> int:
    try:
        content = json.loads(text)
    except ValueError:
        return UNKNOWN_BROKER_EPOCH
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if isinstance(epoch, int) else UNKNOWN_BROKER_EPOCH
