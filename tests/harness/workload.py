"""Producers and a reader that run during faults. Edge: clients, a thread each.

All record their observations in one `History`. Ottla's producer has at most one request per
partition in flight, even after the leader has moved. librdkafka counts requests per connection, so
without idempotence a request to a new leader can overtake one that the old leader has not handled
yet.
"""

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

import confluent_kafka

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.errors import OttlaError
from tests.harness.history import History, Item, Seen


class Pace(NamedTuple):
    """Rate of a producer."""

    burst: int
    """Records per partition and turn."""
    turn_s: float


QUICK: Final = Pace(burst=5, turn_s=0.03)
DELIVERY_TIMEOUT_MS: Final = 60_000
REQUEST_TIMEOUT_MS: Final = 3_000
JOIN_TIMEOUT_S: Final = 90.0
SILENCE_S: Final = 0.3


class Worker:
    """A thread that runs `work` until it is stopped. Use with `with`."""

    def __init__(self, name: str) -> None:
        self.failure: BaseException | None = None
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._is_stopping.set()
        self._thread.join(JOIN_TIMEOUT_S)
        if error is None:
            assert not self._thread.is_alive(), f"{self._thread.name} does not end"
            if self.failure is not None:
                raise self.failure

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    def work(self) -> None:
        """Do the thread's work until `is_stopping`."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name of the worker in the history."""
        return self._thread.name

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping.is_set()

    def pause(self, duration_s: float) -> None:
        """Sleep, which leaves the processor to the brokers under test."""
        self._is_stopping.wait(duration_s)


class Producing(Worker):
    """A worker whose producers appear in the history as `names`."""

    def __init__(self, *names: str) -> None:
        super().__init__(names[0])
        self.names = names


class OurProducer(Producing):
    """Producers of Ottla's client with acks=all, one for each of `names`, in one event loop."""

    def __init__(
        self,
        bootstrap: str,
        history: History,
        partitions: Sequence[TopicPartition],
        names: Sequence[str] = ("ours",),
        *,
        is_idempotent: bool = True,
        pace: Pace = QUICK,
    ) -> None:
        super().__init__(*names)
        self._bootstrap = bootstrap
        self._history = history
        self._partitions = partitions
        self._is_idempotent = is_idempotent
        self._pace = pace

    def work(self) -> None:
        asyncio.run(self._produce_all())

    async def _produce_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in self.names:
                tasks.create_task(self._produce(name))

    async def _produce(self, name: str) -> None:
        async with ottla.Producer(
            self._bootstrap,
            acks="all",
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            metadata_max_age_ms=5_000,
            enable_idempotence=self._is_idempotent,
        ) as producer:
            number = 0
            while not self.is_stopping:
                for _ in range(self._pace.burst):
                    await self._send_round(producer, name, number)
                    number += 1
                # Sets the rate of the load; this loop does not wait for a condition.
                await asyncio.sleep(self._pace.turn_s)

    async def _send_round(self, producer: ottla.Producer, name: str, number: int) -> None:
        for where in self._partitions:
            item = Item(name, where, number)
            self._history.sent.add(item)
            delivery = await producer.send(where.topic, item.encode(), partition=where.partition)
            delivery.add_done_callback(partial(self._note, item))

    def _note(self, item: Item, delivery: "asyncio.Future[ottla.RecordMetadata]") -> None:
        if delivery.cancelled():
            self._history.failed.append((item, "cancelled"))
        elif error := delivery.exception():
            assert isinstance(error, OttlaError), error
            self._history.failed.append((item, str(error)))
        else:
            self._history.acknowledged[item] = delivery.result().offset


