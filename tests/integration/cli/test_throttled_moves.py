"""`ottla cluster reassign --throttle` on two brokers."""

import json
from pathlib import Path

from tests.harness.cluster import ClusterProcesses
from tests.integration.cli.conftest import RunOttla
from tests.integration.coordination.process import wait_until

KEYS = ("throttled.rate", "throttled.replicas")


def test_a_throttle_covers_a_move_and_is_removed_after_it(
    run_ottla: RunOttla, tmp_path: Path
) -> None:
    with ClusterProcesses(tmp_path, broker_count=2) as cluster:
        at = ("--bootstrap", cluster.bootstrap)

        def throttles(kind: str, name: str) -> dict[str, str]:
            shown = run_ottla("configs", "describe", kind, name, "--changed", "--json", *at)
            return {
                each["name"]: each["value"]
                for each in json.loads(shown.stdout)
                if each["name"].endswith(KEYS)
            }

        created = run_ottla("topics", "create", "moved", "--replicas", "0=1", *at)
        assert created.returncode == 0, created.stderr
        run_ottla("produce", "moved", *at, stdin="value\n")
        move = ("cluster", "reassign", *at, "--throttle", "1000000")
        moved = run_ottla(*move, "moved:0=2", "--wait")
        assert moved.stdout == "moved moved-0\n", moved.stderr
        assert throttles("topic", "moved") == throttles("broker", "1") == {}
        moving = run_ottla(*move, "moved:0=1")
        assert moving.stdout == "moving moved-0\n", moving.stderr
        assert throttles("topic", "moved") == {
            "leader.replication.throttled.replicas": "0:2",
            "follower.replication.throttled.replicas": "0:1",
        }
        assert set(throttles("broker", "2").values()) == {"1000000"}
        # The rates of brokers stay while a partition moves.
        wait_until(lambda: run_ottla("cluster", "reassignments", "--json", *at).stdout == "[]\n")
        removed = run_ottla("cluster", "unthrottle", "moved", *at)
        assert removed.stdout == "unthrottled moved\n", removed.stderr
        assert throttles("topic", "moved") == throttles("broker", "2") == {}
        assert run_ottla(*move, "moved:7=1").returncode == 1
        assert run_ottla(*move, "moved", "--cancel").returncode == 2
