"""Produce requests that take more than one turn of the loop, and their responses."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.handlers import long_produce
from broker.handlers.produce import MAX_RECORD_ERRORS
from broker.network.reply import EncodedMessage, Reply, ReplyState
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.records import BatchBuilder, read_header, read_records
from kafkawire.schema import decode
from storage.config.log_config import LogConfig
from storage.segment.segment import FileRegion
from tests.unit.broker.replicas import B2, NOW_MS, PARTITION, World, batch, make_produce_handler
from tests.unit.broker.requests import request

MIB = 1 << 20
# More than a turn may decompress.
LARGE_BYTES = 9 * MIB
Batches = Sequence[tuple[str, int, bytes | None]]


def compressed(size: int = LARGE_BYTES, codec: Codec = Codec.ZSTD) -> bytes:
    """Return a small batch that expands to `size` zeros."""
    builder = BatchBuilder(codec=codec)
    builder.append(NOW_MS, b"key", bytes(size))
    return bytes(builder.build())


class Broker:
    """A world with a handler, and clients that send to it."""

    def __init__(self, directory: Path, config: LogConfig | None = None) -> None:
        self.world = World(directory, config)
        self.tasks = RequestTasks(asyncio.get_running_loop())
        self.handler = make_produce_handler(self.world.replicas, self.world.purgatory, self.tasks)

    def send(
        self,
        *batches: bytes | None,
        after: Request | None = None,
        release: list[str] | None = None,
        acks: int = 1,
    ) -> tuple[Request, Reply]:
        """Send a request to the partition, on the connection that sent `after`, if given."""
        return self.send_to(
            [("t", 0, each) for each in batches], after=after, release=release, acks=acks
        )

    def send_to(
        self,
        batches: Batches,
        *,
        after: Request | None = None,
        release: list[str] | None = None,
        acks: int = 1,
        version: int = 9,
    ) -> tuple[Request, Reply]:
        message = ProduceRequest(
            acks=acks,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(
                    name=name, partition_data=[PartitionProduceData(index=index, records=records)]
                )
                for name, index, records in batches
            ],
        )
        asked = request(ApiKey.PRODUCE, version, message)
        if after is not None:
            asked.queue = after.queue
        if release is not None:
            asked.release = lambda: release.append("released")
        reply = self.handler.handle(asked, decode(ProduceRequest, asked.body, version))
        if asked.release is None and release is None:
            # Simulates the next read into the same buffer.
            asked.body[:] = b"\xee" * len(asked.body)
        return asked, reply

    def values(self) -> list[int]:
        """Return the sizes of all values in the log."""
        region = self.world.log.read(
            self.world.log.log_start_offset,
            64 * MIB,
            end_offset=self.world.log.log_end_offset,
            min_one_batch=True,
        )
        return list(sizes(region))


def sizes(region: FileRegion | None) -> Iterator[int]:
    assert region is not None
    data = memoryview(region.read())
    while data:
        header = read_header(data)
        for record in read_records(data[: header.size_bytes]):
            assert record.value is not None
            yield len(record.value)
        data = data[header.size_bytes :]


@pytest.fixture
async def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


async def done(*replies: Reply) -> None:
    """Wait until all replies are complete."""
    async with asyncio.timeout(30):
        for reply in replies:
            if not reply.is_done:
                answered = asyncio.Event()
                reply.on_done(answered.set)
                await answered.wait()


def answers(reply: Reply) -> list[PartitionProduceResponse]:
    message = reply.message
    if isinstance(message, EncodedMessage):
        message = decode(ProduceResponse, message, 9)
    assert isinstance(message, ProduceResponse)
    return [each for topic in message.responses for each in topic.partition_responses]


def codes(reply: Reply) -> list[tuple[int, int]]:
    return [(each.error_code, each.base_offset) for each in answers(reply)]


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP, Codec.LZ4, Codec.SNAPPY])
async def test_a_batch_that_expands_a_lot_is_appended_in_a_later_turn(
    broker: Broker, codec: Codec
) -> None:
    _, reply = broker.send(compressed(codec=codec))
    assert not reply.is_done
    await done(reply)
    assert codes(reply) == [(ErrorCode.NONE, 0)]
    assert broker.values() == [LARGE_BYTES]


async def test_a_connection_keeps_its_order_and_other_connections_do_not_wait(
    broker: Broker,
) -> None:
    first, large = broker.send(batch(b"1"), compressed(), batch(b"22"))
    _, second = broker.send(batch(b"333"), after=first)
    _, third = broker.send(batch(b"4444"), after=first)
    await asyncio.sleep(0)
    _, bystander = broker.send(batch(b"55555"))
    assert bystander.is_done
    assert not any(reply.is_done for reply in (large, second, third))
    await done(large, second, third)
    assert codes(bystander) == [(ErrorCode.NONE, 1)]
    assert codes(large) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 2), (ErrorCode.NONE, 3)]
    assert codes(second) + codes(third) == [(ErrorCode.NONE, 4), (ErrorCode.NONE, 5)]
    assert broker.values() == [1, 5, LARGE_BYTES, 2, 3, 4]
    _, later = broker.send(batch(b"6"), after=first)
    assert later.is_done, "nothing is left to wait for"


async def test_acks_all_waits_for_followers_of_large_batches_too(broker: Broker) -> None:
    broker.world.replicate_to(B2)
    asked, reply = broker.send(compressed(), batch(b"a"), acks=-1)
    _, behind = broker.send(None, after=asked)
    await done(behind)
    broker.world.follower_fetches(B2, 1)
    await asyncio.sleep(0)
    assert not reply.is_done
    broker.world.follower_fetches(B2, 2)
    await done(reply)
    assert codes(reply) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]


async def test_a_large_batch_with_acks_0_gets_no_response(broker: Broker) -> None:
    _, reply = broker.send(compressed(), acks=0)
    await done(reply)
    assert reply.state is ReplyState.NO_RESPONSE
    _, reply = broker.send_to([("t", 0, compressed()), ("t", 1, None)], acks=0)
    await done(reply)
    assert reply.state is ReplyState.CLOSE
    assert reply.close_reason == "produce with acks=0 failed: INVALID_RECORD"


async def test_other_requests_run_between_the_turns_of_a_long_one(broker: Broker) -> None:
    many = 2500
    _, reply = broker.send(*[batch(b"a")] * many)
    assert not reply.is_done
    await asyncio.sleep(0)
    _, bystander = broker.send(batch(b"b"))
    assert bystander.is_done
    assert 500 < answers(bystander)[0].base_offset < many - 500
    await done(reply)
    assert [code for code, _ in codes(reply)] == [ErrorCode.NONE] * many
    assert broker.world.log.log_end_offset == many + 1


async def test_requests_of_a_turn_share_its_budget_for_decompression(broker: Broker) -> None:
    replies = [broker.send(compressed(3 * MIB))[1] for _ in range(4)]
    assert [reply.is_done for reply in replies] == [True, True, False, False]
    await done(*replies)
    _, reply = broker.send(compressed(3 * MIB))
    assert reply.is_done, "a new turn has time again"


async def test_the_buffer_is_released_after_the_last_batch(broker: Broker) -> None:
    released: list[str] = []
    asked, reply = broker.send(compressed(), batch(b"a"), release=released)
    assert asked.release is None, "the request channel must not release the buffer"
    assert released == []
    await done(reply)
    assert released == ["released"]
    _, reply = broker.send(batch(b"a"), release=released)
    assert reply.is_done
    assert released == ["released"], "the last batch releases the buffer"


async def test_no_further_batch_of_a_lost_connection_is_appended(broker: Broker) -> None:
    released: list[str] = []
    asked, reply = broker.send(compressed(), batch(b"a"), release=released)
    _, second = broker.send(batch(b"b"), after=asked)
    await asyncio.sleep(0)
    reply.cancel()
    second.cancel()
    _, later = broker.send(batch(b"ccc"), after=asked)
    await done(later)
    assert released == ["released"]
    assert broker.values() == [LARGE_BYTES, 3], "the first batch was in the thread already"


async def test_batches_with_acks_0_are_appended_after_their_producer_has_left(
    broker: Broker,
) -> None:
    asked, reply = broker.send(compressed(), batch(b"a"), acks=0)
    _, second = broker.send(batch(b"bb"), after=asked, acks=0)
    await asyncio.sleep(0)
    reply.cancel()
    second.cancel()
    _, later = broker.send(batch(b"ccc"), after=asked)
    await done(later)
    assert broker.values() == [LARGE_BYTES, 1, 2, 3]


async def test_a_request_that_waits_for_followers_keeps_no_batch(broker: Broker) -> None:
    broker.world.replicate_to(B2)
    asked, reply = broker.send(compressed(), batch(b"a"), acks=-1)
    assert len(asked.body) == asked.size_bytes
    _, behind = broker.send(None, after=asked)
    await done(behind)
    assert not reply.is_done
    assert not asked.body
    reply.cancel()


async def test_a_stop_waits_for_the_thread(broker: Broker) -> None:
    released: list[str] = []
    _, reply = broker.send(compressed(), release=released)
    await asyncio.sleep(0)
    await broker.tasks.stop()
    assert released == ["released"]
    assert reply.close_reason == "the broker is stopping"


async def test_a_config_that_changes_meanwhile_is_applied(broker: Broker) -> None:
    large = compressed()
    _, reply = broker.send(large)
    await asyncio.sleep(0)
    broker.world.replica.update_config(LogConfig(max_message_bytes=len(large) - 1))
    await done(reply)
    assert codes(reply) == [(ErrorCode.MESSAGE_TOO_LARGE, -1)]


async def test_a_leader_that_resigns_meanwhile_appends_nothing(broker: Broker) -> None:
    _, reply = broker.send(compressed())
    await asyncio.sleep(0)
    broker.world.replica.resign()
    await done(reply)
    assert codes(reply) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert broker.world.log.log_end_offset == 0


async def test_batches_above_the_expansion_limit_of_a_request_are_refused(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_produce, "MAX_REQUEST_DECOMPRESSED_BYTES", 20 * MIB)
    large = compressed()
    _, reply = broker.send_to(
        [("t", 0, large), ("t", 0, large), ("t", 0, large), ("t", 0, large), ("t", 0, batch(b"a"))]
    )
    await done(reply)
    none, too_large = ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE
    assert codes(reply) == [(none, 0), (none, 1), (too_large, -1), (too_large, -1), (none, 2)]
    assert answers(reply)[3].error_message == "the request expands beyond 2147483648 bytes"


async def test_the_size_of_waiting_requests_is_limited(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_produce, "MAX_HELD_BYTES", 10_000)
    first, reply = broker.send(compressed())
    _, refused = broker.send(batch(b"a" * 10_000), after=first)
    assert refused.state is ReplyState.CLOSE
    assert "waiting produce requests hold" in refused.close_reason
    await done(reply)
    assert broker.values() == [LARGE_BYTES]
    _, reply = broker.send(compressed())
    await done(reply)
    assert codes(reply) == [(ErrorCode.NONE, 1)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_recompression_of_large_batches_runs_in_a_thread(
    tmp_path: Path, codec: Codec
) -> None:
    broker = Broker(tmp_path, LogConfig(compression_type="gzip"))
    _, small = broker.send(batch(b"a"))
    assert small.is_done
    _, large = broker.send(compressed(100_000, codec))
    assert not large.is_done
    await done(large)
    assert codes(small) + codes(large) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]
    _, same = broker.send(compressed(100_000, Codec.GZIP))
    assert same.is_done, "it is in the topic's codec"
    replies = [broker.send(batch(b"a" * 16_000))[1] for _ in range(100)]
    assert not replies[-1].is_done, "a turn compresses only so much"
    await done(*replies)


# Refusals


async def test_each_batch_is_answered_once_even_if_partitions_repeat(broker: Broker) -> None:
    refused: list[tuple[str, int, bytes | None]] = [
        ("unknown", place % 7, batch(b"a")) for place in range(50)
    ]
    _, reply = broker.send_to([*refused, ("t", 0, batch(b"a")), ("t", 9, None)])
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert codes(reply) == [unknown] * 50 + [(ErrorCode.NONE, 0), (ErrorCode.INVALID_RECORD, -1)]
    assert [each.index for each in answers(reply)][:50] == [place % 7 for place in range(50)]


async def test_refused_batches_of_a_request_are_logged_in_one_line(broker: Broker) -> None:
    unknown = [("unknown", place, batch(b"a")) for place in range(50)]
    with capture_logs() as logs:
        broker.send_to([*unknown, ("t", 0, None)])
    assert logs == [
        {
            "event": "produce.rejected",
            "log_level": "info",
            "partition_count": 51,
            "errors": {"UNKNOWN_TOPIC_OR_PARTITION": 50, "INVALID_RECORD": 1},
            "partition": "unknown-0",
            "error": "UNKNOWN_TOPIC_OR_PARTITION: This broker knows no such topic or partition.",
        }
    ]
    with capture_logs() as logs:
        broker.send_to(unknown, acks=7)
    assert [(line["event"], line["partition_count"]) for line in logs] == [("produce.rejected", 50)]
    with capture_logs() as logs:
        broker.send_to([], acks=7)
        broker.send(batch(b"a"))
    assert logs == []


async def test_a_response_names_a_limited_number_of_invalid_records(tmp_path: Path) -> None:
    broker = Broker(tmp_path, LogConfig(cleanup_policy=frozenset({"compact"})))
    builder = BatchBuilder()
    for _ in range(90):
        builder.append(NOW_MS, None, b"a")
    _, reply = broker.send(*[bytes(builder.build())] * 20)
    found = answers(reply)
    assert {each.error_code for each in found} == {ErrorCode.INVALID_RECORD}
    named = [len(each.record_errors) for each in found]
    assert sum(named) == MAX_RECORD_ERRORS
    assert named == [90] * 11 + [10] + [0] * 8
    assert all(each.error_message for each in found)


async def test_batches_are_refused_by_version_header_or_topic(broker: Broker) -> None:
    old_zstd: Batches = [("t", 0, compressed(10)), ("t", 0, b"too short"), ("t", 0, batch(b"a"))]
    _, reply = broker.send_to(old_zstd, version=6)
    message = reply.message
    assert isinstance(message, ProduceResponse)
    assert [topic.partition_responses[0].error_code for topic in message.responses] == [
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NONE,
    ]
    _, reply = broker.send_to([("__consumer_offsets", 0, batch(b"a"))])
    assert codes(reply) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]
    assert PARTITION in broker.world.replicas.table
