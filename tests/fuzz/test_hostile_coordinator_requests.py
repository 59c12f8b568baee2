"""Hostile streams of bytes against a coordinator: nothing breaks it.

As `test_hostile_requests`: `OTTLA_FUZZ_S` seconds of fresh streams from a seed that is printed;
`OTTLA_SEED` repeats it. What did harm is written to `coordinator_examples/`; kept there under a
name that says what it did, it is sent in every run.
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

from coordination.messages import OPEN_ACL, CreateRequest, OpCode
from tests.fuzz.coordinator_requests import HostileRequests, Surroundings
from tests.fuzz.judged_coordinator import JudgedCoordinator
from tests.integration.coordination.process import Coordinator, RawClient, session_of

EVERYDAY_S: Final = 10.0
SOAK_S: Final = 300.0
ROUND_S: Final = 5.0
"""After this a new coordinator takes over: what one stream left shall not shield the next."""
EXAMPLES: Final = Path(__file__).parent / "coordinator_examples"
PATHS: Final = ("/a", "/a/b", "/large", "/many")
CHILDREN: Final = 2_000
LEAST_STREAMS_PER_S: Final = 1

Begin: TypeAlias = Callable[[], tuple[JudgedCoordinator, Surroundings]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """A function that ends the coordinator before and starts another one, with nodes."""
    judged: list[JudgedCoordinator] = []

    def start() -> tuple[JudgedCoordinator, Surroundings]:
        for former in judged:
            former.end()
        number = len(list(tmp_path.iterdir()))
        coordinator = Coordinator(tmp_path / f"data-{number}", "--wal-fsync=off")
        with RawClient(coordinator.port, 60_000) as client:
            session_id, password = session_of(client.shake_hands())
            children = [f"/many/child-{number}" for number in range(CHILDREN)]
            for path in (*PATHS, *children):
                data = bytes(900_000) if path == "/large" else b""
                client.ask(1, OpCode.CREATE, CreateRequest(path, data, OPEN_ACL, 0))
        judged[:] = [JudgedCoordinator(coordinator)]
        return judged[0], Surroundings(paths=PATHS, session_id=session_id, password=password)

    yield start
    for each in judged:
        each.end()


def test_no_hostile_stream_breaks_a_coordinator(begin: Begin) -> None:
    survive(begin, float(os.environ.get("OTTLA_FUZZ_S", EVERYDAY_S)))


@pytest.mark.soak
def test_no_hostile_stream_of_many_minutes_breaks_a_coordinator(begin: Begin) -> None:
    survive(begin, float(os.environ.get("OTTLA_FUZZ_S", SOAK_S)))


def survive(begin: Begin, duration_s: float) -> None:
    """Send fresh streams until the time is over; fail with all that did harm."""
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    print(f"OTTLA_SEED={seed}")  # noqa: T201 - shown when it fails
    dice = random.Random(seed)
    harms: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        coordinator, around = begin()
        requests = HostileRequests(dice, around)
        round_end_s = min(end_s, time.monotonic() + ROUND_S)
        while time.monotonic() < round_end_s:
            what, stream = requests.stream()
            counts[what] += 1
            if harm := coordinator.endure(what, stream):
                file = EXAMPLES / f"seed{seed}-{counts.total()}.stream"
                if (what, harm.kind) not in harms:
                    file.write_bytes(stream)
                    harms[what, harm.kind] = f"{harm.text} ({file})"
                if harm.is_deadly:
                    break
    print(f"{counts.total()} streams: {dict(counts)}")  # noqa: T201
    assert not harms, "\n\n".join(harms.values())
    assert counts.total() > LEAST_STREAMS_PER_S * duration_s, "hardly anything was sent"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.stream")))
def test_what_once_did_harm_does_none_any_more(begin: Begin, name: str) -> None:
    coordinator, _ = begin()
    assert coordinator.endure(name, (EXAMPLES / f"{name}.stream").read_bytes()) is None
