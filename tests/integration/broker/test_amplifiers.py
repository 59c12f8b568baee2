"""The most expensive requests are answered or refused, and do not block others."""

import socket
import time

from benchmarks.amplifier_load import amplifiers
from broker.network.limits import MAX_CLIENT_REQUEST_BYTES
from broker.network.router import MAX_ITEMS
from kafkawire.apis import ApiKey
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire

# Far above the goal of 250 ms, because the machine may be busy. The benchmark measures all APIs.
GENEROUS_S = 10.0
# Without limits, these requests would block the loop for minutes.
DEAREST = ("METADATA", "OFFSET_FETCH", "FIND_COORDINATOR", "DESCRIBE_GROUPS", "DELETE_GROUPS")
ANSWER_TIMEOUT_S = 60


def ask(bystander: Wire) -> None:
    bystander.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), ApiVersionsResponse)


def test_the_most_expensive_requests_do_not_block_others(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"auto.create.topics.enable": "false"})
    waits: dict[str, float] = {}
    with Wire(broker.port) as bystander:
        for each in amplifiers(DEAREST):
            with socket.create_connection(("127.0.0.1", broker.port)) as client:
                client.settimeout(ANSWER_TIMEOUT_S)
                client.sendall(each.frame)
                began_s = time.perf_counter()
                ask(bystander)
                waits[str(each)] = time.perf_counter() - began_s
                assert client.recv(4), f"{each} is within the limits, and answered"
    assert len(waits) >= 2 * len(DEAREST), "each has an array, of empty and of named elements"
    assert max(waits.values()) < GENEROUS_S, waits


def test_tagged_fields_of_a_header_close_only_their_own_connection(
    shared_broker: BrokerProcess,
) -> None:
    tags = b"\xff\xff\x3f" + bytes(2 * (2**20 - 1))
    head = ApiKey.PRODUCE.to_bytes(2, "big") + b"\0\x09" + bytes(6) + tags
    with (
        Wire(shared_broker.port) as bystander,
        socket.create_connection(("127.0.0.1", shared_broker.port)) as client,
    ):
        client.settimeout(ANSWER_TIMEOUT_S)
        client.sendall(len(head).to_bytes(4, "big") + head)
        assert client.recv(1) == b""
        ask(bystander)


def wait_for_dropped(broker: BrokerProcess, text: str) -> None:
    broker.wait_for_event("connection.dropped", where=lambda event: text in str(event["reason"]))


def test_one_element_or_byte_more_than_the_limits_closes_the_connection(
    shared_broker: BrokerProcess,
) -> None:
    head = ApiKey.METADATA.to_bytes(2, "big") + bytes(8)
    names = (MAX_ITEMS + 1).to_bytes(4, "big") + bytes(2 * (MAX_ITEMS + 1))
    too_many = len(head + names).to_bytes(4, "big") + head + names
    too_long = (MAX_CLIENT_REQUEST_BYTES + 1).to_bytes(4, "big") + head
    with Wire(shared_broker.port) as bystander:
        for data in (too_many, too_long):
            with socket.create_connection(("127.0.0.1", shared_broker.port)) as client:
                client.settimeout(ANSWER_TIMEOUT_S)
                client.sendall(data)
                assert client.recv(1) == b""
        ask(bystander)
    for text in (
        "more elements than one request may have",
        f"METADATA request of {MAX_CLIENT_REQUEST_BYTES + 1} bytes; at most",
    ):
        wait_for_dropped(shared_broker, text)
