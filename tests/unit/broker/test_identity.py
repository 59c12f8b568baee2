"""Which broker this is: `broker.identity`."""

import uuid

import pytest

from broker.errors import StartupError
from broker.identity import Identity, Remembered, choose_identity
from kafkawire.ids import topic_id_to_text

RANDOM = uuid.UUID(int=5)
GENERATED = topic_id_to_text(RANDOM)


def choose(
    configured_id: int, *remembered: tuple[int | None, str | None], may_generate: bool = True
) -> Identity:
    return choose_identity(
        configured_id,
        [Remembered(f"/d{n}", broker, cluster) for n, (broker, cluster) in enumerate(remembered)],
        may_generate=may_generate,
        max_reserved_id=1000,
        random_id=lambda: RANDOM,
    )


@pytest.mark.parametrize(
    ("configured", "remembered", "expected"),
    [
        pytest.param(7, [], (7, GENERATED), id="configured"),
        pytest.param(-1, [(3, "c")], (3, "c"), id="remembered"),
        pytest.param(3, [(3, "c"), (None, None)], (3, "c"), id="both agree"),
        pytest.param(7, [(None, "c")], (7, "c"), id="cluster remembered alone"),
        pytest.param(-1, [], (1001, GENERATED), id="generated"),
    ],
)
def test_the_first_source_that_knows_decides(
    configured: int, remembered: list[tuple[int | None, str | None]], expected: tuple[int, str]
) -> None:
    identity = choose(configured, *remembered)
    assert (identity.broker_id, identity.cluster_id) == expected


@pytest.mark.parametrize(
    ("configured", "remembered", "reason"),
    [
        pytest.param(8, [(7, "c")], "belongs to broker 7", id="another number"),
        pytest.param(-1, [(7, "c"), (8, "c")], "different brokers", id="two numbers"),
        pytest.param(-1, [(7, "c"), (7, "d")], "different brokers", id="two clusters"),
    ],
)
def test_contradictions_stop_the_start(
    configured: int, remembered: list[tuple[int | None, str | None]], reason: str
) -> None:
    with pytest.raises(StartupError, match=reason):
        choose(configured, *remembered)


def test_a_number_must_come_from_somewhere() -> None:
    with pytest.raises(StartupError, match=r"broker\.id is not set"):
        choose(-1, may_generate=False)
