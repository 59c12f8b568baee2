"""Read-process-write pipelines of four kinds of clients in processes of their own. Edge."""

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import confluent_kafka

from kafkawire.ids import TopicPartition
from tests.interop.kafka_jars import JARS

ROOT: Final = Path(__file__).resolve().parents[3]
JAVA_SOURCE: Final = Path(__file__).with_name("PipelineMember.java")
KINDS: Final = ("ottla", "confluent", "java", "aiokafka")
JAVA_LOGGING: Final = """
log4j.rootLogger=INFO, out
log4j.logger.org.apache.kafka.clients.producer.internals.TransactionManager=DEBUG
log4j.logger.org.apache.kafka.clients.producer.internals.Sender=DEBUG
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""
"""Shows the requests of each transaction, to find the cause of a failure."""
MEMBERS: Final = 2
PARTITIONS: Final = 2
FEED_INTERVAL_S: Final = 0.1
FLUSH_S: Final = 120.0
END_S: Final = 60.0
RESTART_DELAY_S: Final = 0.3


def sources() -> list[str]:
    """Return the input topics, each of which also names the group of its pipeline."""
    return [f"{kind}-in" for kind in KINDS]


def target_of(source: str) -> str:
    """Return the output topic of an input topic."""
    return f"{source.removesuffix('-in')}-out"


def partitions_of(topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of topics."""
    return [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]


def compile_java(directory: Path) -> Path:
    """Compile the Java member once; return the folder of its classes and its log settings."""
    classes = directory / "classes"
    command = ["javac", "-cp", f"{JARS}/*", "-d", str(classes), str(JAVA_SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=END_S)
    (classes / "log4j.properties").write_text(JAVA_LOGGING)
    return classes


class Member:
    """One client process, which is started again whenever it has ended."""

    def __init__(self, kind: str, number: int, bootstrap: str, classes: Path, log: Path) -> None:
        self.name = f"{kind}-{number}"
        self.kind = kind
        self.log = log
        self.exits: Counter[int] = Counter()
        """Ends that no outage has caused, by exit code."""
        source = f"{kind}-in"
        arguments = [bootstrap, str(number), source, target_of(source)]
        if kind == "java":
            options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            self._command = ["java", *options, "-cp", f"{classes}:{JARS}/*", JAVA_SOURCE.stem]
        else:
            module = "tests.interop.transactions.pipeline_member"
            self._command = [sys.executable, "-m", module, kind]
        self._command += arguments
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; its output goes to the member's log."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process in order.

        Raises:
            AssertionError: it does not end.
        """
        try:
            self._end(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end at SIGTERM") from None

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(END_S)
            self.process = None

    def pause(self) -> None:
        """Stop the process with SIGSTOP."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def supervise(self) -> None:
        """Start the process again if it has ended by itself."""
        if self.process is not None and (code := self.process.poll()) is not None:
            self.exits[code] += 1
            self.start()

    def outcomes(self) -> Counter[str]:
        """Return how many transactions were committed and aborted, as far as the member knows."""
        lines = self.log.read_text(errors="replace").splitlines()
        words = [line.partition(" ")[0] for line in lines]
        return Counter(word for word in words if word in ("committed", "aborted", "stuck"))


class Feeder(threading.Thread):
    """Writes numbered inputs for all pipelines, a record to each partition in an interval."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[TopicPartition, set[str]] = {
            place: set() for place in partitions_of(sources())
        }
        self.failure: str | None = None
        self._runs = threading.Event()
        self._is_ended = threading.Event()
        self._is_idle = threading.Event()
        self._number = 0
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": int(FLUSH_S * 1000),
                "log_level": 0,
            }
        )

    def run(self) -> None:
        """Write until the end, but not while paused."""
        while not self._is_ended.wait(FEED_INTERVAL_S):
            if not self._runs.is_set():
                self._is_idle.set()
                continue
            for place in self.acknowledged:
                value = f"{place.topic}:{self._number}"
                self._number += 1
                self._producer.produce(
                    place.topic,
                    value,
                    partition=place.partition,
                    on_delivery=self._on_delivery,
                )
            self._producer.poll(0)

    def _on_delivery(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error is not None:
            self.failure = str(error)
            return
        value = message.value()
        assert value is not None
        place = TopicPartition(message.topic() or "", message.partition() or 0)
        self.acknowledged[place].add(value.decode())

    def resume(self) -> None:
        """Write inputs until `pause`."""
        self._is_idle.clear()
        self._runs.set()

    def pause(self) -> None:
        """Write no more inputs, and wait until all of them are acknowledged."""
        self._runs.clear()
        assert self._is_idle.wait(END_S)
        assert self._producer.flush(FLUSH_S) == 0
        assert self.failure is None, self.failure

    def end(self) -> None:
        """End the thread."""
        self._is_ended.set()
        self.join(END_S)


class Pipelines:
    """All members, their supervisor and the feeder. Use with `with`; everything ends with it."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        classes = compile_java(directory)
        self.members = {
            member.name: member
            for kind in KINDS
            for number in range(MEMBERS)
            for member in [
                Member(kind, number, bootstrap, classes, directory / f"{kind}-{number}.log")
            ]
        }
        self.feeder = Feeder(bootstrap)
        self._out: set[str] = set()
        self._lock = threading.Lock()
        self._is_ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    def __enter__(self) -> Self:
        for member in self.members.values():
            member.start()
        self._supervisor.start()
        self.feeder.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._is_ended.set()
        self._supervisor.join(END_S)
        self.feeder.end()
        for member in self.members.values():
            member.kill()

    def take(self, name: str) -> Member:
        """Leave a member to the caller until `give_back`."""
        with self._lock:
            self._out.add(name)
        return self.members[name]

    def give_back(self, name: str) -> None:
        """Supervise a member again."""
        with self._lock:
            self._out.discard(name)

    def _supervise(self) -> None:
        while not self._is_ended.wait(RESTART_DELAY_S):
            with self._lock:
                for name, member in self.members.items():
                    if name not in self._out:
                        member.supervise()

    def report(self) -> Iterator[str]:
        """Yield a line for each member: its outcomes, and its ends without an outage."""
        for name, member in self.members.items():
            yield f"{name}: {dict(member.outcomes())}, ended by itself: {dict(member.exits)}"
