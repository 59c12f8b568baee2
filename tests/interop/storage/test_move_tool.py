"""Kafka's own tools move a partition between our log directories, and report its directory."""

import json
from datetime import datetime, timedelta
from pathlib import Path

from tests.conftest import Event, StartBroker
from tests.integration.broker.wire import Wire, batch
from tests.interop.kafka_jars import needs_jars, run_java

pytestmark = needs_jars

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
THROTTLE = "--replica-alter-log-dirs-throttle"
COUNT = 5
BIG_BYTES = 900_000
RATE = 2_000_000


def test_kafkas_tool_moves_a_partition(start_broker: StartBroker, tmp_path: Path) -> None:
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


def test_a_move_observes_the_throttle(start_broker: StartBroker, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    broker = start_broker(overrides={"log.dirs": f"{one},{two}", "broker.id": "1"})
    bootstrap = ("--bootstrap-server", f"127.0.0.1:{broker.port}")
    with Wire(broker.port) as wire:
        wire.create_topic("t", retention_ms="-1")
        for _ in range(COUNT):
            wire.produce("t", batch(b"x" * BIG_BYTES))
        move = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [str(two)]}
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
        told = (*bootstrap, "--reassignment-json-file", str(plan))
        run_java(REASSIGN, *told, "--execute", THROTTLE, str(RATE))
        limited = broker.wait_for_event("moves.limited")
        assert limited["max_bytes_per_second"] == RATE
        began, ended = broker.wait_for_event("move.began"), broker.wait_for_event("move.ended")
        # The throttle does not delay the last chunk, which may be the larger one of two.
        least_s = (COUNT - 2) * BIG_BYTES / RATE
        assert time_of(ended) - time_of(began) >= timedelta(seconds=least_s)
        said = run_java(REASSIGN, *told, "--verify")
        assert "Reassignment of replica t-0-1 completed successfully" in said
        # The tool removes its limit.
        broker.wait_for_event("moves.limited", where=lambda each: each != limited)
        assert wire.fetch("t", 0).high_watermark == COUNT


def time_of(event: Event) -> datetime:
    return datetime.fromisoformat(str(event["timestamp"]))
