"""Checks the batches of idempotent producers in a log: each once, in order. Pure.

This is the brokers' part of idempotence. A client that begins a new producer epoch may resend
records without a response, and the log then holds duplicates, which is the client's decision. So is
its first sequence, after records that it has given up: a broker accepts any sequence from a
producer without state (KIP-360). When the leader changes before the first response, librdkafka may
begin with the records for the new leader, and give up the ones that the old leader has refused.
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_POSITION: Final = 21
_CONTROL_BIT: Final = 0x20
_PRODUCER: Final = struct.Struct(">qhii")
"""Producer id and epoch, base sequence, number of records."""
_PRODUCER_POSITION: Final = 43
_SEQUENCE_COUNT: Final = 2**31


class _Place(NamedTuple):
    """Epoch and next sequence of a producer."""

    epoch: int
    next_sequence: int


def sequence_faults(batches: Mapping[int, bytes], given_up: int = 0) -> list[str]:
    """Return a sentence for each batch that repeats, skips or is out of order, by base offset.

    The first sequence of a producer may be up to `given_up`, the number of records given up in this
    partition.
    """
    faults = []
    places: dict[int, _Place] = {}
    for offset, batch in sorted(batches.items()):
        (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_POSITION)
        producer, epoch, sequence, count = _PRODUCER.unpack_from(batch, _PRODUCER_POSITION)
        if producer < 0 or attributes & _CONTROL_BIT:
            continue
        begins_late = producer not in places and sequence <= given_up
        place = places.get(producer, _Place(epoch, sequence) if begins_late else _Place(-1, 0))
        expected = _Place(epoch, place.next_sequence if epoch == place.epoch else 0)
        if epoch < place.epoch or sequence != expected.next_sequence:
            faults.append(
                f"producer {producer} has sequence {sequence} of epoch {epoch} at {offset}, "
                f"expected {expected.next_sequence} of epoch {max(epoch, place.epoch)}"
            )
        places[producer] = _Place(epoch, (sequence + count) % _SEQUENCE_COUNT)
    return faults
