"""Hostile requests: any declared message, with values that a careless decoder fails on.

Half of the values are chosen by the field's name from existing topics, groups and epochs of the
broker, so that requests pass the first check. The others are edge cases of their type. At most one
array of a message is very long. All choices come from one source of randomness.
"""

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Final

from kafkawire.apis import APIS, Api, ApiKey
from kafkawire.compression import Codec
from kafkawire.declaration import Field, Kind, Layout, WireType, layout_of
from kafkawire.errors import EncodeError
from kafkawire.headers import encode_request
from kafkawire.records import BatchBuilder
from tests.unit.kafkawire.message_values import BIT_COUNTS, UNSIGNED

NOW_MS: Final = 1_700_000_000_000
STRINGS: Final = (
    "", "a", ".", "..", "../../etc/passwd", "t\0t", "\0", "zażółć gęślą jaźń", "\U0001f409" * 60,
    "t-0", "%s%n{0}", "\n\x1b[31m", "x" * 249, "x" * 250, "y" * 32_767,
)  # fmt: skip
COUNTS: Final = (1_000, 20_000, 200_000)
"""Numbers of elements of a very long array."""
LONG_ARRAY_BYTES: Final = 2 << 20
"""Approximate limit of the size of a very long array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Names and numbers that exist in the broker under test, and so pass its first checks."""

    topics: Sequence[str]
    topic_ids: Sequence[uuid.UUID]
    groups: Sequence[str] = ("g", "other")
    broker_id: int = 1
    partitions: int = 4


