"""A request that waits for something in each of its partitions (decision).

What the request did stays done: neither a timeout nor a lost connection takes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from broker.network.reply import Reply
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicPartition


class Answer(Protocol):
    """What is told of one partition."""

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
    ) -> None:
        """Wait for what is `awaited`; `is_decided` looks, and fills in the answer when it is.

        It may raise an ApiError, which decides the partition too.
        """
        self.reply = Reply()
        self._response = response
        self._awaited = dict(awaited)
        self._is_decided = is_decided

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """What is waited for."""
        return list(self._awaited)

    def is_satisfied(self, changed: TopicPartition | None) -> bool:
        """Whether nothing is left to wait for, looking again at what has changed."""
        for partition in [changed] if changed else list(self._awaited):
            if partition in self._awaited and self._look_at(partition):
                del self._awaited[partition]
        return not self._awaited

    def complete(self) -> None:
        """Answer; what is not decided by now has timed out."""
        for _, answer in self._awaited.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.reply.complete(self._response)

    def _look_at(self, partition: TopicPartition) -> bool:
        wanted, answer = self._awaited[partition]
        try:
            return self._is_decided(partition, wanted, answer)
        except ApiError as error:
            answer.error_code = error.code
            return True
