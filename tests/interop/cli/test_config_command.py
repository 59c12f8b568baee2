"""Kafka's own config tool on our broker."""

from collections.abc import Iterator

import pytest

from tests.conftest import READY_EVENT, BrokerProcess
from tests.interop.kafka_jars import needs_jars, run_java

pytestmark = needs_jars

COMMAND = "kafka.admin.ConfigCommand"
BROKER = ("--entity-type", "brokers", "--entity-name", "1001")
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), {"log.retention.hours": "2"})
    try:
        broker.wait_for_event(READY_EVENT)
        yield broker
    finally:
        broker.stop()


def configs(broker: BrokerProcess, *arguments: str) -> str:
    return run_java(COMMAND, "--bootstrap-server", broker.bootstrap, *arguments)


def test_the_tool_sets_describes_and_deletes_configs(broker: BrokerProcess) -> None:
    wanted = "log.retention.ms=60000,log.cleaner.threads=2"
    configs(broker, "--alter", *ALL_BROKERS, "--add-config", wanted)
    configs(broker, "--alter", *BROKER, "--add-config", "log.retention.ms=70000")
    shown = configs(broker, "--describe", *BROKER)
    assert "log.retention.ms=70000" in shown
    assert (
        "synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=70000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=60000, "
        "STATIC_BROKER_CONFIG:log.retention.hours=2" in shown
    )
    shared = configs(broker, "--describe", *ALL_BROKERS)
    assert "log.cleaner.threads=2" in shared
    configs(broker, "--alter", *BROKER, "--delete-config", "log.retention.ms")
    assert "log.retention.ms=60000" in configs(broker, "--describe", "--all", *BROKER)


def test_the_tool_reports_a_read_only_config(broker: BrokerProcess) -> None:
    with pytest.raises(AssertionError, match=r"log\.dirs"):
        configs(broker, "--alter", *BROKER, "--add-config", "log.dirs=/elsewhere")


def test_the_tool_lists_all_keys(broker: BrokerProcess) -> None:
    shown = configs(broker, "--describe", "--all", *BROKER)
    assert "num.partitions=1" in shown
    assert "log.segment.bytes=1073741824" in shown


def test_the_tool_sets_quotas_of_clients(broker: BrokerProcess) -> None:
    client = ("--entity-type", "clients", "--entity-name", "slow")
    configs(broker, "--alter", *client, "--add-config", "producer_byte_rate=1024")
    assert "producer_byte_rate=1024.0" in configs(broker, "--describe", *client)
    configs(broker, "--alter", *client, "--delete-config", "producer_byte_rate")
    assert "producer_byte_rate" not in configs(broker, "--describe", *client)


LOGGERS = ("--entity-type", "broker-loggers", "--entity-name", "1001")


def test_the_tool_changes_the_levels_of_loggers(broker: BrokerProcess) -> None:
    shown = configs(broker, "--describe", *LOGGERS)
    assert "root=INFO" in shown
    assert "broker.network=INFO" in shown
    configs(broker, "--alter", *LOGGERS, "--add-config", "broker.status=DEBUG,controller=WARN")
    shown = configs(broker, "--describe", *LOGGERS)
    assert "broker.status.broker_status=DEBUG" in shown
    assert "controller.controller=WARN" in shown
    configs(broker, "--alter", *LOGGERS, "--delete-config", "controller")
    assert "controller.controller=INFO" in configs(broker, "--describe", *LOGGERS)


def test_the_tool_reports_an_unknown_logger(broker: BrokerProcess) -> None:
    with pytest.raises(AssertionError, match="unheard"):
        configs(broker, "--alter", *LOGGERS, "--add-config", "unheard.of=DEBUG")
    with pytest.raises(AssertionError, match="must be one of"):
        configs(broker, "--alter", *LOGGERS, "--add-config", "broker=LOUD")
