"""Hostile requests of every API and version against a compiled broker: nothing breaks it.

A run draws fresh requests for `OTTLA_FUZZ_S` seconds (`make soak`: for minutes) from one seed,
which it prints; `OTTLA_SEED` repeats it. A request that does harm is written beside this file, to
`examples/`: kept there under a name that says what it did, it is sent in every run.
"""

import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from kafkawire.apis import ApiKey
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from tests.conftest import StartBroker
from tests.fuzz.hostile_values import Surroundings, hostile_frame
from tests.fuzz.judged_broker import JudgedBroker
from tests.integration.broker.wire import Wire

EVERYDAY_S: Final = 25.0
SOAK_S: Final = 600.0
ROUND_S: Final = 5.0
"""After this a new broker takes over: what one request left behind shall not shield the next."""
EXAMPLES: Final = Path(__file__).parent / "examples"
OVERRIDES: Final = {
    "broker.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
}

Begin: TypeAlias = Callable[[], tuple[JudgedBroker, Surroundings]]


@pytest.fixture
def begin(start_broker: StartBroker) -> Iterator[Begin]:
    """A function that ends the broker before and starts another one, with topics."""
    judged: list[JudgedBroker] = []

    def start() -> tuple[JudgedBroker, Surroundings]:
        for former in judged:
            former.end()
        judged.clear()
        broker = start_broker(overrides=OVERRIDES)
        with Wire(broker.port) as wire:
            wire.create_topic("t", 4)
            wire.create_topic("compacted", 1, cleanup_policy="compact")
            found = wire.ask(ApiKey.METADATA, 12, MetadataRequest(), MetadataResponse)
        judged.append(JudgedBroker(broker))
        return judged[-1], Surroundings(
            topics=("t", "compacted"), topic_ids=[topic.topic_id for topic in found.topics]
        )

    yield start
    for each in judged:
        each.end()


def test_no_hostile_request_breaks_a_broker(begin: Begin) -> None:
    survive(begin, float(os.environ.get("OTTLA_FUZZ_S", EVERYDAY_S)))


@pytest.mark.soak
def test_no_hostile_request_of_many_minutes_breaks_a_broker(begin: Begin) -> None:
    survive(begin, float(os.environ.get("OTTLA_FUZZ_S", SOAK_S)))


def survive(begin: Begin, duration_s: float) -> None:
    """Send fresh requests until the time is over; fail with all that did harm."""
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    print(f"OTTLA_SEED={seed}")  # noqa: T201 - shown when it fails
    dice = random.Random(seed)
    harms: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        broker, around = begin()
        round_end_s = min(end_s, time.monotonic() + ROUND_S)
        while time.monotonic() < round_end_s:
            what, frame = hostile_frame(dice, around)
            counts[what] += 1
            if harm := broker.endure(what, frame):
                file = EXAMPLES / f"seed{seed}-{counts.total()}.frame"
                if (what, harm.kind) not in harms:
                    file.write_bytes(frame)
                    harms[what, harm.kind] = f"{harm.text} ({file})"
                if harm.is_deadly:
                    break
    print(f"{counts.total()} requests of {len(counts)} kinds")  # noqa: T201
    assert not harms, "\n\n".join(harms.values())
    assert len(counts) > duration_s, "hardly anything was sent, so that it proves nothing"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.frame")))
def test_what_once_did_harm_does_none_any_more(begin: Begin, name: str) -> None:
    broker, _ = begin()
    assert broker.endure(name, (EXAMPLES / f"{name}.frame").read_bytes()) is None