class ConfluentProducer(Producing):
    """A librdkafka producer with acks=all; `settings` are further configuration keys."""

    def __init__(
        self,
        bootstrap: str,
        history: History,
        partitions: Sequence[TopicPartition],
        *,
        is_idempotent: bool,
        settings: Mapping[str, str | int] | None = None,
        name: str | None = None,
        pace: Pace = QUICK,
    ) -> None:
        super().__init__(name or ("librdkafka, idempotent" if is_idempotent else "librdkafka"))
        self._pace = pace
        if not is_idempotent:
            history.unordered.add(self.name)
        self._history = history
        self._partitions = partitions
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": is_idempotent,
                "max.in.flight.requests.per.connection": 5 if is_idempotent else 1,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2_000,
                "linger.ms": 1,
                "log_level": 0,
                **(settings or {}),
            }
        )

    def work(self) -> None:
        number = 0
        while not self.is_stopping:
            for _ in range(self._pace.burst):
                self._send_round(number)
                number += 1
            self._producer.poll(0)
            self.pause(self._pace.turn_s)
        left = self._producer.flush(DELIVERY_TIMEOUT_MS / 1000)
        assert left == 0, f"{left} records without an acknowledgement"

    def _send_round(self, number: int) -> None:
        for where in self._partitions:
            item = Item(self.name, where, number)
            self._history.sent.add(item)
            try:
                self._producer.produce(
                    where.topic,
                    item.encode(),
                    partition=where.partition,
                    on_delivery=partial(self._note, item),
                )
            except BufferError:
                self._history.failed.append((item, "the queue was full"))
                self._producer.poll(0.1)

    def _note(self, item: Item, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self._history.failed.append((item, str(error)))
        else:
            # Without an offset if the response was lost, and the idempotent producer concluded from
            # the response to a later batch that this one was written, too.
            self._history.acknowledged[item] = message.offset()


class Reader(Worker):
    """Reads all partitions with librdkafka's consumer, and records each record that it reads."""

    def __init__(
        self, bootstrap: str, history: History, partitions: Sequence[TopicPartition]
    ) -> None:
        super().__init__("reader")
        self._history = history
        self._partitions = partitions
        self._bootstrap = bootstrap

    def work(self) -> None:
        consumer = make_consumer(self._bootstrap, self._partitions)
        try:
            while not self.is_stopping:
                take_in(consumer, self._history.read)
        finally:
            consumer.close()


def make_consumer(bootstrap: str, partitions: Sequence[TopicPartition]) -> confluent_kafka.Consumer:
    """Return a consumer without a group that reads from the first offset of each partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "socket.timeout.ms": REQUEST_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 2_000,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.assign(
        [
            confluent_kafka.TopicPartition(
                each.topic, each.partition, confluent_kafka.OFFSET_BEGINNING
            )
            for each in partitions
        ]
    )
    return consumer


def take_in(consumer: confluent_kafka.Consumer, read: dict[TopicPartition, list[Seen]]) -> int:
    """Add the records that arrive within 0.1 s to `read`; return their number."""
    count = 0
    for message in consumer.consume(1_000, 0.1):
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if message.error() is not None or topic is None or partition is None or offset is None:
            continue
        place = TopicPartition(topic, partition)
        read.setdefault(place, []).append(Seen(offset, message.value() or b""))
        count += 1
    return count


def read_logs(
    bootstrap: str, end_offsets: dict[TopicPartition, int], timeout_s: float = JOIN_TIMEOUT_S
) -> dict[TopicPartition, list[Seen]]:
    """Return all records below `end_offsets` (exclusive), by partition.

    Raises:
        AssertionError: the logs could not be read in time.
    """
    logs: dict[TopicPartition, list[Seen]] = {where: [] for where in end_offsets}
    consumer = make_consumer(bootstrap, list(end_offsets))
    deadline_s = time.monotonic() + timeout_s
    try:
        while any(_next_offset(logs[where]) < end for where, end in end_offsets.items()):
            assert time.monotonic() < deadline_s, (
                f"the logs could not be read to their ends within {timeout_s} s"
            )
            take_in(consumer, logs)
    finally:
        consumer.close()
    return logs


def _next_offset(log: list[Seen]) -> int:
    return log[-1].offset + 1 if log else 0
