"""Hostile streams of bytes against a coordinator: nothing breaks it.

As `test_hostile_requests`: `OTTLA_FUZZ_S` seconds of fresh streams from a seed that is printed;
`OTTLA_SEED` repeats it. What did harm is written to `coordinator_examples/`; kept there under a
name that says what it did, it is sent in every run.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from coordination.messages import OPEN_ACL, CreateRequest, OpCode
from tests.fuzz.coordinator_requests import HostileRequests, Surroundings
from tests.fuzz.endurance import survive
from tests.fuzz.judged_coordinator import JudgedCoordinator
from tests.integration.coordination.process import Coordinator, RawClient, session_of

EVERYDAY_S: Final = 10.0
SOAK_S: Final = 300.0
EXAMPLES: Final = Path(__file__).parent / "coordinator_examples"
PATHS: Final = ("/a", "/a/b", "/large", "/many")
CHILDREN: Final = 2_000
LEAST_STREAMS: Final = 10

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
    survive_streams(begin, EVERYDAY_S)


@pytest.mark.soak
def test_no_hostile_stream_of_many_minutes_breaks_a_coordinator(begin: Begin) -> None:
    survive_streams(begin, SOAK_S)


def survive_streams(begin: Begin, duration_s: float) -> None:
    def source(dice: random.Random, around: Surroundings) -> Callable[[], tuple[str, bytes]]:
        return HostileRequests(dice, around).stream

    counts = survive(begin, source, EXAMPLES / "a.stream", duration_s)
    assert counts.total() > LEAST_STREAMS, "hardly anything was sent, so that it proves nothing"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.stream")))
def test_what_once_did_harm_does_none_any_more(begin: Begin, name: str) -> None:
    coordinator, _ = begin()
    assert coordinator.endure(name, (EXAMPLES / f"{name}.stream").read_bytes()) is None
