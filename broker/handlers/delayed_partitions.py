"""A request that waits for a condition in each of its partitions (decision).

Produce with acks=all (`produce`) and DeleteRecords (`delete_records`) wait here. The effects of the
request remain: neither a timeout nor a lost connection reverts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from broker.network.reply import Reply
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicPartition


class Answer(Protocol):
    """Response for one partition."""

    error_code: int


A = TypeVar("A", bound=Answer)
T = TypeVar("T")


class DelayedPartitions(Generic[T, A]):
    """An operation for the purgatory: satisfied when every partition is decided."""

    def __init__(
        self,
        response: object,
        awaited: Mapping[TopicPartition, tuple[T, A]],
        is_decided: Callable[[TopicPartition, T, A], bool],
        on_complete: Callable[[], None] | None = None,
    ) -> None:
        """Wait for the partitions in `awaited`.

        `is_decided` checks one partition, and fills in its response once it is decided. It may
        raise an ApiError, which decides the partition too. `on_complete` is called before the
        response is sent.
        """
        self.reply = Reply()
        self._response = response
        self._awaited = dict(awaited)
        self._is_decided = is_decided
        self._on_complete = on_complete

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """Partitions that are not decided yet."""
        return list(self._awaited)

    def is_satisfied(self, changed: TopicPartition | None) -> bool:
        """Whether every partition is decided; only `changed` is checked, or all for None."""
        for partition in [changed] if changed else list(self._awaited):
            if partition in self._awaited and self._check(partition):
                del self._awaited[partition]
        return not self._awaited

    def complete(self) -> None:
        """Respond; partitions that are not decided by now have timed out."""
        for _, answer in self._awaited.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        if self._on_complete is not None:
            self._on_complete()
        self.reply.complete(self._response)

    def _check(self, partition: TopicPartition) -> bool:
        wanted, answer = self._awaited[partition]
        try:
            return self._is_decided(partition, wanted, answer)
        except ApiError as error:
            answer.error_code = error.code
            return True
