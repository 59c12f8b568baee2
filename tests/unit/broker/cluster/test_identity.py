"""Broker id and cluster id: `broker.cluster.identity`."""

import pytest

from broker.cluster.identity import Past, Remembered, check_cluster, choose_broker_id, recall
from broker.errors import StartupError
from kafkawire.ids import BrokerId

Owner = tuple[int | None, str | None]


def past(*remembered: Owner) -> Past:
    return recall(
        Remembered(f"/d{number}", broker, cluster)
        for number, (broker, cluster) in enumerate(remembered)
    )


@pytest.mark.parametrize(
    ("configured", "remembered", "expected"),
    [
        pytest.param(7, [], 7, id="configured"),
        pytest.param(-1, [(3, "c")], 3, id="remembered"),
        pytest.param(3, [(3, "c"), (None, None)], 3, id="both agree"),
        pytest.param(7, [(None, "c")], 7, id="cluster remembered alone"),
        pytest.param(-1, [], None, id="to be generated"),
    ],
)
def test_first_source_with_an_id_decides(
    configured: int, remembered: list[Owner], expected: int | None
) -> None:
    assert choose_broker_id(configured, past(*remembered), may_generate=True) == expected


@pytest.mark.parametrize(
    ("remembered", "reason"),
    [
        pytest.param([(7, "c"), (8, "c")], "different brokers", id="two numbers"),
        pytest.param([(7, "c"), (7, "d")], "different brokers", id="two clusters"),
    ],
)
def test_contradicting_log_dirs_fail_the_start(remembered: list[Owner], reason: str) -> None:
    with pytest.raises(StartupError, match=reason):
        past(*remembered)


def test_broker_id_that_contradicts_the_log_dirs_fails_the_start() -> None:
    with pytest.raises(StartupError, match="belongs to broker 7"):
        choose_broker_id(8, past((7, "c")), may_generate=True)


def test_start_fails_without_any_source_of_a_broker_id() -> None:
    with pytest.raises(StartupError, match=r"broker\.id is not set"):
        choose_broker_id(-1, past(), may_generate=False)


def test_coordinator_of_another_cluster_fails_the_start() -> None:
    known = past((7, "c"))
    check_cluster(known, "c")
    check_cluster(Past(None, None), None)
    check_cluster(Past(BrokerId(7), None), "anything")
    with pytest.raises(StartupError, match="belongs to cluster c, but the coordinator coordinates"):
        check_cluster(known, "other")
    with pytest.raises(StartupError, match="the coordinator has no cluster yet"):
        check_cluster(known, None)
