"""Start and stop of a broker, and the state that survives them."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.__main__ import main
from broker.daemon import read_config
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_topics import DeleteTopicState
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.conftest import READY_TIMEOUT_S, BrokerProcess, StartBroker
from tests.integration.broker.test_admin import (
    SET,
    alter_incrementally,
    config,
    delete,
    delete_records,
    list_offset,
)
from tests.integration.broker.wire import Wire, batch
from tests.ports import free_port, wait_until_listening
from tests.programs import Program
from tests.waiting import until_sync

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
START_TIMEOUT_S = READY_TIMEOUT_S


def try_to_start(*arguments: str) -> tuple[int, str]:
    """Run a broker that ends by itself; return its exit code and its output."""
    program = Program("broker", arguments, stderr=subprocess.PIPE)
    try:
        code = program.wait(START_TIMEOUT_S)
    finally:
        program.kill()
    assert program.stderr is not None
    with program.stderr as lines:
        return code, lines.read()


def overridden(values: Mapping[str, str]) -> list[str]:
    return [word for key, value in values.items() for word in ("--override", f"{key}={value}")]


def local(data_dir: Path, **others: str) -> list[str]:
    """Return the arguments of a broker that listens on the loopback interface only."""
    named = {key.replace("_", "."): value for key, value in others.items()}
    return overridden({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data_dir), **named})


def describe(wire: Wire, topic: str) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the id of a topic, and leader and epoch of its partitions."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    found = wire.ask(ApiKey.METADATA, 12, request, MetadataResponse).topics[0]
    return found.topic_id.bytes, [(p.leader_id, p.leader_epoch) for p in found.partitions]


def test_topics_and_records_survive_an_orderly_stop(start_broker: StartBroker) -> None:
    first = start_broker()
    with Wire(first.port) as wire:
        wire.create_topic("t", partitions=2, retention_ms="5000")
        alter_incrementally(wire, "t", ("segment.ms", SET, "6000"))
        wire.produce("t", batch(b"a", b"b", b"c"))
        delete_records(wire, "t", 1)
        topic_id, leaders = describe(wire, "t")
    assert first.stop() == 0
    assert (first.data_dir / CLEAN_SHUTDOWN).exists()

    second = start_broker(first.data_dir)
    assert not (first.data_dir / CLEAN_SHUTDOWN).exists(), "there is no marker while a broker runs"
    with Wire(second.port) as wire:
        assert describe(wire, "t") == (topic_id, leaders)
        assert config(wire, "t", "retention.ms").value == "5000"
        assert config(wire, "t", "segment.ms").value == "6000"
        fetched = wire.fetch("t", 1)
        assert (fetched.error_code, fetched.high_watermark, fetched.log_start_offset) == (0, 3, 1)
        assert wire.produce("t", batch(b"d")).base_offset == 3
    assert not any(event["event"] == "log.recovered" for event in second.events)


def test_after_a_crash_the_logs_are_recovered(start_broker: StartBroker) -> None:
    first = start_broker()
    with Wire(first.port) as wire:
        wire.create_topic("t")
        wire.produce("t", batch(b"a", b"b"))
        topic_id, leaders = describe(wire, "t")
    assert first.kill() == -signal.SIGKILL

    second = start_broker(first.data_dir)
    second.wait_for_event("log.recovered")
    with Wire(second.port) as wire:
        assert describe(wire, "t") == (topic_id, leaders)
        assert wire.fetch("t", 0).high_watermark == 2
        assert wire.produce("t", batch(b"c")).base_offset == 2


def test_producer_ids_are_not_repeated_after_a_crash(start_broker: StartBroker) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    given: list[int] = []
    broker = start_broker()
    for _ in range(2):
        with Wire(broker.port) as wire:
            answer = wire.ask(ApiKey.INIT_PRODUCER_ID, 4, request, InitProducerIdResponse)
        given.append(answer.producer_id)
        broker.kill()
        broker = start_broker(broker.data_dir)
    assert given[1] > given[0]


def test_a_deleted_topic_stays_deleted_and_its_files_go(start_broker: StartBroker) -> None:
    overrides = {"log.segment.delete.delay.ms": "1", "log.initial.task.delay.ms": "0"}
    broker = start_broker(overrides=overrides)
    with Wire(broker.port) as wire:
        wire.create_topic("t", retention_ms="5000")
        wire.produce("t", batch(b"old"))
        assert delete(wire, DeleteTopicState(name="t")) == [ErrorCode.NONE]
        broker.wait_for_event("directory.removed")
        assert not list(broker.data_dir.glob("t-*"))
        broker.kill()
    again = start_broker(broker.data_dir)
    with Wire(again.port) as wire:
        assert list_offset(wire, "t", -1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wire.create_topic("t")
        assert config(wire, "t", "retention.ms").value == "604800000"


def test_a_stop_answers_waiting_requests_and_ends_soon(start_broker: StartBroker) -> None:
    broker = start_broker()
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        wanted = FetchPartition(fetch_offset=0, partition_max_bytes=100)
        request = FetchRequest(
            max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])]
        )
        wire.send(ApiKey.FETCH, 12, request)
        wait_until_served(broker)
        broker.process.send_signal(signal.SIGTERM)
        _, response = wire.receive(ApiKey.FETCH, 12)
        assert isinstance(response, FetchResponse)
        assert wire.is_closed()
    assert broker.process.wait(START_TIMEOUT_S) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_each_stop_signal_stops_the_broker_in_order(
    start_broker: StartBroker, number: signal.Signals
) -> None:
    broker = start_broker()
    broker.process.send_signal(number)
    assert broker.process.wait(START_TIMEOUT_S) == 0
    broker.wait_for_event("broker.stopped")
    assert (broker.data_dir / CLEAN_SHUTDOWN).exists()


def test_a_broker_serves_and_stops_although_its_log_cannot_be_written(tmp_path: Path) -> None:
    port = free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port}"
    arguments = overridden({"log.dirs": str(tmp_path), "listeners": listeners})
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        process = Program("broker", arguments, stderr=full)
    try:
        wait_until_listening(port, START_TIMEOUT_S)
        with Wire(port) as wire:
            wire.create_topic("t")
            assert wire.produce("t", batch(b"a")).error_code == ErrorCode.NONE
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_TIMEOUT_S) == 0
    finally:
        process.kill()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_broker_keeps_its_id_and_cluster(start_broker: StartBroker) -> None:
    first = start_broker(overrides={"broker.id": "7"})
    identified = first.wait_for_event("broker.identified")
    first.stop()
    again = start_broker(first.data_dir).wait_for_event("broker.identified")
    assert (again["broker_id"], again["cluster_id"]) == (7, identified["cluster_id"])


def test_a_log_dir_of_another_broker_is_refused(start_broker: StartBroker) -> None:
    first = start_broker(overrides={"broker.id": "7"})
    first.stop()
    code, output = try_to_start(*local(first.data_dir, broker_id="8"))
    assert code == 1
    assert "belongs to broker 7" in output


def test_log_dirs_of_different_clusters_are_refused(start_broker: StartBroker) -> None:
    brokers = [start_broker(), start_broker()]
    for broker in brokers:
        broker.stop()
    both = ",".join(str(broker.data_dir) for broker in brokers)
    code, output = try_to_start(
        *overridden({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": both})
    )
    assert code == 1
    assert "different brokers or clusters" in output


def test_a_log_dir_in_use_is_refused(start_broker: StartBroker) -> None:
    running = start_broker()
    code, output = try_to_start(*local(running.data_dir))
    assert code == 1
    assert "broker.not_started" in output
    with Wire(running.port) as wire:
        assert wire.create_topic("t").error_code == ErrorCode.NONE


def test_a_port_in_use_is_refused_and_the_log_dir_left_clean(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        code, output = try_to_start(*overridden({"listeners": listener, "log.dirs": str(tmp_path)}))
    assert code == 1
    assert "broker.not_started" in output
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_damaged_coordinator_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "coordinator").mkdir()
    (tmp_path / "coordinator" / "store").write_text("{")
    code, output = try_to_start(*local(tmp_path))
    assert code == 1
    assert "broker.not_started" in output
    assert "coordinator" in output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unusable_log_dir_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    code, output = try_to_start(*local(tmp_path / "data"))
    assert code == 1
    assert "broker.not_started" in output


def test_a_log_dir_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, output = try_to_start(*local(tmp_path / "file"))
    assert code == 1
    assert "broker.not_started" in output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--override", "num.partitions=0"], "broker: num.partitions=0: must be >= 1\n"),
        (["--override", "num.partitions"], "must have the form key=value\n"),
        (["no/such/file"], "broker: no/such/file: No such file or directory\n"),
        (["--no-such-option"], "unrecognized arguments: --no-such-option\n"),
    ],
)
def test_bad_usage_is_reported_in_one_sentence(arguments: list[str], text: str) -> None:
    code, output = try_to_start(*arguments)
    assert (code, output.endswith(text)) == (2, True), output


def test_main_returns_the_exit_code_of_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--no-such-option"]) == 2
    assert main(["--help"]) == 0
    assert "example:" in capsys.readouterr().out


def test_a_file_of_properties_is_read_and_overridden(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        f"log.dirs={tmp_path}/data\nlisteners=PLAINTEXT://127.0.0.1:1\nno.such.key=s3cret\n"
    )
    arguments = [str(path), *overridden({"listeners": "PLAINTEXT://127.0.0.1:0"})]
    events = {}
    with subprocess.Popen(
        [sys.executable, "-m", "broker", *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            event = json.loads(line)
            events[event["event"]] = event
            if event["event"] == "broker.started":
                process.terminate()
    assert process.returncode == 0
    assert events["config.unknown_key"]["key"] == "no.such.key"
    assert "s3cret" not in str(events)
    assert events["broker.started"]["bound_addresses"][0].startswith("127.0.0.1:")
    assert (tmp_path / "data" / CLEAN_SHUTDOWN).exists()


def test_a_login_file_in_the_options_of_a_jvm_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1G -Djava.security.auth.login.config={tmp_path}/jaas")
    with capture_logs() as lines:
        read_config(None, ["listeners=PLAINTEXT://127.0.0.1:0"])
        monkeypatch.setenv("KAFKA_OPTS", "-Xmx1G")
        read_config(None, ["listeners=PLAINTEXT://127.0.0.1:0"])
    [line] = [line for line in lines if line["event"] == "login_file.not_read"]
    assert line["variable"] == "KAFKA_OPTS"
    assert "sasl.jaas.config for its section KafkaServer" in line["instead"]


@pytest.mark.parametrize(
    ("key", "file", "line"),
    [
        (
            "replica.high.watermark.checkpoint.interval.ms",
            "replication-offset-checkpoint",
            "t 0 2",
        ),
        ("log.flush.offset.checkpoint.interval.ms", "recovery-point-offset-checkpoint", "t 0 2"),
        ("log.flush.start.offset.checkpoint.interval.ms", "log-start-offset-checkpoint", "t 0 1"),
    ],
)
def test_checkpoints_are_written_periodically(
    start_broker: StartBroker, key: str, file: str, line: str
) -> None:
    overrides = {key: "10", "log.initial.task.delay.ms": "0", "log.flush.interval.messages": "1"}
    broker = start_broker(overrides=overrides)
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        wire.produce("t", batch(b"a", b"b"))
        delete_records(wire, "t", 1)
        wait_until_written(broker.data_dir / file, line)


def test_the_flusher_honours_flush_ms(start_broker: StartBroker) -> None:
    overrides = {
        "log.flush.scheduler.interval.ms": "10",
        "log.flush.offset.checkpoint.interval.ms": "10",
        "log.initial.task.delay.ms": "0",
    }
    broker = start_broker(overrides=overrides)
    checkpoint = broker.data_dir / "recovery-point-offset-checkpoint"
    with Wire(broker.port) as wire:
        wire.create_topic("t", flush_ms="1")
        wire.produce("t", batch(b"a", b"b"))
        wait_until_written(checkpoint, "t 0 2")


def wait_until_served(broker: BrokerProcess) -> None:
    """Wait until the broker has handled the earlier requests of other connections."""
    with Wire(broker.port) as wire:
        for _ in range(3):
            describe(wire, "t")


def wait_until_written(path: Path, line: str) -> None:
    """Wait until the file at `path` holds `line`."""
    until_sync(
        lambda: path.exists() and line in path.read_text().splitlines(), f"{line!r} in {path}"
    )
