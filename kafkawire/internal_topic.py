"""Internal topics: names, the partition of a key, versions before keys and values (decision).

A coordinator keeps its state in a compacted topic. The leader of a partition coordinates the groups
or transactional ids whose hash selects that partition. A record's key and value are each a version
(two bytes) and a message of that version.
"""

from functools import lru_cache
from operator import mul
from struct import Struct, unpack
from struct import error as struct_error
from typing import Final, TypeVar

from kafkawire.errors import DecodeError
from kafkawire.schema import decode, encode

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})

_VERSION: Final = Struct(">h")
_CACHED_HASHES: Final = 16_384
_CACHED_LONG_HASHES: Final = 64
_SHORT_CHARACTERS: Final = 256
"""Clients choose the keys, of up to 32 kB. Few of the longer ones are kept, because 16,384 of them
would take half a gigabyte."""
_INT32: Final = 0xFFFF_FFFF
_INT32_MIN_BITS: Final = 0x8000_0000
_PART_UNITS: Final = 256
_WEIGHTS: Final = tuple(pow(31, exponent, 2**32) for exponent in reversed(range(_PART_UNITS)))
"""Weights of the units of a part, of which the last has weight 1."""

M = TypeVar("M")


def java_string_hash(text: str) -> int:
    """Return the result of Java's `String.hashCode`: over UTF-16 units, a signed 32-bit number."""
    return _short_hash(text) if len(text) <= _SHORT_CHARACTERS else _long_hash(text)


def _hash(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    units = unpack(f">{len(data) // 2}H", data)
    value = 0
    # In parts, because a loop over the characters of a long name would take milliseconds.
    for begin in range(0, len(units), _PART_UNITS):
        part = units[begin : begin + _PART_UNITS]
        weights = _WEIGHTS[-len(part) :]
        value = (value * weights[0] * 31 + sum(map(mul, part, weights))) & _INT32
    return value - (_INT32 + 1) if value & _INT32_MIN_BITS else value


# Called twice per request of a group: without the cache it is half the cost of a commit
# (benchmarks/loads/group_load.py).
_short_hash = lru_cache(maxsize=_CACHED_HASHES)(_hash)
_long_hash = lru_cache(maxsize=_CACHED_LONG_HASHES)(_hash)


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of an internal topic that holds a group or a transactional id."""
    value = abs(java_string_hash(key))
    # Java cannot negate its smallest integer; Kafka uses 0 instead.
    return 0 if value == _INT32_MIN_BITS else value % partition_count


def with_version(message: object, version: int) -> bytes:
    """Return `message` behind its version, as a record of an internal topic holds it."""
    return _VERSION.pack(version) + encode(message, version)


def without_version(message_type: type[M], data: bytes, last_version: int) -> M:
    """Return the message behind the version in `data`.

    Raises:
        DecodeError: the message is damaged, or newer than `last_version`.
    """
    version = version_of(data)
    if not 0 <= version <= last_version:
        raise DecodeError(
            f"{message_type.__name__} version {version}, the last known is {last_version}"
        )
    return decode(message_type, memoryview(data)[_VERSION.size :], version)


def version_of(data: bytes) -> int:
    """Return the version at the head of a key or value.

    Raises:
        DecodeError: `data` is too short.
    """
    try:
        version: int = _VERSION.unpack_from(data)[0]
    except struct_error:
        raise DecodeError(f"{len(data)} bytes cannot hold a version") from None
    return version
