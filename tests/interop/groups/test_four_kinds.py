"""Ten consumers of four kinds in one group join, leave, crash and hang for a minute.

The broker's own log is the evidence: it contains the assignment of each generation and each
committed offset, in order. Afterwards the test compares it with the records that the consumers
received.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkawire.consumer_protocol import assigned_partitions
from kafkawire.group_records import (
    GroupKey,
    OffsetKey,
    read_group_value,
    read_key,
    read_offset_value,
)
from kafkawire.ids import TopicPartition
from kafkawire.records import Record, iterate_batches, read_records
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.coordination.process import wait_until

PARTITIONS = 24
MEMBERS = 10
CHAOS_S = 60.0
DRAIN_S = 120.0
ACTION_EVERY_S = (0.5, 2.5)
# Longer than the session timeout, so that the group removes the paused member.
PAUSE_S = 9.0
PRODUCE_EVERY_S = 0.02
TOPIC, GROUP = "t", "four-kinds"
ROOT = Path(__file__).resolve().parents[3]
OVERRIDES = {"group.initial.rebalance.delay.ms": "200", "offsets.topic.num.partitions": "1"}
ALL_KINDS = ("ottla", "aiokafka", "confluent", "kafka-python")

Run = tuple[int, int, int]


class MemberProcess:
    """A consumer in a process of its own, and the runs of records that it has received."""

    def __init__(self, kind: str, bootstrap: str, protocol: str) -> None:
        self.kind = kind
        self.runs: list[Run] = []
        self.paused_until_s = 0.0
        command = [sys.executable, "-m", "tests.interop.groups.member", kind]
        self.process = subprocess.Popen(
            [*command, bootstrap, GROUP, TOPIC, protocol],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                # A line that was cut off when the process was killed is incomplete.
                if line.endswith("]\n"):
                    partition, first, last = json.loads(line)
                    self.runs.append((partition, first, last))

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self, number: signal.Signals) -> None:
        self.send(signal.SIGCONT)
        self.send(number)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
        self._reader.join(30)


class Producer(threading.Thread):
    """Writes to every partition until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._is_stopped = threading.Event()
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "all"})

    def run(self) -> None:
        while not self._is_stopped.wait(PRODUCE_EVERY_S):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, b"value", partition=partition)
            self._producer.poll(0)

    def stop(self) -> None:
        self._is_stopped.set()
        self.join(30)
        assert self._producer.flush(30) == 0


class Chaos:
    """The group, and random actions on its members."""

    def __init__(self, bootstrap: str, kinds: Sequence[str], protocol: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.actions: list[str] = []
        self._bootstrap = bootstrap
        self._protocol = protocol
        self.kinds = kinds
        self._kinds = itertools.cycle(kinds)
        self.gone: list[MemberProcess] = []
        self.members = [self._start() for _ in range(MEMBERS)]

    def _start(self) -> MemberProcess:
        return MemberProcess(next(self._kinds), self._bootstrap, self._protocol)

    def act(self) -> None:
        """Perform one random action, and resume members that were paused for long enough."""
        self.resume(time.monotonic())
        action = self.dice.choice(("kill", "leave", "pause"))
        member = self.dice.choice(self.members)
        self.actions.append(f"{action} {member.kind}")
        if action == "pause":
            member.send(signal.SIGSTOP)
            member.paused_until_s = time.monotonic() + PAUSE_S
            return
        member.end(signal.SIGKILL if action == "kill" else signal.SIGTERM)
        self.members.remove(member)
        self.gone.append(member)
        self.members.append(self._start())

    def resume(self, now_s: float) -> None:
        for member in self.members:
            if 0 < member.paused_until_s <= now_s:
                member.paused_until_s = 0.0
                member.send(signal.SIGCONT)

    def end(self) -> None:
        for member in self.members:
            member.end(signal.SIGTERM)

    def all_members(self) -> list[MemberProcess]:
        return [*self.gone, *self.members]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("protocol", "kinds"),
    [
        pytest.param("range", ALL_KINDS, id="eager"),
        pytest.param(
            "cooperative-sticky", ("ottla", "confluent", "kafka-python"), id="cooperative"
        ),
    ],
)
def test_ten_consumers_of_all_kinds(
    start_broker: StartBroker, protocol: str, kinds: Sequence[str]
) -> None:
    broker = start_broker(overrides=OVERRIDES)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
    producer = Producer(broker.bootstrap)
    producer.start()
    chaos = Chaos(broker.bootstrap, kinds, protocol, seed=7)
    try:
        end_s = time.monotonic() + CHAOS_S
        pause = threading.Event()
        while time.monotonic() < end_s:
            pause.wait(chaos.dice.uniform(*ACTION_EVERY_S))
            chaos.act()
        producer.stop()
        chaos.resume(float("inf"))
        ends = log_ends(broker)
        wait_until(lambda: not missing(chaos.all_members(), ends), DRAIN_S)
    finally:
        chaos.end()
    assert broker.stop() == 0
    check(broker, chaos, ends)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_members_of_one_kind_share_and_the_next_one_continues(
    start_broker: StartBroker, kind: str
) -> None:
    """Four members share the topic; after they have left, a fifth continues at their offsets."""
    broker = start_broker(overrides=OVERRIDES)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
    first_part, second_part = 50, 20
    write(broker, first_part)
    members = [MemberProcess(each, broker.bootstrap, "range") for each in ALL_KINDS]
    try:
        ends = dict.fromkeys(range(PARTITIONS), first_part)
        wait_until(lambda: not missing(members, ends), DRAIN_S)
        for member in members:
            member.end(signal.SIGTERM)
        assert [member.process.returncode for member in members] == [0] * len(members)
        write(broker, second_part)
        heir = MemberProcess(kind, broker.bootstrap, "range")
        members.append(heir)
        ends = dict.fromkeys(range(PARTITIONS), first_part + second_part)
        wait_until(lambda: not missing(members, ends), DRAIN_S)
        assert sorted(starts(heir.runs)) == [(number, first_part) for number in range(PARTITIONS)]
    finally:
        for member in members:
            if member.process.poll() is None:
                member.end(signal.SIGTERM)


