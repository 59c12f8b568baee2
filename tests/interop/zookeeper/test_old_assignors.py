"""The assignments of random groups agree with Kafka's own assignors, read from nodes of ours."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes.topic import TopicAssignment
from coordination.client import Client
from coordination.errors import NodeExistsError
from kafkawire.ids import BrokerId
from ottla.zookeeper.assignment import Slot, Strategy
from ottla.zookeeper.nodes import GroupNodes
from ottla.zookeeper.registration import Layout, Pattern, Registration
from ottla.zookeeper.view import wanted
from tests.integration.coordination.process import Coordinator
from tests.interop.kafka_old_jars import compile_java, old_jars_or_skip, start_java

GROUPS = 300
SOURCE = Path(__file__).parent / "Assignors.java"
TOPICS = {"a": 1, "b": 3, "b.c": 12, "orders": 25}


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    old_jars_or_skip()
    process = Coordinator(tmp_path / "coordinator")
    yield process
    process.kill()


def drawn(dice: random.Random) -> Registration:
    if dice.random() < 0.25:
        regex = dice.choice(["b.*", "a|orders", ".*"])
        pattern = dice.choice([Pattern.WHITE_LIST, Pattern.BLACK_LIST])
        return Registration({regex: dice.randrange(1, 13)}, pattern)
    topics = dice.sample(sorted(TOPICS), dice.randrange(1, len(TOPICS) + 1))
    return Registration({topic: dice.randrange(1, 13) for topic in topics})


async def create(client: Client, path: str, data: bytes) -> None:
    try:
        await client.create(path, data)
    except NodeExistsError:
        return


async def test_our_formulas_are_those_of_kafkas_assignors(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    seed = random.randrange(10_000)
    dice = random.Random(seed)
    classes = compile_java(SOURCE, tmp_path / "classes")
    groups: dict[str, tuple[Strategy, dict[str, Registration]]] = {}
    expected: list[dict[Slot, str]] = []
    questions: list[str] = []
    async with Client(coordinator.address, session_timeout_ms=60_000) as client:
        for path in ("/brokers", "/brokers/ids", "/brokers/topics", "/consumers"):
            await create(client, path, b"")
        await create(client, "/brokers/ids/1", b"{}")
        for topic, count in TOPICS.items():
            replicas = ReplicaAssignment((BrokerId(1),))
            data = TopicAssignment(None, dict.fromkeys(range(count), replicas)).encode()
            await create(client, f"/brokers/topics/{topic}", data)
        for number in range(GROUPS):
            group, strategy = f"g{number}", dice.choice(list(Strategy))
            members = {
                f"{group}_host-{dice.choice('ab')}_{index}-{dice.getrandbits(32):x}": drawn(dice)
                for index in range(dice.randrange(1, 5))
            }
            groups[group] = (strategy, members)
            await create(client, f"/consumers/{group}", b"")
            await create(client, f"/consumers/{group}/ids", b"")
            for consumer, registration in members.items():
                data = registration.encode(Layout.KAFKA, 1)
                await create(client, f"/consumers/{group}/ids/{consumer}", data)
        for group, (strategy, members) in groups.items():
            nodes = GroupNodes(client, group, Layout.KAFKA, lambda: None)
            for consumer, registration in members.items():
                view = await nodes.read_view(registration, strategy, exclude_internal=True)
                expected.append(wanted(view, consumer, layout=Layout.KAFKA, strategy=strategy))
                questions.append(f"{strategy} {group} {consumer}\n")
        answers = ask(classes, coordinator.address, questions, tmp_path)
    differing = [
        (question, ours, theirs)
        for question, ours, theirs in zip(questions, expected, answers, strict=True)
        if {f"{topic}-{name}": thread for (topic, name), thread in ours.items()} != theirs
    ]
    assert differing == [], f"seed {seed}"


def ask(classes: Path, address: str, questions: list[str], directory: Path) -> list[dict[str, str]]:
    """Return the thread of each partition, per question."""
    output, errors = directory / "answers", directory / "errors"
    with output.open("w") as out, errors.open("w") as err:
        process = start_java(classes, "Assignors", address, stdout=out, stderr=err)
        process.communicate("".join(questions), timeout=300)
    assert process.returncode == subprocess.CompletedProcess([], 0).returncode, errors.read_text()
    answers: list[dict[str, str]] = [{}]
    for line in output.read_text().splitlines():
        if line == "end":
            answers.append({})
        else:
            partition, _, thread = line.partition(" ")
            answers[-1][partition] = thread
    return answers[:-1]
