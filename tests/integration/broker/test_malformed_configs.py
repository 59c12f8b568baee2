"""A topic whose config a tool has made unreadable loses no records by the default retention."""

import json

from clusterstate.znodes import paths
from tests.conftest import StartBroker
from tests.integration.broker.test_admin import config
from tests.integration.broker.test_tools_at_nodes import Tool
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator, wait_until

SETTINGS = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "20",
    "log.retention.ms": "1000",
}
BROKEN = b'{"version":1,"config":{"retention.ms":"-1"'
ILLEGAL = b'{"version":1,"config":{"retention.ms":"forever"}}'
CORRECT = b'{"version":1,"config":{"retention.ms":"-1"}}'


def test_a_topic_with_an_unreadable_config_loses_no_records(
    start_broker: StartBroker, coordinator: Coordinator
) -> None:
    tool = Tool(coordinator.address)
    overrides = {"zookeeper.connect": coordinator.address, **SETTINGS}

    def announce(topic: str) -> None:
        tool.announce({"version": 2, "entity_path": f"topics/{topic}"})

    def write(topic: str, data: bytes) -> None:
        tool.write(paths.config(f"topics/{topic}"), data)
        announce(topic)

    def await_retention(wire: Wire, topic: str) -> None:
        # The records have timestamps of 2023; with the default retention they expire at once.
        wire.create_topic(topic)
        wire.produce(topic, batch(b"x"))
        wait_until(lambda: wire.fetch(topic, 1).log_start_offset == 1)

    broker = start_broker(overrides=overrides)
    with Wire(broker.port) as wire:
        for topic in ("broken", "illegal"):
            wire.create_topic(topic, retention_ms="-1")
            wire.produce(topic, batch(b"kept"))
        write("broken", BROKEN)
        write("illegal", ILLEGAL)
        broker.wait_for_event("config.ignored", where=lambda event: event["topic"] == "broken")
        broker.wait_for_event("config.ignored", where=lambda event: event["topic"] == "illegal")
        await_retention(wire, "first")
    broker.kill()
    again = start_broker(broker.data_dir, overrides=overrides)
    with Wire(again.port) as wire:
        await_retention(wire, "second")
        for topic in ("broken", "illegal"):
            assert wire.fetch(topic, 0).log_start_offset == 0, f"{topic} has lost its record"
            write(topic, CORRECT)
        again.wait_for_event("config.changed", where=lambda event: event["topic"] == "broken")
        assert config(wire, "broken", "retention.ms").value == "-1"
        await_retention(wire, "third")
        write("broken", json.dumps({"version": 1, "config": {"retention.ms": "1000"}}).encode())
        wait_until(lambda: wire.fetch("broken", 1).log_start_offset == 1)
