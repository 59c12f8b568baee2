"""Kafka's programs with transactions on three brokers, while brokers and programs are killed."""

import asyncio
import random
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import confluent_kafka
import pytest

import ottla
from kafkawire.internal_topic import TRANSACTIONS_TOPIC
from tests.harness.cluster import ClusterProcesses
from tests.interop.clients.committed_records import committed_values
from tests.interop.kafka_broker import kafka_jars_or_skip
from tests.interop.kafka_jars import clients_4_or_skip, java_command, run_java, streams_or_skip

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
COMMAND = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "kafka.tools.DumpLogSegments"
HERE = Path(__file__).parent
SOURCE, TARGET, COUNTS = "source", "target", "counts"
PATIENCE_S = 900.0
POLL_INTERVAL_S = 1.0
"""Each look reads the whole topic, and the programs under test need the processor."""
LONG_MS = 600_000
"""Longer than the start of several Java programs on a busy machine."""
_PAUSE = threading.Event()
OVERRIDES = {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    kafka_jars_or_skip()
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as processes:
        yield processes


class Program:
    """A Java program that is killed and started again; its output goes to a file."""

    def __init__(
        self, output: Path, program: str, *arguments: str, more: Sequence[Path] = ()
    ) -> None:
        self._output = output
        self._command = java_command(program, *arguments, more=more)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            return subprocess.Popen(self._command, stdout=output, stderr=output)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.process = self._start()

    def tail(self) -> str:
        """Return the end of the output, for the message of a failure."""
        return self._output.read_text()[-4000:]


def create(cluster: ClusterProcesses, *topics: str, partitions: int) -> None:
    async def work() -> None:
        async with ottla.Admin(cluster.bootstrap) as admin:
            await admin.create_topics([ottla.NewTopic(name, partitions, 3) for name in topics])

    asyncio.run(work())


def produce(cluster: ClusterProcesses, numbers: range, keys: int, partitions: int) -> None:
    """Write a record for each number, and all records of a key to one partition."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    for number in numbers:
        key = number % keys
        producer.produce(SOURCE, str(number), key=str(key), partition=key % partitions)
    assert producer.flush(PATIENCE_S) == 0


def committed_count(cluster: ClusterProcesses, topic: str, partitions: int) -> int:
    return sum(map(len, committed_values(cluster.bootstrap, topic, partitions)))


def wait_for(condition: Callable[[], bool], output: Callable[[], str] = str) -> None:
    """Wait until `condition` holds; a failure shows the `output` of the program."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {PATIENCE_S} s: {output()}"
        _PAUSE.wait(POLL_INTERVAL_S)


def restart_broker(cluster: ClusterProcesses) -> None:
    number = random.choice(cluster.numbers)
    cluster.kill(number)
    cluster.start_brokers(number)


def test_kafkas_copier_copies_each_record_once(cluster: ClusterProcesses, tmp_path: Path) -> None:
    count, kills = 6_000, 4
    create(cluster, SOURCE, TARGET, partitions=1)
    produce(cluster, range(count), 1, 1)
    copier = Program(
        tmp_path / "copier.log",
        COPIER,
        *("--broker-list", cluster.bootstrap, "--input-topic", SOURCE, "--input-partition", "0"),
        *("--output-topic", TARGET, "--consumer-group", "copiers", "--transactional-id", "copier"),
        *("--transaction-size", "100", "--transaction-timeout", "20000"),
        *("--enable-random-aborts", "--use-group-metadata"),
    )
    try:
        for kill in range(kills):
            wanted = (kill + 1) * count // (kills + 2)
            wait_for(lambda: committed_count(cluster, TARGET, 1) >= wanted, copier.tail)  # noqa: B023
            if kill % 2:
                copier.restart()
            else:
                restart_broker(cluster)

        def is_copied() -> bool:
            if copier.process.poll() not in (None, 0):
                copier.restart()
            return committed_count(cluster, TARGET, 1) >= count

        wait_for(is_copied, copier.tail)
        assert copier.process.wait(PATIENCE_S) == 0, copier.tail()
    finally:
        copier.kill()
    assert committed_values(cluster.bootstrap, TARGET, 1) == [[str(n) for n in range(count)]]


def committed_by_key(
    cluster: ClusterProcesses, topic: str, partitions: int
) -> dict[str, list[str]]:
    """Return the committed values of each key, in order."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader of counts",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)])
    found: dict[str, list[str]] = defaultdict(list)
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"only {ended} ended"
            partition = message.partition()
            assert partition is not None
            if message.error() is None:
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                found[key.decode()].append(value.decode())
            else:
                ended.add(partition)
    finally:
        consumer.close()
    return found


def test_streams_count_each_record_once(cluster: ClusterProcesses, tmp_path: Path) -> None:
    """Streams with exactly_once_v2: the counts of a key are 1, 2, 3 and so on, without a gap."""
    streams_or_skip()
    count, keys, partitions = 1_000, 10, 2
    create(cluster, SOURCE, TARGET, COUNTS, partitions=partitions)
    streams = Program(
        tmp_path / "streams.log",
        str(HERE / "CountInStreams.java"),
        *(cluster.bootstrap, SOURCE, TARGET, COUNTS, str(tmp_path / "streams")),
    )
    faults: list[Callable[[], None]] = [
        lambda: restart_broker(cluster),
        streams.restart,
        lambda: restart_broker(cluster),
        streams.restart,
    ]
    share = count // (len(faults) + 1)
    try:
        for number in range(len(faults) + 1):
            produce(cluster, range(number * share, (number + 1) * share), keys, partitions)
            if number < len(faults):
                # In the middle of the work, not after it.
                wanted = number * share + share // 3
                wait_for(
                    lambda: committed_count(cluster, TARGET, partitions) >= wanted,  # noqa: B023
                    streams.tail,
                )
                faults[number]()
        wait_for(
            lambda: (
                committed_count(cluster, COUNTS, partitions) >= count
                and committed_count(cluster, TARGET, partitions) >= count
            ),
            streams.tail,
        )
    finally:
        streams.kill()
    copied = committed_by_key(cluster, TARGET, partitions)
    assert copied == {
        str(key): [str(number) for number in range(key, count, keys)] for key in range(keys)
    }, streams.tail()
    counts = committed_by_key(cluster, COUNTS, partitions)
    assert counts == {
        str(key): [str(number + 1) for number in range(count // keys)] for key in range(keys)
    }, streams.tail()


def test_java_4_copies_each_record_once(cluster: ClusterProcesses) -> None:
    jars, count = clients_4_or_skip(), 200
    create(cluster, SOURCE, TARGET, partitions=1)
    produce(cluster, range(count), 1, 1)
    program = str(HERE / "CopyInTransactions.java")
    arguments = (cluster.bootstrap, SOURCE, TARGET, str(count))
    assert f"copied {count}" in run_java(program, *arguments, jars=jars, timeout_s=PATIENCE_S)
    assert committed_values(cluster.bootstrap, TARGET, 1) == [[str(n) for n in range(count)]]


def test_kafkas_tools_show_our_transactions(cluster: ClusterProcesses) -> None:
    """The command asks the coordinators and leaders, and the dump tool reads our log."""
    create(cluster, TARGET, partitions=1)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": "shown",
            "transaction.timeout.ms": LONG_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(TARGET, "open", partition=0)
    assert producer.flush(PATIENCE_S) == 0

    def command(*arguments: str) -> list[list[str]]:
        output = run_java(COMMAND, "--bootstrap-server", cluster.bootstrap, *arguments)
        lines = [line for line in output.splitlines() if not line.startswith("log4j:")]
        return [line.split() for line in lines if line.split()]

    listed = {line[0]: line for line in command("list")}
    assert listed["shown"][3] == "Ongoing"
    described = dict(zip(*command("describe", "--transactional-id", "shown")[:2], strict=False))
    assert described["TransactionState"] == "Ongoing"
    assert described["TopicPartitions"] == f"{TARGET}-0"
    place = ("--topic", TARGET, "--partition", "0")
    producers = command("describe-producers", *place)
    assert producers[0][-1] == "CurrentTransactionStartOffset"
    assert [line[-1] for line in producers[1:]] == ["0"]
    # The coordinator learns nothing of this abort, and commits.
    command("abort", *place, "--start-offset", "0")
    assert [line[-1] for line in command("describe-producers", *place)[1:]] == ["None"]
    producer.commit_transaction(PATIENCE_S)
    wait_for(lambda: {line[0]: line for line in command("list")}["shown"][3] == "CompleteCommit")
    assert committed_values(cluster.bootstrap, TARGET, 1) == [[]]
    # The log is read while the broker has it open.
    files = [
        str(path)
        for path in cluster.log_directory(1).rglob("*.log")
        if path.parent.name.startswith(TRANSACTIONS_TOPIC)
    ]
    dumped = run_java(DUMP, "--transaction-log-decoder", "--files", ",".join(files))
    states = [
        state
        for line in dumped.splitlines()
        if "transactionalId=shown" in line or "transactional_id=shown" in line
        for state in ("Empty", "Ongoing", "PrepareCommit", "CompleteCommit")
        if state in line
    ]
    assert states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"], dumped
