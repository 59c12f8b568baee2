"""The order of the commits to one group (decision).

Calls may overlap, and a call whose request failed sends it again later. Invariant: a request that
is repeated, or that leaves after that of a later call, never replaces the offset of that call.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kafkawire.ids import TopicPartition
from ottla.client.errors import OttlaError
from ottla.client.offset import CommittedOffset


class OvertakenError(OttlaError):
    """A request was not sent, since a later one may replace its offsets; its call tries again."""


class CommitCall:
    """One call that is underway."""

    def __init__(
        self, underway: list["CommitCall"], offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        self.left = dict(offsets)
        """The offsets that no later call has replaced."""
        self._underway = underway
        self.has_sent = False
        """Whether a request with offsets of this call has left."""

    def on_stored(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the coordinator has stored these offsets: earlier calls leave them out."""
        stored = list(partitions)
        for earlier in self._underway[: self._underway.index(self)]:
            for each in stored:
                earlier.left.pop(each, None)

    def is_followed(self) -> bool:
        """Whether a later call is underway that may replace one of the offsets."""
        return any(not self.left.keys().isdisjoint(each.left) for each in self._later())

    def is_overtaken(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether a later call has replaced, or may have replaced, one of these offsets."""
        wanted = set(partitions)
        return not wanted <= self.left.keys() or any(
            each.has_sent and not wanted.isdisjoint(each.left) for each in self._later()
        )

    def _later(self) -> list["CommitCall"]:
        return self._underway[self._underway.index(self) + 1 :]


class CommitOrder:
    """The calls that are underway, in the order of their beginning."""

    def __init__(self) -> None:
        self._underway: list[CommitCall] = []

    @contextmanager
    def call(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Iterator[CommitCall]:
        """Begin a call that commits `offsets`; it ends with the block."""
        call = CommitCall(self._underway, offsets)
        self._underway.append(call)
        try:
            yield call
        finally:
            self._underway.remove(call)
