"""Dynamic configs of running brokers: their effect and their persistence."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kafkawire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator, wait_until

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
OWN, SHARED, STATIC, DEFAULT = 2, 3, 4, 5
ID = "1001"
ALL = ""


def alter(wire: Wire, name: str, **changes: str | None) -> tuple[int, str | None]:
    """Set keys of a broker, or remove them (None); return the error code and message."""
    resource = AlterConfigsResource(
        resource_type=BROKER,
        resource_name=name,
        configs=[
            AlterableConfig(
                name=key.replace("_", "."),
                config_operation=DELETE if value is None else SET,
                value=value,
            )
            for key, value in changes.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    [answer] = wire.ask(key, 1, request, IncrementalAlterConfigsResponse).responses
    return answer.error_code, answer.error_message


def described(
    wire: Wire, kind: int, name: str, keys: Sequence[str] | None = None
) -> list[DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    [result] = wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, request, DescribeConfigsResponse).results
    assert result.error_code == ErrorCode.NONE, result
    return list(result.configs)


def shown(wire: Wire, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """Return a key's value and its source."""
    [entry] = described(wire, kind, name, [key])
    return entry.value, entry.config_source


def test_layers_have_kafkas_precedence_and_survive_a_restart(start_broker: StartBroker) -> None:
    overrides = {"log.retention.hours": "2", "broker.id": ID, "reserved.broker.max.id": "2000"}
    broker = start_broker(overrides=overrides)
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        assert shown(wire, TOPIC, "t", "retention.ms") == ("7200000", STATIC)
        assert alter(wire, ALL, log_retention_ms="60000") == (ErrorCode.NONE, None)
        assert shown(wire, TOPIC, "t", "retention.ms") == ("60000", SHARED)
        assert alter(wire, ID, log_retention_ms="70000") == (ErrorCode.NONE, None)
        assert shown(wire, TOPIC, "t", "retention.ms") == ("70000", OWN)
    broker.stop()
    again = start_broker(broker.data_dir, overrides)
    with Wire(again.port) as wire:
        [entry] = described(wire, BROKER, ID, ["log.retention.ms"])
        assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
            ("log.retention.ms", "70000", OWN),
            ("log.retention.ms", "60000", SHARED),
            ("log.retention.hours", "2", STATIC),
            ("log.retention.ms", "604800000", DEFAULT),
        ]
        assert [each.name for each in described(wire, BROKER, ALL)] == ["log.retention.ms"]
        assert alter(wire, ID, log_retention_ms=None) == (ErrorCode.NONE, None)
        assert alter(wire, ALL, log_retention_ms=None) == (ErrorCode.NONE, None)
        assert shown(wire, TOPIC, "t", "retention.ms") == ("7200000", STATIC)


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker()


def test_logs_adopt_inherited_configs_at_once(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        wire.create_topic("own", max_message_bytes="2000")
        assert alter(wire, ALL, message_max_bytes="500") == (ErrorCode.NONE, None)
        assert wire.produce("t", batch(b"x" * 1000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert wire.produce("own", batch(b"x" * 1000)).error_code == ErrorCode.NONE
        assert alter(wire, ALL, message_max_bytes=None) == (ErrorCode.NONE, None)
        assert wire.produce("t", batch(b"x" * 1000)).error_code == ErrorCode.NONE


def test_new_connections_are_counted_by_the_new_limit(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        assert alter(wire, ID, max_connections="1") == (ErrorCode.NONE, None)
        with Wire(broker.port) as refused:
            assert refused.is_closed()
        assert alter(wire, ID, max_connections="5") == (ErrorCode.NONE, None)
        with Wire(broker.port) as taken:
            assert shown(taken, BROKER, ID, "max.connections") == ("5", OWN)


def test_cleaners_and_moves_adopt_new_limits(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        changes = {"log_cleaner_threads": "2", "log_cleaner_backoff_ms": "77"}
        assert alter(wire, ALL, **changes) == (ErrorCode.NONE, None)
        event = broker.wait_for_event("cleaner.reconfigured")
        assert (event["log_cleaner_threads"], event["log_cleaner_backoff_ms"]) == (2, 77)
        rate = {"replica_alter_log_dirs_io_max_bytes_per_second": "5000"}
        assert alter(wire, ID, **rate) == (ErrorCode.NONE, None)
        assert broker.wait_for_event("moves.limited")["max_bytes_per_second"] == 5000


@pytest.mark.parametrize("name", [ID, ALL])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log_dirs", "/elsewhere"),
        ("num_partitions", "3"),
        ("log_retention_ms", "soon"),
        ("num_io_threads", "100"),
        ("listeners", "PLAINTEXT://:1"),
    ],
)
def test_invalid_configs_are_refused_and_change_nothing(
    shared_broker: BrokerProcess, name: str, key: str, value: str
) -> None:
    with Wire(shared_broker.port) as wire:
        code, text = alter(wire, name, log_segment_bytes="5000", **{key: value})
        assert code == ErrorCode.INVALID_REQUEST
        assert text is not None
        assert key.replace("_", ".") in text
        assert shown(wire, BROKER, ID, "log.segment.bytes") == ("1073741824", DEFAULT)


def test_shared_configs_reach_every_broker_and_the_controller(
    tmp_path: Path, coordinator: Coordinator
) -> None:
    with BrokerCluster(tmp_path, f"127.0.0.1:{coordinator.port}") as cluster:
        cluster.start(1, 2)
        cluster.create_topic("t", [[1, 2]])
        with cluster.wire(1) as one, cluster.wire(2) as two:
            assert alter(one, ALL, min_insync_replicas="2") == (ErrorCode.NONE, None)
            wait_until(lambda: shown(two, TOPIC, "t", "min.insync.replicas") == ("2", SHARED))
            assert alter(one, "2", log_segment_bytes="5000")[0] == ErrorCode.INVALID_REQUEST
            assert alter(two, "2", log_segment_bytes="5000")[0] == ErrorCode.NONE
            assert shown(two, BROKER, "2", "log.segment.bytes") == ("5000", OWN)
            assert shown(one, BROKER, "1", "log.segment.bytes") == ("1073741824", DEFAULT)
        # The only in-sync replica stops; then the lagging one may become leader.
        cluster.brokers[2].kill()
        cluster.until_in_sync("t", {1})
        cluster.brokers[1].kill()
        cluster.start(2)
        wait_until(lambda: cluster.leaders(2, "t") == [-1])
        with cluster.wire(2) as two:
            assert alter(two, ALL, unclean_leader_election_enable="true")[0] == ErrorCode.NONE
        wait_until(lambda: cluster.leaders(2, "t") == [2])
