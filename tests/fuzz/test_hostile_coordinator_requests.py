"""Hostile byte streams against a coordinator: none of them breaks it.

Like `test_hostile_requests`: sends fresh streams for `OTTLA_FUZZ_S` seconds from a printed seed;
`OTTLA_SEED` repeats it. Harmful streams are written to `coordinator_examples/`. A stream kept
there, renamed after its effect, is sent in every run.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from coordination.protocol.messages import OPEN_ACL, CreateRequest, OpCode
from tests.fuzz.coordinator_requests import HostileRequests, Surroundings
from tests.fuzz.endurance import survive
from tests.fuzz.judged_coordinator import JudgedCoordinator
from tests.integration.coordination.process import Coordinator, RawClient, session_of
from trust.jaas import DIGEST_MODULE

EVERYDAY_S: Final = 10.0
SOAK_S: Final = 300.0
EXAMPLES: Final = Path(__file__).parent / "coordinator_examples"
PATHS: Final = ("/a", "/a/b", "/large", "/many")
CHILDREN: Final = 2_000
LEAST_STREAMS: Final = 10

Begin: TypeAlias = Callable[[], tuple[JudgedCoordinator, Surroundings]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Return a function that kills the previous coordinator and starts one with nodes."""
    judged: list[JudgedCoordinator] = []
    login = tmp_path / "login.conf"
    login.write_text(f'Server {{ {DIGEST_MODULE} required user_bob="s3cret"; }};')

    def start() -> tuple[JudgedCoordinator, Surroundings]:
        for former in judged:
            former.end()
        number = len(list(tmp_path.iterdir()))
        coordinator = Coordinator(
            tmp_path / f"data-{number}", "--wal-fsync=off", f"--login-config={login}"
        )
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
def test_no_hostile_stream_breaks_a_coordinator_in_minutes(begin: Begin) -> None:
    survive_streams(begin, SOAK_S)


def survive_streams(begin: Begin, duration_s: float) -> None:
    def source(rng: random.Random, around: Surroundings) -> Callable[[], tuple[str, bytes]]:
        return HostileRequests(rng, around).stream

    def is_enough(counts: Counter[str]) -> bool:
        return counts.total() > LEAST_STREAMS

    survive(begin, source, EXAMPLES / "a.stream", duration_s, is_enough)


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.stream")))
def test_known_harmful_input_does_no_harm(begin: Begin, name: str) -> None:
    coordinator, _ = begin()
    assert coordinator.endure(name, (EXAMPLES / f"{name}.stream").read_bytes()) is None
