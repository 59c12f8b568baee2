"""Lateness and idle share of the event loop: `broker.status.loop_watch`."""

from broker.status.loop_watch import TICK_S, TICKS_PER_SHARE, LoopWatch
from tests.unit.broker.network_fakes import FakeLoop


def values(watch: LoopWatch) -> dict[str, float]:
    text = "".join(watch.pieces())
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_late_timers_and_used_time_are_measured() -> None:
    loop = FakeLoop()
    watch = LoopWatch(loop.as_loop, lambda: loop.time() / 4)
    watch.start()
    assert values(watch)["kafka_network_socketserver_networkprocessoravgidle_percent"] == 1
    loop.pass_time(5 * TICK_S)
    found = values(watch)
    assert found["ottla_loop_lag_max_seconds"] > TICK_S
    assert found["ottla_loop_stalls_total"] == 1
    for _ in range(TICKS_PER_SHARE):
        loop.pass_time(TICK_S)
    found = values(watch)
    for name in (
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    ):
        assert found[name] == 0.75
    count = found["ottla_loop_lag_seconds_count"]
    watch.stop()
    loop.pass_time(TICK_S)
    assert values(watch)["ottla_loop_lag_seconds_count"] == count
