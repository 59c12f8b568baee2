"""Applies deserializers and interceptors to fetched records before they are handed over (edge).

A consumer without any of them has no `RecordHooks`, and its records take the short way.
"""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafkawire.ids import TopicPartition
from ottla.client.argument import require_list
from ottla.client.background import is_cancellation
from ottla.client.errors import ConfigurationError, DeserializationError
from ottla.client.interceptor import ConsumerInterceptor, intercept_commit, intercept_consume
from ottla.client.offset import CommittedOffset
from ottla.client.record import ConsumerRecord
from ottla.client.serialization import Decode, Deserializer, parse_deserializer


class Decoded(NamedTuple):
    """Records for the application, up to the one that `error` is about."""

    records: list[ConsumerRecord]
    error: DeserializationError | None


class RecordHooks:
    """The deserializers and interceptors of one consumer."""

    def __init__(
        self,
        decode_key: Decode | None,
        decode_value: Decode | None,
        interceptors: Sequence[ConsumerInterceptor],
    ) -> None:
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._interceptors = interceptors

    async def decoded(self, records: Sequence[ConsumerRecord]) -> Decoded:
        """Return the records with the values of keys and values."""
        found: list[ConsumerRecord] = []
        error: DeserializationError | None = None
        for record in records:
            try:
                key = await _decoded("key", self._decode_key, record, record.key)
                value = await _decoded("value", self._decode_value, record, record.value)
            except DeserializationError as failure:
                error = failure
                break
            found.append(record._replace(key=key, value=value))
        if found and self._interceptors:
            found = intercept_consume(self._interceptors, found)
        return Decoded(found, error)

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Report committed offsets to the interceptors."""
        if offsets:
            intercept_commit(self._interceptors, offsets)


def make_hooks(
    key_deserializer: Deserializer | None,
    value_deserializer: Deserializer | None,
    interceptors: Sequence[ConsumerInterceptor],
) -> RecordHooks | None:
    """Return the hooks of a consumer, None if it has none.

    Raises:
        ConfigurationError: one of them cannot be called.
    """
    decode_key = parse_deserializer("key_deserializer", key_deserializer)
    decode_value = parse_deserializer("value_deserializer", value_deserializer)
    listed = require_list("interceptors", "interceptors", interceptors)
    for each in listed:
        if not isinstance(each, ConsumerInterceptor):
            raise ConfigurationError(
                f"interceptors must be of the class ConsumerInterceptor, got {each!r}"
            )
    if decode_key is None and decode_value is None and not listed:
        return None
    return RecordHooks(decode_key, decode_value, tuple(listed))


async def _decoded(
    part: str, decode: Decode | None, record: ConsumerRecord, data: bytes | None
) -> Any:
    if decode is None:
        return data
    try:
        value = decode(record.topic, data)
        if inspect.isawaitable(value):
            value = await value
    except (Exception, asyncio.CancelledError) as error:
        if is_cancellation(error):
            raise
        where = TopicPartition(record.topic, record.partition)
        raise DeserializationError(part, where, record.offset, error) from error
    return value
