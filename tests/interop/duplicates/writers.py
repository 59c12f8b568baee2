"""Three kinds of idempotent producers that write numbered records until they are stopped.

Each runs in a thread of its own. `sent` counts the records passed to the client, `acknowledged` the
records that it reported as written. An error ends the writer, and `check` raises it.
"""

import asyncio
import threading
import warnings
from abc import ABC, abstractmethod
from typing import Any, Final

import confluent_kafka

import ottla

with warnings.catch_warnings():
    # It loads its schemas with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

PARTITIONS: Final = 3
STEP: Final = 20
"""Number of records between two checks for a stop."""
PACE_S: Final = 0.002
MOST_UNDER_WAY: Final = 400
PADDING: Final = b"." * 80
END_S: Final = 60.0


class Writer(ABC):
    """Writes `<name>:<number>:<padding>` to partition `number % PARTITIONS`, from 0 on."""

    name: str

    def __init__(self, address: str, topic: str) -> None:
        self.address = address
        self.topic = topic
        self.sent = 0
        self.acknowledged = 0
        self.errors: list[object] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=self.name, daemon=True)

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop writing, and wait for the thread."""
        self._stop.set()
        self._thread.join(END_S)

    def check(self) -> None:
        """Check that all sent records are acknowledged.

        Raises:
            AssertionError: a record is missing, or the writer failed.
        """
        assert not self._thread.is_alive(), f"{self.name} does not end"
        assert not self.errors, f"{self.name}: {self.errors[:3]}"
        assert self.acknowledged == self.sent, f"{self.name} lost track of its records"

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            # `check` raises it in the test's own thread.
            self.errors.append(error)

    def _next(self) -> tuple[bytes, int]:
        number = self.sent
        self.sent += 1
        return b"%s:%d:%s" % (self.name.encode(), number, PADDING), number % PARTITIONS

    def _must_wait(self) -> bool:
        """Let other writers run; return whether enough records are in flight."""
        self._stop.wait(PACE_S)
        return self.sent - self.acknowledged > MOST_UNDER_WAY and not self._stop.is_set()

    @abstractmethod
    def _run(self) -> None:
        """Write until stopped, and until all records are acknowledged."""


class OttlaWriter(Writer):
    """Ottla's producer with its defaults."""

    name = "ottla"

    def _run(self) -> None:
        asyncio.run(self._write())

    async def _write(self) -> None:
        async with ottla.Producer(self.address) as producer:
            while not self._stop.is_set():
                for _ in range(STEP):
                    value, partition = self._next()
                    delivery = await producer.send(self.topic, value, partition=partition)
                    delivery.add_done_callback(self._on_delivery)
                while await asyncio.to_thread(self._must_wait):
                    pass
            await producer.flush()

    def _on_delivery(self, delivery: "asyncio.Future[ottla.RecordMetadata]") -> None:
        if (error := delivery.exception()) is not None:
            self.errors.append(error)
        else:
            self.acknowledged += 1


class LibrdkafkaWriter(Writer):
    """librdkafka through confluent-kafka."""

    name = "librdkafka"

    def _run(self) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )
        while not self._stop.is_set():
            for _ in range(STEP):
                value, partition = self._next()
                producer.produce(
                    self.topic, value, partition=partition, on_delivery=self._on_delivery
                )
            while self._must_wait():
                producer.poll(0)
            producer.poll(0)
        producer.flush(END_S)

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged += 1


class KafkaPythonWriter(Writer):
    """kafka-python, a port of the Java producer."""

    name = "kafka-python"

    def _run(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.address,
            enable_idempotence=True,
            linger_ms=1,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
            retry_backoff_ms=20,
        )
        try:
            while not self._stop.is_set():
                for _ in range(STEP):
                    value, partition = self._next()
                    future = producer.send(self.topic, value, partition=partition)
                    future.add_callback(self._on_written)
                    future.add_errback(self.errors.append)
                while self._must_wait():
                    pass
            producer.flush(END_S)
        finally:
            producer.close(END_S)

    def _on_written(self, _metadata: Any) -> None:
        self.acknowledged += 1


WRITERS: Final[tuple[type[Writer], ...]] = (OttlaWriter, LibrdkafkaWriter, KafkaPythonWriter)
