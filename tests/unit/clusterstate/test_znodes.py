"""Codecs of Kafka's znodes, byte for byte."""

import uuid
from dataclasses import replace

import pytest

from clusterstate.errors import MalformedZnodeError
from clusterstate.leader_and_isr import LeaderAndIsr, LeaderRecoveryState
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.admin import decode_reassignment, encode_reassignment
from clusterstate.znodes.cluster_node import (
    MAX_PRODUCER_ID,
    ProducerIdBlock,
    decode_cluster_id,
    decode_producer_id_block,
    encode_cluster_id,
    encode_features,
    generated_broker_id,
    next_producer_id_block,
)
from clusterstate.znodes.config import (
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
)
from clusterstate.znodes.controller_node import (
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from clusterstate.znodes.json_object import JsonObject
from clusterstate.znodes.notification import (
    decode_log_dir_event,
    decode_partitions,
    encode_log_dir_event,
    encode_partitions,
)
from clusterstate.znodes.partition_node import decode_partition_state, encode_partition_state
from clusterstate.znodes.registration import Endpoint, Registration, decode_registration
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from kafkawire.ids import BrokerId, LeaderEpoch, ProducerId, TopicPartition

B0, B1, B2, B3 = map(BrokerId, range(4))
T0 = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
REGISTERED = Registration(
    broker_id=B1,
    endpoints=(Endpoint("PLAINTEXT", "h", 9092),),
    security_protocols={"PLAINTEXT": "PLAINTEXT"},
)


def test_a_registration_is_encoded_in_version_5() -> None:
    assert REGISTERED.encode(timestamp_ms=1700000000000) == (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h","version":5,'
        b'"timestamp":"1700000000000"}'
    )


def test_a_registration_with_rack_and_without_plaintext_is_encoded_in_version_4() -> None:
    secure = Registration(
        broker_id=B1,
        endpoints=(Endpoint("IN", "::1", 9093),),
        security_protocols={"IN": "SSL"},
        rack="r1",
    )
    data = secure.encode(timestamp_ms=5, version=4)
    assert data == (
        b'{"listener_security_protocol_map":{"IN":"SSL"},"endpoints":["IN://[::1]:9093"],'
        b'"rack":"r1","jmx_port":-1,"port":-1,"host":null,"version":4,"timestamp":"5"}'
    )
    assert decode_registration(B1, data) == secure


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2233345666"}',
        b'{"version":2,"host":"h","port":9092,"endpoints":["PLAINTEXT://h:9092"]}',
        b'{"version":3,"host":"h","port":9092,"endpoints":["PLAINTEXT://h:9092"],"rack":null}',
        REGISTERED.encode(timestamp_ms=5, version=4),
        REGISTERED.encode(timestamp_ms=5, version=5),
    ],
)
def test_a_registration_is_decoded_in_every_version(data: bytes) -> None:
    assert decode_registration(B1, data) == REGISTERED


def test_only_later_registrations_of_a_process_name_its_first_epoch() -> None:
    assert b"first_epoch" not in REGISTERED.encode(timestamp_ms=5)
    later = replace(REGISTERED, first_epoch=27)
    assert decode_registration(B1, later.encode(timestamp_ms=5)) == later
    with pytest.raises(MalformedZnodeError):
        decode_registration(B1, later.encode(timestamp_ms=5).replace(b"27", b'"x"'))


@pytest.mark.parametrize("listener", ["CLIENT.A", "CLIENT A", "KÖLN", "A:B"])
def test_a_listener_has_any_name_that_kafka_accepts(listener: str) -> None:
    endpoint = Endpoint(listener, "::1", 9092)
    registered = Registration(
        broker_id=B1, endpoints=(endpoint,), security_protocols={listener: "SSL"}
    )
    assert decode_registration(B1, registered.encode(timestamp_ms=5)) == registered


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"[]",
        b'{"version":6}',
        b'{"version":"x"}',
        b'{"version":true}',
        b'{"version":5,"endpoints":["nonsense"]}',
        b'{"version":5,"endpoints":["PLAINTEXT://h/:9092"]}',
        b'{"version":5,"endpoints":["PLAINTEXT://h"]}',
        b'{"version":5,"endpoints":[9]}',
        b'{"version":5,"endpoints":{}}',
        b'{"version":1,"host":7,"port":1}',
        b'{"version":5,"endpoints":[],"listener_security_protocol_map":{"A":1}}',
    ],
)
def test_a_malformed_registration_is_refused(data: bytes | None) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_registration(B1, data)


def test_the_controller_and_its_epoch_round_trip() -> None:
    data = encode_controller(B1, 1700000000000)
    assert data == (
        b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    )
    assert decode_controller(data) == B1
    assert decode_controller(b'{"version":1,"brokerid":3,"timestamp":"1"}') == B3
    assert encode_controller_epoch(12) == b"12"
    assert decode_controller_epoch(b"12") == 12
    with pytest.raises(MalformedZnodeError):
        decode_controller_epoch(b"twelve")


def test_a_topic_in_version_3_lists_its_partitions_in_order() -> None:
    topic = TopicAssignment(
        TOPIC_ID,
        {
            11: ReplicaAssignment(replicas=(B2,)),
            0: ReplicaAssignment(replicas=(B2, B3, B1), adding=(B2, B3), removing=(B1,)),
        },
    )
    data = topic.encode()
    assert data == (
        b'{"partitions":{"0":[2,3,1],"11":[2]},"topic_id":"D4-tW9nLRp-hZXCGdyiVDg",'
        b'"adding_replicas":{"0":[2,3]},"removing_replicas":{"0":[1]},"version":3}'
    )
    assert decode_topic(data) == topic


