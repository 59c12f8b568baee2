"""Ids for idempotent producers, none ever given out twice (edge).

Bytes on disk: one JSON object in `latest_producer_id_block`, with the fields of Kafka's znode of
that name. Invariant: a block is on disk before the first id of it is given out, so that a crash
skips ids and never repeats one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from broker.errors import StartupError
from kafkawire.ids import BrokerId, ProducerId
from storage.checkpoint import write_atomically

FILE_NAME: Final = "latest_producer_id_block"
BLOCK_SIZE: Final = 1000
_VERSION: Final = 1


class ProducerIds:
    """Gives out producer ids from blocks that a file remembers."""

    def __init__(self, directory: Path, broker_id: BrokerId) -> None:
        """Continue after the last block in `directory`.

        Raises:
            StartupError: the file is damaged; going on could give an id out twice.
        """
        self._path = directory / FILE_NAME
        self._broker_id = broker_id
        self._next = self._end = _read_block_end(self._path)

    def allocate(self) -> ProducerId:
        """Return a fresh id.

        Raises:
            OSError: the next block could not be written down; no id is used up.
        """
        if self._next == self._end:
            self._write_block(self._next, self._next + BLOCK_SIZE)
            self._end = self._next + BLOCK_SIZE
        allocated = ProducerId(self._next)
        self._next += 1
        return allocated

    def _write_block(self, start: int, end: int) -> None:
        block = {
            "version": _VERSION,
            "broker": self._broker_id,
            "block_start": str(start),
            "block_end": str(end - 1),
        }
        write_atomically(self._path, json.dumps(block))


def _read_block_end(path: Path) -> int:
    """Return the first id after the last block; the file's own end is inclusive."""
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["block_end"]) + 1
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError) as error:
        raise StartupError(
            f"{path} is damaged ({error}): restore it, or write a block that begins above every "
            "producer id in use"
        ) from error
