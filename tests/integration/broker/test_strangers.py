"""A peer without a password, and a user without rights, at a broker with all of its defences.

Every request that could do damage on an open broker is refused here: before authentication without
an answer, and afterwards with an error. The broker must be unharmed by all of them. Memory, time
and connections for strangers are bounded.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from broker.handlers.guards.guard_table import OPEN_TO_ALL
from broker.network.sasl_gate import MAX_WAITING
from clusterstate.znodes.config import encode_config
from clusterstate.znodes.scram_credential import encode_credential
from coordination.client import Client
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.headers import encode_request
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kafkawire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkawire.scram import Credential
from tests.certificates import Authority, needs_openssl
from tests.conftest import READY_EVENT, WITHOUT_RETENTION, BrokerProcess
from tests.integration.broker.acl_matrix import (
    CLOSED,
    CLUSTER_DENIED,
    HIDDEN,
    ROWS,
    TOPIC_DENIED,
    Row,
    Stage,
    codes,
    prepare,
    summary,
)
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator, wait_until
from tests.ports import free_port
from trust.jaas import PLAIN_MODULE, SCRAM_MODULE

ADMIN, MALLORY, DORA = "admin", "mallory", "dora"
PASSWORDS: Final = {ADMIN: "admin-s3cret", MALLORY: "mallory-s3cret"}
EVIL: Final = "evil"
LISTENERS: Final = {"INNER": "SASL_PLAINTEXT", "OUTER": "SASL_PLAINTEXT", "SAFE": "SASL_SSL"}
MIB: Final = 1 << 20
HALF_FRAMES: Final = 600
HALF_FRAME_BYTES: Final = 480 * 1024
# A quarter of the 256 MiB for requests, twice for its two budgets, and room for the broker's own.
MAX_GROWTH_BYTES: Final = 160 * MIB
# Far above the goal, because the machine may be busy.
GENEROUS_S: Final = 10.0
TIMEOUT_S: Final = 30.0

pytestmark = needs_openssl


class Fortress:
    """A broker with SASL on every listener, an authorizer, and topics that are worth attacking."""

    def __init__(self, directory: Path) -> None:
        self.coordinator = Coordinator(directory / "coordinator")
        self.ports = {name: free_port() for name in LISTENERS}
        self.directory = directory
        store = Authority.make(directory).issue("broker", hosts="IP:127.0.0.1").store
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        self._overrides = {
            "zookeeper.connect": self.coordinator.address,
            "listeners": ",".join(f"{name}://127.0.0.1:{self.ports[name]}" for name in LISTENERS),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in LISTENERS.items()
            ),
            "inter.broker.listener.name": "INNER",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "connection.failed.authentication.delay.ms": "0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{ADMIN}",
            "auto.create.topics.enable": "true",
            "offsets.topic.num.partitions": "1",
            "socket.listen.backlog.size": "3000",
            **WITHOUT_RETENTION,
        }
        for name in LISTENERS:
            prefix = f"listener.name.{name.lower()}"
            self._overrides |= {
                f"{prefix}.plain.sasl.jaas.config": (
                    f'{PLAIN_MODULE} required username="{ADMIN}" password="{PASSWORDS[ADMIN]}" '
                    f"{users};"
                ),
                f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            }
        asyncio.run(self._add_user())
        self.broker = self._start()
        with self.connect(ADMIN) as admin:
            self.stage = prepare(admin, MALLORY)[MALLORY]
            assert admin.produce(HIDDEN, batch(b"precious")).error_code == ErrorCode.NONE

    def restart(self) -> None:
        self.broker.kill()
        self.broker = self._start()

    def stop(self) -> None:
        self.broker.kill()
        self.coordinator.kill()

    def connect(self, user: str | None = None, listener: str = "OUTER") -> Wire:
        """Return a connection, authenticated with `user`."""
        wire = Wire(self.ports[listener])
        if user is not None:
            for data in login(user, PASSWORDS[user]):
                wire.send_bytes(data)
            assert wire.receive(ApiKey.SASL_HANDSHAKE, 1)
            _, answer = wire.receive(ApiKey.SASL_AUTHENTICATE, 2)
            assert isinstance(answer, SaslAuthenticateResponse)
            assert answer.error_code == ErrorCode.NONE
        return wire

    def check_unharmed(self) -> None:
        """Check that topics and records are there, and nothing else."""
        stage = self.stage
        with self.connect(ADMIN) as admin:
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            found = admin.ask(ApiKey.METADATA, 12, request, MetadataResponse)
            names = {each.name for each in found.topics} - {"__consumer_offsets"}
            assert names == {HIDDEN, stage.topic, stage.doomed, stage.doomed_by_id}
            assert all(each.error_code == ErrorCode.NONE for each in found.topics)
            fetched = admin.fetch(HIDDEN, 0)
            assert fetched.error_code == ErrorCode.NONE
            assert isinstance(fetched.records, memoryview | bytes)
            assert b"precious" in bytes(fetched.records)
            assert fetched.high_watermark == 1
        assert not list(self.directory.rglob(f"*{EVIL}*"))

    def _start(self) -> BrokerProcess:
        broker = BrokerProcess(self.directory / "data", self._overrides)
        try:
            broker.wait_for_event(READY_EVENT)
        except BaseException:
            broker.kill()
            raise
        return broker

    async def _add_user(self) -> None:
        salted = hashlib.pbkdf2_hmac("sha256", b"dora-s3cret", b"salt-of-dora", 4096)
        credential = Credential.of("SCRAM-SHA-256", salted, b"salt-of-dora", 4096)
        configs = {"SCRAM-SHA-256": encode_credential(credential)}
        async with Client(self.coordinator.address) as client:
            for path in ("/config", "/config/users"):
                await client.create(path, b"")
            await client.create(f"/config/users/{DORA}", encode_config(configs))


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    found = Fortress(tmp_path_factory.mktemp("fortress"))
    try:
        yield found
    finally:
        found.stop()
    log = "".join(found.broker.output)
    assert "Traceback" not in log
    assert not any(password in log for password in PASSWORDS.values())


def login(user: str, password: str) -> list[bytes]:
    """Return the requests of a login."""
    token = f"\0{user}\0{password}".encode()
    return [
        encode_request(
            ApiKey.SASL_HANDSHAKE, 1, 1, "test", SaslHandshakeRequest(mechanism="PLAIN")
        ),
        encode_request(
            ApiKey.SASL_AUTHENTICATE, 2, 2, "test", SaslAuthenticateRequest(auth_bytes=token)
        ),
    ]


def challenge(fortress: Fortress, user: str) -> bytes:
    """Return salt and iterations that a stranger gets for a user name."""
    with fortress.connect() as wire:
        choice = SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
        wire.ask(ApiKey.SASL_HANDSHAKE, 1, choice, SaslHandshakeResponse)
        token = SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=c".encode())
        answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, token, SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.NONE
    return bytes(answer.auth_bytes).split(b",", 1)[1]


def leader_and_isr(name: str, _stage: Stage) -> LeaderAndIsrRequest:
    """Return the order to lead a topic whose name is a path."""
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=0, leader_epoch=1, isr=[0], replicas=[0], is_new=True
    )
    return LeaderAndIsrRequest(
        controller_id=0,
        controller_epoch=1,
        topic_states=[LeaderAndIsrTopicState(topic_name=name, partition_states=[state])],
    )


def offsets_record(_stage: Stage) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=batch(b"poison"))]
    topics = [TopicProduceData(name="__consumer_offsets", partition_data=data)]
    return ProduceRequest(acks=1, timeout_ms=5_000, topic_data=topics)


def creation_by_metadata(*, has_id: bool, stage: Stage) -> MetadataRequest:
    id_ = next(iter(stage.topic_ids.values())) if has_id else ZERO_TOPIC_ID
    # An id that nobody has.
    unknown = type(id_)(int=id_.int ^ 1) if has_id else id_
    wanted = MetadataRequestTopic(topic_id=unknown, name=EVIL)
    return MetadataRequest(topics=[wanted], allow_auto_topic_creation=True)


def broker_config(name: str, value: str, _stage: Stage) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


def attack(
    name: str,
    key: ApiKey,
    version: int,
    message: Callable[[Stage], object],
    denied: frozenset[ErrorCode],
) -> Row:
    return Row(name=name, key=key, version=version, message=message, denied=denied)


def deletion(_stage: Stage) -> StopReplicaRequest:
    """Return the order to delete the data of a partition."""
    states = [StopReplicaPartitionState(leader_epoch=-2, delete_partition=True)]
    topics = [StopReplicaTopicState(topic_name=HIDDEN, partition_states=states)]
    return StopReplicaRequest(controller_epoch=1, topic_states=topics)


def forged_metadata(controller_epoch: int, _stage: Stage) -> UpdateMetadataRequest:
    """Return metadata without a topic, and with a broker of the attacker."""
    deleted = UpdateMetadataPartitionState(leader=-2, controller_epoch=controller_epoch)
    address = UpdateMetadataEndpoint(host=EVIL, port=1, listener="OUTER", security_protocol=2)
    return UpdateMetadataRequest(
        controller_epoch=controller_epoch,
        topic_states=[UpdateMetadataTopicState(topic_name=HIDDEN, partition_states=[deleted])],
        live_brokers=[UpdateMetadataBroker(id=0, endpoints=[address])],
    )


def session_of_a_follower(_stage: Stage) -> FetchRequest:
    """Return the fetch of a broker that takes over the fetch session of another one."""
    wanted = FetchPartition(fetch_offset=1, partition_max_bytes=MIB)
    topics = [FetchTopic(topic=HIDDEN, partitions=[wanted])]
    return FetchRequest(replica_id=0, session_id=1, session_epoch=1, topics=topics)


ATTACKS: Final = [
    attack("delete data", ApiKey.STOP_REPLICA, 4, deletion, CLUSTER_DENIED),
    *(
        attack(
            f"forge metadata in epoch {epoch}",
            ApiKey.UPDATE_METADATA,
            8,
            partial(forged_metadata, epoch),
            CLUSTER_DENIED,
        )
        for epoch in (1, 2**31 - 1)
    ),
    attack("fetch as a follower", ApiKey.FETCH, 12, session_of_a_follower, TOPIC_DENIED),
    *(
        attack(
            f"lead the path {path}",
            ApiKey.LEADER_AND_ISR,
            5,
            partial(leader_and_isr, path),
            CLUSTER_DENIED,
        )
        for path in (f"../{EVIL}", f"/tmp/{EVIL}", "x" * 300)
    ),
    attack("write to internal topics", ApiKey.PRODUCE, 9, offsets_record, TOPIC_DENIED),
    attack(
        "create a topic by its name",
        ApiKey.METADATA,
        12,
        lambda stage: creation_by_metadata(has_id=False, stage=stage),
        TOPIC_DENIED,
    ),
    attack(
        "create a topic beside an id",
        ApiKey.METADATA,
        12,
        lambda stage: creation_by_metadata(has_id=True, stage=stage),
        frozenset(),
    ),
    *(
        attack(
            f"set {name}",
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            partial(broker_config, name, value),
            CLUSTER_DENIED,
        )
        for name, value in (("max.connections", "0"), ("log.retention.ms", "1"))
    ),
]
"""Requests that did damage on open brokers, in addition to the matrix."""
REQUESTS: Final = [each for each in (*ROWS, *ATTACKS) if each.key not in OPEN_TO_ALL]


def answer_to(wire: Wire, one: Row, stage: Stage) -> object:
    """Send a request; return the summary of its response, or `CLOSED`."""
    try:
        wire.send(one.key, one.version, one.message(stage), client_id="__admin_client")
        return summary(wire.receive(one.key, one.version)[1])
    except ConnectionError:
        return CLOSED


@pytest.mark.parametrize("listener", ["INNER", "OUTER"])
def test_a_stranger_gets_no_answer_to_any_request(fortress: Fortress, listener: str) -> None:
    answers: dict[str, object] = {}
    for one in REQUESTS:
        with fortress.connect(listener=listener) as wire:
            answers[one.name] = answer_to(wire, one, fortress.stage)
    assert answers.keys() == {one.name for one in REQUESTS}
    assert {name: found for name, found in answers.items() if found != CLOSED} == {}
    fortress.check_unharmed()


@pytest.mark.parametrize("listener", ["INNER", "OUTER"])
def test_a_user_without_rights_is_denied_every_request(fortress: Fortress, listener: str) -> None:
    denied: dict[str, object] = {}
    for one in REQUESTS:
        # An answer may close the connection of an attack.
        with fortress.connect(MALLORY, listener) as wire:
            denied[one.name] = codes(answer_to(wire, one, fortress.stage))
    expected = {one.name: set(one.denied) for one in REQUESTS}
    # The matrix runs where everybody may use a resource without entries.
    expected["InitProducerId"] = set(CLUSTER_DENIED)
    assert {name: found for name, found in denied.items() if found != expected[name]} == {}
    fortress.check_unharmed()


def creation() -> bytes:
    topic = CreatableTopic(name=EVIL, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    return encode_request(ApiKey.CREATE_TOPICS, 7, 3, "test", request)


def test_a_request_behind_a_failed_login_is_not_served(fortress: Fortress) -> None:
    with fortress.connect() as wire:
        wire.send_bytes(b"".join([*login(ADMIN, "wrong-s3cret"), creation()]))
        assert wire.receive(ApiKey.SASL_HANDSHAKE, 1)
        _, answer = wire.receive(ApiKey.SASL_AUTHENTICATE, 2)
        assert isinstance(answer, SaslAuthenticateResponse)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(ConnectionError):
            wire.receive_frame()
    fortress.check_unharmed()


def test_a_request_behind_a_login_is_served_with_the_rights_of_its_user(
    fortress: Fortress,
) -> None:
    with fortress.connect() as wire:
        wire.send_bytes(b"".join([*login(MALLORY, PASSWORDS[MALLORY]), creation()]))
        assert wire.receive(ApiKey.SASL_HANDSHAKE, 1)
        assert wire.receive(ApiKey.SASL_AUTHENTICATE, 2)
        assert codes(summary(wire.receive(ApiKey.CREATE_TOPICS, 7)[1])) == TOPIC_DENIED
    fortress.check_unharmed()


def test_challenges_do_not_show_across_restarts_which_users_exist(fortress: Fortress) -> None:
    users = (DORA, "nobody", "somebody")
    before = {user: challenge(fortress, user) for user in users}
    fortress.restart()
    assert {user: challenge(fortress, user) for user in users} == before
    assert len(set(before.values())) == len(users)


# Below authentication: bounds of memory, time and connections.


def resident_bytes(fortress: Fortress) -> int:
    status = Path(f"/proc/{fortress.broker.pid}/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def seconds_to_answer(wire: Wire) -> float:
    began_s = time.perf_counter()
    wire.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]), MetadataResponse)
    return time.perf_counter() - began_s


def open_silent(fortress: Fortress, listener: str, stack: ExitStack) -> socket.socket:
    address = ("127.0.0.1", fortress.ports[listener])
    return stack.enter_context(socket.create_connection(address, TIMEOUT_S))


def test_half_requests_of_strangers_hold_a_bounded_part_of_the_memory(
    fortress: Fortress,
) -> None:
    head = (HALF_FRAME_BYTES * 2).to_bytes(4, "big")
    half = (512 * 1024).to_bytes(4, "big") + bytes(HALF_FRAME_BYTES)
    with fortress.connect(ADMIN) as admin, ExitStack() as stack:
        with fortress.connect() as wire:
            wire.send_bytes(head)
            with pytest.raises(ConnectionError):
                wire.receive_frame()
        before_bytes = resident_bytes(fortress)
        sockets = [open_silent(fortress, "OUTER", stack) for _ in range(HALF_FRAMES)]
        for each in sockets:
            each.setblocking(False)
        sent_bytes = dict.fromkeys(sockets, 0)

        def is_stuck() -> bool:
            """Send as much as the broker takes; return whether it takes no more."""
            progress = 0
            for each, done_bytes in sent_bytes.items():
                try:
                    count = each.send(half[done_bytes:])
                except (BlockingIOError, ConnectionError):
                    continue
                sent_bytes[each] += count
                progress += count
            return progress == 0

        wait_until(is_stuck)
        assert sum(sent_bytes.values()) > MAX_GROWTH_BYTES, "strangers sent more than the limit"
        assert seconds_to_answer(admin) < GENEROUS_S
        assert admin.produce(HIDDEN, batch(bytes(2 * MIB))).error_code in (
            ErrorCode.NONE,
            ErrorCode.MESSAGE_TOO_LARGE,
        )
        assert resident_bytes(fortress) - before_bytes < MAX_GROWTH_BYTES


@pytest.mark.parametrize("listener", ["OUTER", "SAFE"])
def test_silent_strangers_keep_nobody_out(fortress: Fortress, listener: str) -> None:
    with fortress.connect(ADMIN) as admin, ExitStack() as stack:
        sockets = [open_silent(fortress, listener, stack) for _ in range(MAX_WAITING + 100)]
        assert seconds_to_answer(admin) < GENEROUS_S
        # The oldest ones make room.
        for each in sockets[:100]:
            assert each.recv(1) == b""
        with fortress.connect(ADMIN) as late:
            assert seconds_to_answer(late) < GENEROUS_S


def test_large_requests_before_authentication_do_not_block_others(fortress: Fortress) -> None:
    plain = encode_request(ApiKey.API_VERSIONS, 3, 1, "test", ApiVersionsRequest())[4:]
    body = plain[:2] + b"\x7f\xff" + plain[4:] + bytes(511 * 1024)
    frame = len(body).to_bytes(4, "big") + body
    waits_s = []
    with fortress.connect(ADMIN) as admin, ExitStack() as stack:
        for _ in range(20):
            stranger = open_silent(fortress, "OUTER", stack)
            stranger.sendall(frame * 12)
            waits_s.append(seconds_to_answer(admin))
    assert max(waits_s) < GENEROUS_S