def test_a_topic_without_an_id_keeps_none() -> None:
    topic = TopicAssignment(None, {0: ReplicaAssignment(replicas=(B1, B2))})
    assert b"topic_id" not in topic.encode()
    assert decode_topic(b'{"version":1,"partitions":{"0":[1,2]}}') == topic
    assert decode_topic(b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{}}') == topic


@pytest.mark.parametrize(
    "data",
    [
        b"no",
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":{"0":["1"]}}',
        b'{"partitions":{},"topic_id":"short"}',
    ],
)
def test_a_malformed_topic_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_topic(data)


def test_a_partition_state_has_a_recovery_state_only_while_recovering() -> None:
    state = LeaderAndIsr(
        leader=B0,
        leader_epoch=LeaderEpoch(0),
        isr=(B0, B1),
        partition_epoch=4,
        controller_epoch=1,
    )
    data = encode_partition_state(state, 1)
    assert data == b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1]}'
    assert decode_partition_state(data, 4) == state
    recovering = LeaderAndIsr(
        leader=B2,
        leader_epoch=LeaderEpoch(3),
        isr=(B2,),
        recovery_state=LeaderRecoveryState.RECOVERING,
        partition_epoch=5,
        controller_epoch=2,
    )
    data = encode_partition_state(recovering, 2)
    assert data == (
        b'{"controller_epoch":2,"leader":2,"version":1,"leader_recovery_state":1,'
        b'"leader_epoch":3,"isr":[2]}'
    )
    assert decode_partition_state(data, 5) == recovering
    with pytest.raises(MalformedZnodeError):
        decode_partition_state(data.replace(b'state":1', b'state":7'), 5)


def test_configs_and_their_changes_round_trip() -> None:
    data = encode_config({"retention.ms": "1000"})
    assert data == b'{"version":1,"config":{"retention.ms":"1000"}}'
    assert decode_config(data) == {"retention.ms": "1000"}
    assert decode_config(None) == {}
    change = encode_config_change("topics/t")
    assert change == b'{"version":2,"entity_path":"topics/t"}'
    assert decode_config_change(change) == "topics/t"
    old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert decode_config_change(old) == "topics/t"
    with pytest.raises(MalformedZnodeError):
        decode_config_change(b'{"version":9}')


def test_notifications_to_the_controller_round_trip() -> None:
    data = encode_partitions([T0])
    assert data == b'{"version":1,"partitions":[{"topic":"orders","partition":0}]}'
    assert decode_partitions(data) == (T0,)
    event = encode_log_dir_event(B3)
    assert event == b'{"version":1,"broker":3,"event":1}'
    assert decode_log_dir_event(event) == B3


def test_a_reassignment_round_trips() -> None:
    data = encode_reassignment({T0: (B0, B1)})
    assert data == (
        b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[0,1]}]}'
    )
    assert decode_reassignment(data) == {T0: (B0, B1)}


def test_the_cluster_id_round_trips_and_broker_ids_are_generated() -> None:
    data = encode_cluster_id("D4-tW9nLRp-hZXCGdyiVDg")
    assert data == b'{"version":"1","id":"D4-tW9nLRp-hZXCGdyiVDg"}'
    assert decode_cluster_id(data) == "D4-tW9nLRp-hZXCGdyiVDg"
    assert generated_broker_id(1, reserved_max_id=1000) == 1001


def test_blocks_of_producer_ids_are_consecutive() -> None:
    first = next_producer_id_block(B0, None)
    assert first.encode() == b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    second = next_producer_id_block(B1, decode_producer_id_block(first.encode()))
    assert (second.first, second.last) == (1000, 1999)
    with pytest.raises(MalformedZnodeError):
        next_producer_id_block(B0, ProducerIdBlock(B0, ProducerId(0), ProducerId(MAX_PRODUCER_ID)))


def test_features_are_encoded_in_version_2() -> None:
    assert encode_features({}) == b'{"features":{},"version":2,"status":1}'
    assert encode_features({"f": 2}) == (
        b'{"features":{"f":{"max_version_level":2}},"version":2,"status":1}'
    )


def test_paths_are_kafkas() -> None:
    assert paths.broker(7) == "/brokers/ids/7"
    assert paths.partition_state(T0) == "/brokers/topics/orders/partitions/0/state"
    assert paths.topic_deletion("t") == "/admin/delete_topics/t"
    assert paths.config("topics/t") == "/config/topics/t"
    assert paths.parents("/brokers/ids/7") == ["/brokers", "/brokers/ids"]
    assert len(set(paths.PERSISTENT)) == 14


def test_integers_may_be_text_and_have_a_default() -> None:
    fields = JsonObject({"a": "12", "b": "x"})
    assert (fields.integer("a"), fields.integer("c", default=3)) == (12, 3)
    with pytest.raises(MalformedZnodeError):
        fields.integer("b")
    with pytest.raises(MalformedZnodeError):
        fields.integer("c")


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"config":{"SCRAM-SHA-256":"s3cret"}',
        b'{"version":1,"config":{"SCRAM-SHA-256":["s3cret"]}}',
        b'{"version":1,"config":["s3cret"]}',
        b'["s3cret"]',
        b'"s3cret"',
        b'{"version":1,"config":{"a":"s3cret' + b"[" * 100_000,
        b'{"version":1,"config":' + b"[" * 100_000,
    ],
)
def test_the_error_of_a_malformed_config_shows_no_value(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError) as caught:
        decode_config(data)
    assert "s3cret" not in str(caught.value)
