"""Groups: a rebalance of 100 members over 1,000 partitions, and commits per second (edge).

Members are bare connections that join and sync like every client, so that the load measures the
broker. A rebalance of a real group also takes the interval of its heartbeats, which notify the
members. The reference of commits is produce requests of about the same size.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.loads.broker import (
    CLIENT_ID,
    CORRELATION_ID,
    broker_process,
    create_topic,
    produce_answer_bytes,
    produce_frame,
)
from benchmarks.loads.pipeline import SIZE_FIELD, connect, exchange, run_pipeline
from benchmarks.loads.process import HOST, ServerProcess
from benchmarks.loads.result import Figure, alternate
from kafkawire.apis import APIS, ApiKey
from kafkawire.consumer_protocol import encode_assignment, encode_subscription
from kafkawire.errors import ErrorCode
from kafkawire.headers import decode_response_header, encode_request
from kafkawire.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafkawire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.messages.group_membership import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkawire.schema import decode

MEMBERS: Final = 100
PARTITIONS: Final = 1_000
REBALANCES: Final = 15
REBALANCE_GOAL_MS: Final = 250
GROUP: Final = "bench-group"
TOPIC: Final = "bench-orders"
JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
COMMIT_VERSION: Final = 8
COMMITS: Final = 4_000
CONNECTIONS: Final = 4
IN_FLIGHT: Final = 8
ROUNDS: Final = 5
COMMIT_GOAL: Final = 0.33
SETTINGS: Final = ("group.initial.rebalance.delay.ms=500", "offsets.topic.num.partitions=1")

R = TypeVar("R")


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the time of a rebalance, and the rate of commits."""
    with broker_process(directory, overrides=SETTINGS) as broker:
        create_topic(broker.port, TOPIC, 1)
        with connect(HOST, broker.port) as connection:
            request = FindCoordinatorRequest(key=GROUP)
            _ask(connection, ApiKey.FIND_COORDINATOR, 3, request, FindCoordinatorResponse)
        yield _rebalance(broker)
        yield _commits(broker)


def _rebalance(broker: ServerProcess) -> Figure:
    members = [connect(HOST, broker.port) for _ in range(MEMBERS)]
    ids = [_first_id(connection) for connection in members]
    begin_generation(members, ids)
    times_ms = []
    for _ in range(REBALANCES):
        started_s = time.perf_counter()
        begin_generation(members, ids)
        times_ms.append((time.perf_counter() - started_s) * 1000)
    for connection in members:
        connection.close()
    return Figure(
        name=f"rebalance of {MEMBERS} members over {PARTITIONS} partitions",
        unit="ms",
        value=statistics.median(times_ms),
        better="lower",
        goal=REBALANCE_GOAL_MS,
        note=f"first join sent to last assignment read; worst {max(times_ms):.0f} ms",
    )


def begin_generation(members: list[socket.socket], ids: list[str]) -> None:
    """Let all members join and sync; the leader assigns all partitions."""
    for connection, member_id in zip(members, ids, strict=True):
        _send(connection, ApiKey.JOIN_GROUP, JOIN_VERSION, _join(member_id))
    joined = [
        _receive(each, ApiKey.JOIN_GROUP, JOIN_VERSION, JoinGroupResponse) for each in members
    ]
    assert {answer.error_code for answer in joined} == {ErrorCode.NONE}
    for connection, answer in zip(members, joined, strict=True):
        _send(connection, ApiKey.SYNC_GROUP, SYNC_VERSION, _sync(answer))
    synced = [
        _receive(each, ApiKey.SYNC_GROUP, SYNC_VERSION, SyncGroupResponse) for each in members
    ]
    assert {answer.error_code for answer in synced} == {ErrorCode.NONE}
    assert all(answer.assignment for answer in synced)


def _first_id(connection: socket.socket) -> str:
    answer = _ask(connection, ApiKey.JOIN_GROUP, JOIN_VERSION, _join(""), JoinGroupResponse)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return answer.member_id


def _join(member_id: str) -> JoinGroupRequest:
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]))
    # A different byte each time, as from a member whose owned partitions have changed.
    changed = subscription + bytes([time.perf_counter_ns() & 0xFF])
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=changed)],
    )


def _sync(joined: JoinGroupResponse) -> SyncGroupRequest:
    share = PARTITIONS // MEMBERS
    assignments = [
        SyncGroupRequestAssignment(
            member_id=member.member_id,
            assignment=encode_assignment(
                ConsumerProtocolAssignment(
                    assigned_partitions=[
                        AssignedPartitions(
                            topic=TOPIC,
                            partitions=list(range(number * share, (number + 1) * share)),
                        )
                    ]
                )
            ),
        )
        for number, member in enumerate(joined.members)
    ]
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )


def _commits(broker: ServerProcess) -> Figure:
    frame = _commit_frame()
    with connect(HOST, broker.port) as connection:
        answer = exchange(connection, frame)
        _, start = decode_response_header(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, memoryview(answer))
        response = decode(OffsetCommitResponse, answer[start:], COMMIT_VERSION)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    produce = produce_frame(TOPIC, 0, 130, acks=-1)
    produce_bytes = produce_answer_bytes(broker.port, produce)
    pair = alternate(
        lambda: _rate(broker, frame, len(answer) + SIZE_FIELD.size),
        lambda: _rate(broker, produce, produce_bytes),
        rounds=ROUNDS,
    )
    return Figure(
        name="offset commits",
        unit="requests/s",
        value=pair.ours,
        reference_name="produce of as many bytes, acks=all",
        reference=pair.reference,
        better="higher",
        goal=COMMIT_GOAL,
        note=f"one partition each, {CONNECTIONS} connections x {IN_FLIGHT} in flight",
    )


def _rate(broker: ServerProcess, frame: bytes, answer_bytes: int) -> float:
    result = run_pipeline(
        HOST,
        broker.port,
        [frame],
        request_count=COMMITS,
        connection_count=CONNECTIONS,
        in_flight=IN_FLIGHT,
        answer_bytes=answer_bytes,
    )
    return result.request_count / result.elapsed_s


def _commit_frame() -> bytes:
    each = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1_000, committed_leader_epoch=0, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id="bench-commits",
        member_id="",
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[each])],
    )
    key = ApiKey.OFFSET_COMMIT
    return encode_request(key, COMMIT_VERSION, CORRELATION_ID, CLIENT_ID, request)


def _send(connection: socket.socket, key: ApiKey, version: int, message: object) -> None:
    connection.sendall(encode_request(key, version, CORRELATION_ID, CLIENT_ID, message))


def _receive(connection: socket.socket, key: ApiKey, version: int, response: type[R]) -> R:
    (size,) = SIZE_FIELD.unpack(_exactly(connection, SIZE_FIELD.size))
    frame = _exactly(connection, size)
    _, start = decode_response_header(key, version, memoryview(frame))
    answer = decode(APIS[key].response, frame[start:], version)
    assert isinstance(answer, response)
    return answer


def _ask(
    connection: socket.socket, key: ApiKey, version: int, message: object, response: type[R]
) -> R:
    _send(connection, key, version, message)
    return _receive(connection, key, version, response)


def _exactly(connection: socket.socket, size_bytes: int) -> bytes:
    data = connection.recv(size_bytes, socket.MSG_WAITALL)
    if len(data) < size_bytes:
        raise ConnectionError("the server closed the connection")
    return data