def write(broker: BrokerProcess, count: int) -> None:
    """Write `count` records to every partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for _ in range(count):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"value", partition=partition)
    assert producer.flush(30) == 0


def check(broker: BrokerProcess, chaos: Chaos, ends: dict[int, int]) -> None:
    generations, commits = history(broker.data_dir)
    assert len(generations) > 10, "hardly any rebalance happened, so this proves nothing"
    for generation, assigned in generations.items():
        assert len(assigned) == len(set(assigned)), f"two owners in generation {generation}"
    for partition, offsets in commits.items():
        assert offsets == sorted(offsets), f"committed offsets of {partition} went back"
    assert {member.kind for member in chaos.all_members() if member.runs} == set(chaos.kinds)
    received = total = 0
    for member in chaos.all_members():
        for partition, first in starts(member.runs):
            assert first == 0 or first in set(commits[partition]), (
                f"{member.kind} began partition {partition} at {first}, which was never committed"
            )
        received += sum(last - first + 1 for _, first, last in member.runs)
    total = sum(ends.values())
    assert not missing(chaos.all_members(), ends)
    report = f"{len(chaos.actions)} actions, {len(generations)} generations, {total} records"
    sys.stdout.write(f"{report}, {received - total} delivered again\n")


def log_ends(broker: BrokerProcess) -> dict[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x"})
    ends = {
        number: consumer.get_watermark_offsets(confluent_kafka.TopicPartition(TOPIC, number))[1]
        for number in range(PARTITIONS)
    }
    consumer.close()
    return ends


def missing(members: Sequence[MemberProcess], ends: dict[int, int]) -> dict[int, int]:
    """Return the number of records of each partition that no member has received yet."""
    runs: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for member in members:
        for partition, first, last in list(member.runs):
            runs[partition].append((first, last))
    uncovered = {}
    for partition, end in ends.items():
        covered = 0
        gaps = 0
        for first, last in sorted(runs[partition]):
            gaps += max(first - covered, 0)
            covered = max(covered, last + 1)
        gaps += max(end - covered, 0)
        if gaps:
            uncovered[partition] = gaps
    return uncovered


def starts(runs: Sequence[Run]) -> Iterator[tuple[int, int]]:
    """Yield the offsets at which a consumer did not continue after its previous record."""
    expected: dict[int, int] = {}
    for partition, first, last in runs:
        if expected.get(partition) != first:
            yield partition, first
        expected[partition] = last + 1


def history(
    data_dir: Path,
) -> tuple[dict[int, list[TopicPartition]], dict[int, list[int]]]:
    """Return the assignment of each generation and the committed offsets of each partition."""
    generations: dict[int, list[TopicPartition]] = {}
    commits: defaultdict[int, list[int]] = defaultdict(list)
    for record in records_of(data_dir / "__consumer_offsets-0"):
        key = read_key(record.key or b"")
        if isinstance(key, OffsetKey) and key.group_id == GROUP and record.value is not None:
            commits[key.topic_partition.partition].append(read_offset_value(record.value).offset)
        elif isinstance(key, GroupKey) and key.group_id == GROUP and record.value is not None:
            value = read_group_value(record.value)
            generations[value.generation] = [
                each for member in value.members for each in assigned_partitions(member.assignment)
            ]
    return generations, commits


def records_of(directory: Path) -> Iterator[Record]:
    for path in sorted(directory.glob("*.log")):
        for _, batch in iterate_batches(path.read_bytes()):
            yield from read_records(batch)
