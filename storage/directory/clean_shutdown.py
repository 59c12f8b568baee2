"""`.kafka_cleanshutdown`: marker of a clean shutdown, after which no log needs recovery (edge).

Bytes on disk: `{"version":0,"brokerEpoch":N}`, as Kafka 3.9 writes it; older versions leave the
file empty. The marker is removed as soon as it has been read, so that a crash during loading is not
mistaken for a clean shutdown. Source: KAFKA-10471, KIP-966.
"""

import json
from pathlib import Path
from typing import Final, NamedTuple

from kafkawire.sentinels import UNKNOWN_BROKER_EPOCH
from storage.disk.checkpoint import sync_directory, write_atomically

VERSION: Final = 0


class CleanShutdown(NamedTuple):
    """State in which a log dir was left, and its broker's epoch at that time (-1: unknown)."""

    was_clean: bool
    broker_epoch: int


def take_marker(path: Path) -> CleanShutdown:
    """Read the marker and remove it; the removal is durable on return."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return CleanShutdown(was_clean=False, broker_epoch=UNKNOWN_BROKER_EPOCH)
    path.unlink()
    sync_directory(path.parent)
    return CleanShutdown(was_clean=True, broker_epoch=_broker_epoch(text))


def write_marker(path: Path, broker_epoch: int) -> None:
    """Write the marker; it is durable on return."""
    content = {"version": VERSION, "brokerEpoch": broker_epoch}
    write_atomically(path, json.dumps(content, separators=(",", ":")))


def _broker_epoch(text: str) -> int:
    try:
        content = json.loads(text)
    except ValueError:
        return UNKNOWN_BROKER_EPOCH
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if isinstance(epoch, int) else UNKNOWN_BROKER_EPOCH
