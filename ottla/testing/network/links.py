"""Links between parties, and the faults on them (decision).

A party is a broker, by its id; the coordinator; or all clients together. A link joins two parties,
in both directions.
"""

import math
import struct
from collections.abc import Iterable
from typing import Final, NewType, TypeAlias

Party = NewType("Party", int)
"""A broker's id, or one of the two below."""
CLIENTS: Final = Party(-1)
COORDINATOR: Final = Party(-2)
Link: TypeAlias = frozenset[Party]

_HEAD: Final = struct.Struct(">ihhih")
"""A request's size, API key, version, correlation id, and the length of its client id."""
MAX_CLIENT_ID_BYTES: Final = 100
"""Far longer than the ids with which brokers connect to each other."""


class Links:
    """The faults of each link; a link without a fault passes data at once."""

    def __init__(self) -> None:
        self._cut: set[Link] = set()
        self._delays_s: dict[Link, float] = {}

    def cut(self, links: Iterable[Link]) -> None:
        """Let no more data pass on `links`."""
        self._cut.update(links)

    def slow(self, links: Iterable[Link], delay_s: float) -> None:
        """Delay all data on `links`, in each direction."""
        self._delays_s.update(dict.fromkeys(links, delay_s))

    def heal(self, links: Iterable[Link] | None = None) -> None:
        """End the faults of `links`, by default of all."""
        for link in list(self._cut | self._delays_s.keys()) if links is None else links:
            self._cut.discard(link)
            self._delays_s.pop(link, None)

    def is_cut(self, link: Link) -> bool:
        """Whether no data may pass."""
        return link in self._cut

    def delay_s(self, link: Link) -> float:
        """Return the delay of data on a link, in seconds."""
        return self._delays_s.get(link, 0.0)


def check_delay(delay_s: float) -> None:
    """Check that data can be delayed by `delay_s`.

    Raises:
        ValueError: it is negative or no finite number.
    """
    if not 0 <= delay_s < math.inf:
        raise ValueError(f"delay_s must be a number of seconds from 0, got {delay_s}")


def link_between(one: Party, other: Party) -> Link:
    """Return the link between two parties."""
    return frozenset((one, other))


def missing_bytes(received: bytes) -> int:
    """Return how many bytes of a first request must still arrive to know its sender."""
    if len(received) < _HEAD.size:
        return _HEAD.size - len(received)
    length: int = _HEAD.unpack_from(received)[-1]
    return max(0, _HEAD.size + min(length, MAX_CLIENT_ID_BYTES) - len(received))


def sender_of(received: bytes) -> Party | None:
    """Return the broker that sent a first request, by its client id; None if it is no broker's.

    A broker connects with its id, or for fetches with `broker-ID-fetcher-N`.
    """
    length = _HEAD.unpack_from(received)[-1]
    client_id = received[_HEAD.size : _HEAD.size + max(0, length)]
    number = client_id.removeprefix(b"broker-").partition(b"-")[0]
    return Party(int(number)) if number.isdigit() else None
