"""Every declared message agrees with kio, which is generated from Kafka's own schemas.

kio encodes a message and kafkawire decodes it: equal. kafkawire encodes it: the same bytes. kio
decodes those: equal. kio has a class per version, whose fields have the same order and names as
ours, except that times are objects and their names lack "_ms".
"""

import dataclasses
import datetime
import io
from collections.abc import Sequence
from typing import Any

import pytest
from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware

from kafkawire.apis import APIS, Api, ApiKey
from kafkawire.declaration import Field, Kind, Layout, WireType, layout_of
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.schema import decode, encode
from tests.unit.kafkawire.message_values import message_of, versions

SEEDS = range(12)

# kio is generated from Kafka 4, which has dropped these (KIP-896, and ZooKeeper with its
# controller). test_kio_gaps.py and the golden bytes of the unit tests cover them.
NOT_IN_KIO = {
    ApiKey.PRODUCE: range(3),
    ApiKey.LIST_OFFSETS: range(1),
    ApiKey.LEADER_AND_ISR: range(8),
    ApiKey.STOP_REPLICA: range(5),
    ApiKey.UPDATE_METADATA: range(9),
    ApiKey.CONTROLLED_SHUTDOWN: range(4),
    ApiKey.OFFSET_COMMIT: range(2),
    ApiKey.OFFSET_FETCH: range(1),
    ApiKey.CREATE_TOPICS: range(2),
    ApiKey.DELETE_TOPICS: range(1),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: range(2),
    ApiKey.WRITE_TXN_MARKERS: range(1),
    ApiKey.DESCRIBE_ACLS: range(1),
    ApiKey.CREATE_ACLS: range(1),
    ApiKey.DELETE_ACLS: range(1),
    ApiKey.DESCRIBE_CONFIGS: range(1),
    ApiKey.CREATE_DELEGATION_TOKEN: range(1),
    ApiKey.RENEW_DELEGATION_TOKEN: range(1),
    ApiKey.EXPIRE_DELEGATION_TOKEN: range(1),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: range(1),
    ApiKey.ALTER_REPLICA_LOG_DIRS: range(1),
    ApiKey.DESCRIBE_LOG_DIRS: range(1),
    ApiKey.ALTER_PARTITION: range(2),
}

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# kio computes times as floats of seconds, which are a microsecond off beyond this.
MAX_KIO_MS = 2**41

CASES = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in APIS.values()
    for version in versions(api)
    if version not in NOT_IN_KIO.get(api.key, ())
]


@pytest.mark.parametrize(("api", "version"), CASES)
def test_requests_agree_with_kio(api: Api, version: int) -> None:
    check(api.request, version, load_request_schema(api.key, version))


@pytest.mark.parametrize(("api", "version"), CASES)
def test_responses_agree_with_kio(api: Api, version: int) -> None:
    check(api.response, version, load_response_schema(api.key, version))


@pytest.mark.parametrize("key", NOT_IN_KIO, ids=lambda key: key.name)
def test_kio_lacks_exactly_the_versions_that_are_excluded(key: ApiKey) -> None:
    def is_missing(version: int) -> bool:
        try:
            load_request_schema(key, version)
        except (UnknownAPIKey, UnknownEntity):
            return True
        return False

    assert [v for v in versions(APIS[key]) if is_missing(v)] == list(NOT_IN_KIO[key])


def check(message_type: type[object], version: int, kio_type: type[Any]) -> None:
    layout = layout_of(message_type)
    assert kio_type.__name__ == message_type.__name__
    assert kio_type.__flexible__ == layout.is_flexible_in(version)
    bridge = Bridge(version)
    for seed in SEEDS:
        theirs = bridge.to_kio(layout, message_of(message_type, version, seed), kio_type)
        ours = bridge.from_kio(layout, theirs)
        stream = io.BytesIO()
        entity_writer(kio_type)(stream, theirs)
        data = stream.getvalue()
        assert decode(message_type, data, version) == ours
        assert encode(ours, version) == data
        read, size = entity_reader(kio_type)(encode(ours, version), 0)
        assert (read, size) == (theirs, len(data))


class Bridge:
    """Translates values between our classes and kio's for one version, field by field."""

    def __init__(self, version: int) -> None:
        self._version = version

    def to_kio(self, layout: Layout, ours: object, kio_type: type[Any]) -> Any:
        pairs = self._pairs(layout, kio_type)
        return kio_type(
            **{
                theirs.name: self._value_to_kio(each.wire, getattr(ours, each.name), theirs)
                for each, theirs in pairs
            }
        )

    def from_kio(self, layout: Layout, theirs: Any) -> object:
        pairs = self._pairs(layout, type(theirs))
        return layout.type(
            **{
                each.name: self._value_from_kio(each.wire, getattr(theirs, other.name))
                for each, other in pairs
            }
        )

    def _pairs(
        self, layout: Layout, kio_type: type[Any]
    ) -> Sequence[tuple[Field, dataclasses.Field[Any]]]:
        ours = [each for each in layout.fields if each.is_in(self._version)]
        theirs = dataclasses.fields(kio_type)
        assert [each.name.removesuffix("_ms") for each in ours] == [
            each.name.removesuffix("_ms") for each in theirs
        ]
        assert [each.tag for each in ours] == [each.metadata.get("tag") for each in theirs]
        return list(zip(ours, theirs, strict=True))

    def _value_to_kio(self, wire: WireType[object], value: Any, field: Any) -> Any:
        if value is None:
            return None
        if wire.layout is not None:
            return self.to_kio(wire.layout, value, without_none(field.type))
        if wire.element is not None:
            element_type = without_none(field.type).__args__[0]
            if wire.element.layout is not None:
                return tuple(self.to_kio(wire.element.layout, e, element_type) for e in value)
            return tuple(to_kio_scalar(field.metadata["kafka_type"], each) for each in value)
        if field.type is TZAware:
            # kio cannot write "no time" in a field that is not optional.
            value = max(value, 0)
        return to_kio_scalar(field.metadata["kafka_type"], value)

    def _value_from_kio(self, wire: WireType[object], value: Any) -> Any:
        if wire.kind is Kind.UUID:
            return value or ZERO_TOPIC_ID
        if isinstance(value, datetime.timedelta):
            return value // datetime.timedelta(milliseconds=1)
        if wire.name == "int64" and (value is None or isinstance(value, datetime.datetime)):
            return -1 if value is None else (value - EPOCH) // datetime.timedelta(milliseconds=1)
        if value is None:
            return None
        if wire.layout is not None:
            return self.from_kio(wire.layout, value)
        if wire.element is not None:
            return [self._value_from_kio(wire.element, each) for each in value]
        return int(value) if isinstance(value, KioErrorCode) else value


def to_kio_scalar(kafka_type: str, value: Any) -> Any:
    """Return kio's object for `value`, reduced to the range of kio's type."""
    if kafka_type == "error_code":
        return KioErrorCode(value)
    if kafka_type == "uuid":
        return None if value == ZERO_TOPIC_ID else value
    if kafka_type == "timedelta_i32":
        return datetime.timedelta(milliseconds=value)
    if kafka_type == "timedelta_i64":
        return datetime.timedelta(milliseconds=value % MAX_KIO_MS)
    if kafka_type == "datetime_i64":
        milliseconds = value % MAX_KIO_MS
        return None if value < 0 else EPOCH + datetime.timedelta(milliseconds=milliseconds)
    return value


def without_none(annotation: Any) -> Any:
    arguments = getattr(annotation, "__args__", ())
    if type(None) in arguments:
        return next(each for each in arguments if each is not type(None))
    return annotation