class HostileValues:
    """Generates messages of one version for one broker."""

    def __init__(self, version: int, rng: random.Random, around: Surroundings) -> None:
        self._version = version
        self._rng = rng
        self._around = around
        self._long_arrays_left = 1 if rng.random() < 0.1 else 0

    def struct(self, layout: Layout) -> object:
        """Return a message or a part of one, with the fields of the version."""
        present = [each for each in layout.fields if each.is_in(self._version)]
        return layout.type(**{each.name: self._field(each) for each in present})

    def _field(self, each: Field) -> object:
        rng = self._rng
        has_default = each.default is not None or each.is_nullable_in(self._version)
        if has_default and rng.random() < (0.5 if each.tag is not None else 0.1):
            return each.default
        if each.is_nullable_in(self._version) and each.tag is None and rng.random() < 0.15:
            return None
        return self._value(each.wire, each.name)

    def _value(self, wire: WireType[object], name: str) -> object:
        rng = self._rng
        if wire.kind is Kind.STRING:
            return self._string(name)
        if wire.kind is Kind.UUID:
            return rng.choice((*self._around.topic_ids, uuid.UUID(int=rng.getrandbits(128))))
        if wire.kind in (Kind.BYTES, Kind.RECORDS):
            return self._bytes()
        if wire.kind is Kind.FIXED:
            return self._number(wire, name)
        if wire.layout is not None:
            return self.struct(wire.layout)
        assert wire.element is not None
        return self._array(wire.element, name)

    def _array(self, element: WireType[object], name: str) -> list[object]:
        rng = self._rng
        if self._long_arrays_left and rng.random() < 0.5:
            self._long_arrays_left = 0
            values = [self._value(element, name) for _ in range(rng.choice((1, 3, 50)))]
            most = LONG_ARRAY_BYTES // max(1, sum(map(_size_of, values)) // len(values))
            return (values * (rng.choice(COUNTS) // len(values)))[:most]
        values = [self._value(element, name) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        return values * 2 if rng.random() < 0.1 else values

    def _string(self, name: str) -> str:
        rng, around = self._rng, self._around
        if rng.random() < 0.3:
            return rng.choice(STRINGS)
        if name == "name" or "topic" in name:
            return rng.choice((*around.topics, "__consumer_offsets", f"new-{rng.randrange(5)}"))
        if "group" in name and "instance" not in name:
            return rng.choice(around.groups)
        if name in ("key", "keys", "resource_name", "host"):
            return rng.choice((*around.topics, *around.groups, str(around.broker_id), "127.0.0.1"))
        return rng.choice(("a", "consumer", "range", "cleanup.policy", "compact", *around.topics))

    def _number(self, wire: WireType[object], name: str) -> object:
        rng = self._rng
        if wire.code == "?":
            return rng.random() < 0.5
        if wire.code == "d":
            return rng.choice((0.0, -1.5, 1e300, float("nan"), float("inf"), rng.random()))
        bits = BIT_COUNTS[wire.code]
        low = 0 if wire.code in UNSIGNED else -(1 << (bits - 1))
        high = low + (1 << bits) - 1
        if name in ("session_timeout_ms", "rebalance_timeout_ms"):
            return rng.choice((-1, 0, 6_000, high))
        if name.endswith("timeout_ms") or name in ("max_wait_ms", "num_partitions", "count"):
            # Kept small: a request to wait, or for many partitions, is legitimate.
            return rng.choice((-1, 0, 1, 2))
        if rng.random() < 0.5:
            return rng.choice((0, 0, 1, 2, 3, self._around.broker_id))
        return rng.choice((-1 if low else 0, low, high, rng.randint(low, high)))

    def _bytes(self) -> bytes:
        rng = self._rng
        kind = rng.randrange(6)
        if kind == 0:
            return rng.randbytes(rng.choice((0, 1, 60, 61, 400, 70_000)))
        builder = BatchBuilder(codec=rng.choice(list(Codec)))
        for number in range(rng.choice((1, 1, 3, 100))):
            key = rng.choice((None, b"", b"k%d" % number))
            builder.append(NOW_MS + number, key, rng.choice((None, b"", b"v" * 100)))
        batch = bytearray(builder.build())
        for _ in range(rng.choice((0, 0, 1, 3))):
            batch[rng.randrange(len(batch))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        return bytes(batch * rng.choice((1, 1, 2)))


def _size_of(value: object) -> int:
    """Return the approximate size of a value on the wire, in bytes."""
    if isinstance(value, str | bytes):
        return len(value) + 2
    if isinstance(value, list):
        return sum(map(_size_of, value)) + 4
    if is_dataclass(value):
        return sum(_size_of(getattr(value, each.name)) for each in fields(value))
    return 4


NUMBERS: Final = (0, 1, -1, 0x7FFF, 0x7FFFFFFF, -0x80000000, 0x01000000)
VARINTS: Final = (
    b"\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x80",
)


def mutated(frame: bytes, rng: random.Random) -> bytes:
    """Return `frame` with some bytes changed, cut or repeated; its size may be wrong."""
    body = bytearray(frame[4:])
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(body) + 1)
        match rng.randrange(6):
            case 0:
                body[place : place + 1] = bytes((rng.randrange(256),))
            case 1:
                body[place : place + 4] = rng.choice(NUMBERS).to_bytes(4, "big", signed=True)
            case 2:
                body[place : place + 1] = rng.choice(VARINTS)
            case 3:
                del body[place:]
            case 4:
                body[place:place] = rng.randbytes(rng.choice((1, 4, 100)))
            case 5:
                body[place:place] = body[place : place + rng.choice((1, 8, 200))]
    size = len(body)
    if rng.random() < 0.05:
        size = rng.choice((0, 1, size + 1, size - 1, -1, 0x7FFFFFFF, 100 << 20))
    return max(-(1 << 31), min(size, (1 << 31) - 1)).to_bytes(4, "big", signed=True) + body


def hostile_frame(rng: random.Random, around: Surroundings) -> tuple[str, bytes]:
    """Return the name of a request and its bytes, for any served API and version."""
    key, api = rng.choice(SERVED)
    assert api.advertised is not None
    version = rng.randint(*api.advertised)
    values = HostileValues(version, rng, around)
    client_id = rng.choice((None, "", "fuzz", "fuzz", "fuzz", "c" * 32_767, "\0\n\x1b"))
    frame = _frame(key, version, client_id, lambda: values.struct(layout_of(api.request)), rng)
    kind = f"{api.name} v{version}"
    if rng.random() < 0.4:
        return f"{kind}, mutated", mutated(frame, rng)
    return kind, frame


SERVED: Final[Sequence[tuple[ApiKey, Api]]] = [
    (key, api) for key, api in APIS.items() if api.advertised is not None
]


def _frame(
    key: ApiKey,
    version: int,
    client_id: str | None,
    make: Callable[[], object],
    rng: random.Random,
) -> bytes:
    while True:
        try:
            return encode_request(key, version, rng.getrandbits(31), client_id, make())
        except EncodeError:
            # This version cannot encode a value: draw another one.
            continue
