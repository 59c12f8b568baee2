"""Applies the functions of the application to records before they are accepted (edge).

In this order: interceptors, serializers, partitioner. A producer without any of them has no
`RecordHooks`, and its records take the short way.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ottla.client.argument import record_mistake, require_list
from ottla.client.background import is_cancellation
from ottla.client.errors import ConfigurationError, SerializationError
from ottla.client.interceptor import (
    ProducerInterceptor,
    ProducerRecord,
    intercept_acknowledgement,
    intercept_send,
)
from ottla.client.producer.producer_batch import Delivery
from ottla.client.record import UnsentRecord
from ottla.client.serialization import Encode, Serializer, parse_serializer

Partitioner: TypeAlias = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""Returns the partition of a key, given all partitions and the ones with a leader."""


class RecordHooks:
    """The serializers, partitioner and interceptors of one producer."""

    def __init__(
        self,
        encode_key: Encode | None,
        encode_value: Encode | None,
        partitioner: Partitioner | None,
        interceptors: Sequence[ProducerInterceptor],
    ) -> None:
        self.has_partitioner = partitioner is not None
        self._encode_key = encode_key
        self._encode_value = encode_value
        self._partitioner = partitioner
        self._interceptors = interceptors

    async def encoded(self, record: ProducerRecord) -> UnsentRecord:
        """Return `record` with bytes for key and value.

        Raises:
            SerializationError: a serializer raised.
            TypeError: a part of the record is neither bytes nor None.
        """
        record = intercept_send(self._interceptors, record)
        key = _encoded("key", self._encode_key, record.topic, record.key)
        if inspect.isawaitable(key):
            key = await _awaited("key", record.topic, key)
        value = _encoded("value", self._encode_value, record.topic, record.value)
        if inspect.isawaitable(value):
            value = await _awaited("value", record.topic, value)
        return _unsent(record, key, value)

    def encoded_now(self, record: ProducerRecord) -> UnsentRecord:
        """Return `record` with bytes for key and value, without waiting.

        Raises:
            ConfigurationError: a serializer is async.
            SerializationError, TypeError: as for `encoded`.
        """
        record = intercept_send(self._interceptors, record)
        key = _encoded("key", self._encode_key, record.topic, record.key)
        value = _encoded("value", self._encode_value, record.topic, record.value)
        is_waiting = False
        for part in (key, value):
            if inspect.isawaitable(part):
                is_waiting = True
                if inspect.iscoroutine(part):
                    part.close()
        if is_waiting:
            raise ConfigurationError("send_nowait cannot wait for an async serializer: use send")
        return _unsent(record, key, value)

    def choose(
        self, record: UnsentRecord, partitions: Sequence[int], available: Sequence[int]
    ) -> UnsentRecord:
        """Return `record` with the partition that the partitioner chooses, unless it has one.

        Raises:
            ConfigurationError: the partitioner returned no partition of the topic.
        """
        if self._partitioner is None or record.partition is not None:
            return record
        key = None if record.key is None else bytes(record.key)
        chosen = self._partitioner(key, partitions, available)
        if chosen not in partitions:
            raise ConfigurationError(
                f"partitioner returned {chosen!r} for topic {record.topic}, which has partitions "
                f"0..{len(partitions) - 1}"
            )
        return record._replace(partition=int(chosen))

    def watch(self, delivery: Delivery) -> None:
        """Report the outcome of `delivery` to the interceptors."""
        if self._interceptors:
            delivery.add_done_callback(self._on_done)

    def on_refused(self, error: BaseException) -> None:
        """Report to the interceptors that a record was not accepted."""
        intercept_acknowledgement(self._interceptors, None, error)

    def _on_done(self, delivery: asyncio.Future[Any]) -> None:
        if delivery.cancelled():
            self.on_refused(asyncio.CancelledError())
        elif (error := delivery.exception()) is not None:
            self.on_refused(error)
        else:
            intercept_acknowledgement(self._interceptors, delivery.result(), None)


def make_hooks(
    key_serializer: Serializer | None,
    value_serializer: Serializer | None,
    partitioner: Partitioner | None,
    interceptors: Sequence[ProducerInterceptor],
) -> RecordHooks | None:
    """Return the hooks of a producer, None if it has none.

    Raises:
        ConfigurationError: one of them cannot be called.
    """
    encode_key = parse_serializer("key_serializer", key_serializer)
    encode_value = parse_serializer("value_serializer", value_serializer)
    if partitioner is not None and not callable(partitioner):
        raise ConfigurationError(f"partitioner must be a function, got {partitioner!r}")
    listed = require_list("interceptors", "interceptors", interceptors)
    for each in listed:
        if not isinstance(each, ProducerInterceptor):
            raise ConfigurationError(
                f"interceptors must be of the class ProducerInterceptor, got {each!r}"
            )
    if encode_key is None and encode_value is None and partitioner is None and not listed:
        return None
    return RecordHooks(encode_key, encode_value, partitioner, tuple(listed))


def _encoded(part: str, encode: Encode | None, topic: str, value: Any) -> Any:
    if encode is None:
        return value
    try:
        return encode(topic, value)
    except (Exception, asyncio.CancelledError) as error:
        if is_cancellation(error):
            raise
        raise SerializationError(part, topic, error) from error


async def _awaited(part: str, topic: str, encoded: Any) -> Any:
    try:
        return await encoded
    except (Exception, asyncio.CancelledError) as error:
        if is_cancellation(error):
            raise
        raise SerializationError(part, topic, error) from error


def _unsent(record: ProducerRecord, key: Any, value: Any) -> UnsentRecord:
    if (mistake := record_mistake(value, key, record.headers)) is not None:
        raise mistake
    return UnsentRecord(
        record.topic, value, key, record.partition, record.timestamp_ms, record.headers
    )
