"""librdkafka's requests for access control entries, through confluent-kafka's AdminClient."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.acl_client import WITH_AUTHORIZER, reserve_for_admin
from tests.integration.broker.wire import Wire

TIMEOUT_S = 30.0


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    started = BrokerProcess(tmp_path_factory.mktemp("broker"), WITH_AUTHORIZER)
    try:
        started.wait_for_event(READY_EVENT)
        yield started
    finally:
        started.kill()


def entry(name: str, operation: AclOperation, permission: AclPermissionType) -> Any:
    return AclBinding(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.PREFIXED,
        "User:ANONYMOUS",
        "*",
        operation,
        permission,
    )


def entries_of(name: str, operation: AclOperation = AclOperation.ANY) -> Any:
    # The declared types do not allow None, which matches everything.
    make: Any = AclBindingFilter
    kind, pattern_type = ResourceType.ANY, ResourcePatternType.ANY
    return make(kind, name, pattern_type, None, None, operation, AclPermissionType.ANY)


def test_entries_are_created_described_obeyed_and_deleted(broker: BrokerProcess) -> None:
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap}
    admin = AdminClient(settings)
    with Wire(broker.port) as wire:
        wire.create_topic("orders")
        reserve_for_admin(wire)
    read = entry("ord", AclOperation.READ, AclPermissionType.ALLOW)
    deny = entry("ord", AclOperation.WRITE, AclPermissionType.DENY)
    for created in admin.create_acls([read, deny], request_timeout=TIMEOUT_S).values():
        assert created.result(TIMEOUT_S) is None
    found = admin.describe_acls(entries_of("ord"), request_timeout=TIMEOUT_S)
    assert set(found.result(TIMEOUT_S)) == {read, deny}

    denied = produce(settings)
    assert denied is not None
    assert denied.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED

    of_writes = entries_of("ord", AclOperation.WRITE)
    [deleted] = admin.delete_acls([of_writes], request_timeout=TIMEOUT_S).values()
    assert deleted.result(TIMEOUT_S) == [deny]
    assert produce(settings) is None


def produce(settings: Any) -> confluent_kafka.KafkaError | None:
    """Send a record with a new producer: librdkafka remembers a denial for some time."""
    errors: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce("orders", b"x", on_delivery=lambda error, _message: errors.append(error))
    producer.flush(TIMEOUT_S)
    [error] = errors
    return error


def test_entry_that_is_refused_is_reported_to_its_future(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    bad = entry("a/b", AclOperation.READ, AclPermissionType.ALLOW)
    [created] = admin.create_acls([bad], request_timeout=TIMEOUT_S).values()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        created.result(TIMEOUT_S)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.INVALID_REQUEST
