"""The records that every client writes, and that every client must read unchanged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

BASE_TIMESTAMP_MS: Final = 1_700_000_000_000
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
HEADERS: Final = (("trace", b"id-12"), ("empty", b""), ("trace", b"again"))


@dataclass(frozen=True, slots=True)
class Sample:
    """One record to write; with a timestamp of None the client sets the time."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Received:
    """One record as a reader received it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


def samples(count: int, seed: int) -> Iterator[Sample]:
    """Yield records with null and empty keys and values, arbitrary bytes, headers and times."""
    dice = random.Random(seed)
    for number in range(count):
        key = dice.choice((None, b"", f"key-{number % 97}".encode(), dice.randbytes(8)))
        values = (b"", dice.randbytes(dice.randint(1, 120)), _text(dice))
        yield Sample(
            key=key,
            # aiokafka and kafka-python refuse to write a record that has neither.
            value=dice.choice(values if key is None else (None, *values)),
            headers=HEADERS if number % 4 == 0 else (),
            timestamp_ms=BASE_TIMESTAMP_MS + number * 3 - dice.randint(0, 50),
        )


def plain_samples(count: int, seed: int) -> Iterator[Sample]:
    """Yield records that a line-oriented writer can express: text, one set of headers."""
    dice = random.Random(seed)
    for number in range(count):
        yield Sample(f"key-{number}".encode(), _text(dice), (("source", b"kcat"),), None)


def _text(dice: random.Random) -> bytes:
    return "".join(dice.choices(ALPHABET, k=dice.randint(1, 120))).encode()
