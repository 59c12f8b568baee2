"""Cuts a long list into parts that brokers accept in one request (decision)."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

MAX_PARTITIONS_PER_REQUEST: Final = 4_000
"""Brokers of Ottla refuse a request with more than 10,000 topics and partitions."""


def parts(named: Iterable[T], size: int | None = None) -> Iterator[list[T]]:
    """Yield the part of each request: up to `size`, or as many partitions as a broker accepts."""
    left = iter(named)
    while part := list(islice(left, size or MAX_PARTITIONS_PER_REQUEST)):
        yield part
