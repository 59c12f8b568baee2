"""Kafka's own tools move a partition of ours between log directories, and see where it lies."""

import json
from pathlib import Path

from tests.conftest import StartBroker
from tests.integration.broker.wire import Wire, batch
from tests.interop.kafka_jars import needs_jars, run_java

pytestmark = needs_jars

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
COUNT = 5


def test_a_partition_is_moved_by_kafkas_tool(start_broker: StartBroker, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    overrides = {"log.dirs": f"{one},{two}", "broker.id": "1"}
    broker = start_broker(overrides=overrides)
    bootstrap = ("--bootstrap-server", f"127.0.0.1:{broker.port}")
    with Wire(broker.port) as wire:
        wire.create_topic("t", retention_ms="-1")
        for _ in range(COUNT):
            wire.produce("t", batch(b"x" * 1_000))
        move = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [str(two)]}
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
        run_java(REASSIGN, *bootstrap, "--reassignment-json-file", str(plan), "--execute")
        broker.wait_for_event("move.ended")
        said = run_java(REASSIGN, *bootstrap, "--reassignment-json-file", str(plan), "--verify")
        assert "Reassignment of replica t-0-1 completed successfully" in said
        described = run_java(LOG_DIRS, *bootstrap, "--describe", "--topic-list", "t")
        [line] = [line for line in described.splitlines() if line.startswith("{")]
        [found] = json.loads(line)["brokers"]
        placed = {each["logDir"]: each["partitions"] for each in found["logDirs"]}
        assert placed[str(one)] == []
        assert [each["partition"] for each in placed[str(two)]] == ["t-0"]
        assert wire.fetch("t", 0).high_watermark == COUNT
