"""The commands that connect to a broker, against a real broker."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.input_record import MAX_LINE_BYTES
from ottla.cli.record_source import CHUNK_BYTES
from tests.conftest import BrokerProcess
from tests.integration.cli.conftest import RunOttla

TIMEOUT_S = 30
NOT_UTF_8 = os.fsdecode(b"\xff")

At = tuple[str, str]


@pytest.fixture
def at(shared_broker: BrokerProcess) -> At:
    """The option that names the broker."""
    return ("--bootstrap", shared_broker.bootstrap)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name unique to the test; the topic itself does not exist."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")


def test_topic_is_created_listed_described_altered_and_deleted(
    run_ottla: RunOttla, at: At, topic: str
) -> None:
    created = run_ottla("topics", "create", topic, "-p", "2", "-c", "retention.ms=1000", *at)
    assert created == (0, f"created {topic}\n", "")
    assert topic in run_ottla("topics", "list", *at).stdout.splitlines()
    assert topic in json.loads(run_ottla("topics", "list", "--json", *at).stdout)

    head, *rows = run_ottla("topics", "describe", topic, *at).stdout.splitlines()
    assert head.split() == [
        "topic", "partition", "leader", "epoch", "replicas", "in", "sync", "start", "end",
    ]  # fmt: skip
    assert [row.split()[:2] for row in rows] == [[topic, "0"], [topic, "1"]]
    [report] = json.loads(run_ottla("topics", "describe", topic, "--json", *at).stdout)
    assert report["configs"] == {"retention.ms": "1000"}
    assert [part["end_offset"] for part in report["partitions"]] == [0, 0]

    changed = run_ottla("topics", "alter", topic, "-p", "3", "-c", "retention.ms=2000", *at)
    assert changed == (0, f"changed {topic}\n", "")
    [report] = json.loads(run_ottla("topics", "describe", topic, "--json", *at).stdout)
    assert (len(report["partitions"]), report["configs"]) == (3, {"retention.ms": "2000"})

    assert run_ottla("topics", "delete", topic, *at) == (0, f"deleted {topic}\n", "")
    assert topic not in run_ottla("topics", "list", *at).stdout.splitlines()


def test_topic_configs_are_described_and_altered(run_ottla: RunOttla, at: At, topic: str) -> None:
    run_ottla("topics", "create", topic, *at)
    changed = run_ottla("configs", "alter", "topic", topic, "-c", "segment.bytes=2000", *at)
    assert changed == (0, f"changed topic {topic}\n", "")
    shown = run_ottla("configs", "describe", "topic", topic, "--changed", *at)
    assert [line.split() for line in shown.stdout.splitlines()[1:]] == [
        ["segment.bytes", "2000", "topic"]
    ]
    run_ottla("configs", "alter", "topic", topic, "--delete-config", "segment.bytes", *at)
    shown = run_ottla("configs", "describe", "topic", topic, "--changed", "--json", *at)
    assert json.loads(shown.stdout) == []


def test_default_broker_configs_are_described_and_altered(run_ottla: RunOttla, at: At) -> None:
    setting = "log.cleaner.backoff.ms=500"
    changed = run_ottla("configs", "alter", "broker", "default", "-c", setting, *at)
    assert changed == (0, "changed broker default\n", "")
    shown = run_ottla("configs", "describe", "broker", "default", *at)
    assert [line.split() for line in shown.stdout.splitlines()[1:]] == [
        ["log.cleaner.backoff.ms", "500", "all", "brokers"]
    ]
    refused = run_ottla("configs", "alter", "broker", "default", "-c", "log.dirs=/tmp", *at)
    assert refused.returncode == 1
    assert "log.dirs" in refused.stderr
    key = "log.cleaner.backoff.ms"
    run_ottla("configs", "alter", "broker", "default", "--delete-config", key, *at)


def test_cluster_and_its_brokers_are_described(
    run_ottla: RunOttla, shared_broker: BrokerProcess, at: At
) -> None:
    cluster = json.loads(run_ottla("cluster", "describe", "--json", *at).stdout)
    [broker] = cluster["brokers"]
    assert (broker["port"], cluster["controller_id"]) == (shared_broker.port, broker["id"])
    assert "controller" in run_ottla("cluster", "describe", *at).stdout
    configs = run_ottla("configs", "describe", "broker", str(broker["id"]), *at).stdout
    assert "log.dirs" in configs


def test_environment_variable_names_the_broker(
    run_ottla: RunOttla, shared_broker: BrokerProcess
) -> None:
    ended = run_ottla("cluster", "describe", env={"OTTLA_BOOTSTRAP": shared_broker.bootstrap})
    assert ended.returncode == 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_consumed_lines_equal_the_produced_lines(
    run_ottla: RunOttla, at: At, topic: str, tmp_path: Path, compression: str
) -> None:
    lines = "".join(f"line {number} größe\n" for number in range(2_000)) + "\nlast without end"
    file = tmp_path / "lines.txt"
    file.write_text(lines)
    sent = run_ottla("produce", topic, file, "--compression", compression, *at)
    assert (sent.returncode, sent.stdout) == (0, "")
    assert sent.stderr.startswith("sent 2,002 records, ")
    received = run_ottla("consume", topic, "--no-follow", *at)
    assert received.returncode == 0
    assert received.stdout == lines + "\n"
    assert received.stderr.startswith("received 2,002 records, ")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_standard_input_is_sent_with_every_ack_level(
    run_ottla: RunOttla, at: At, topic: str, acks: str
) -> None:
    sent = run_ottla("produce", topic, "--acks", acks, "--json", *at, stdin="a\nb\n")
    assert json.loads(sent.stdout)["records"] == 2
    received = run_ottla("consume", topic, "--max-records", "2", *at)
    assert received.stdout == "a\nb\n"


def test_keys_are_parsed_and_printed(run_ottla: RunOttla, at: At, topic: str) -> None:
    run_ottla("produce", topic, "--key-separator", ":", *at, stdin="k:v\nk:v:w\n")
    received = run_ottla("consume", topic, "--no-follow", "-f", "key-value", *at)
    assert received.stdout == "k\tv\nk\tv:w\n"


def test_json_lines_survive_a_round_trip(run_ottla: RunOttla, at: At, topic: str) -> None:
    run_ottla("topics", "create", topic, "-p", "2", *at)
    records = [
        {"key": "k", "value": "v", "partition": 1, "timestamp": 5, "headers": {"h": "x"}},
        {"key": None, "value_base64": "/w==", "partition": 0, "timestamp": 1_000},
    ]
    stdin = "".join(json.dumps(record) + "\n" for record in records)
    assert run_ottla("produce", topic, "--json-lines", *at, stdin=stdin).returncode == 0
    written = run_ottla("consume", topic, "--no-follow", "-f", "json", *at).stdout
    received = {line["partition"]: line for line in map(json.loads, written.splitlines())}
    assert received[1] == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": 5,
        "key": "k",
        "value": "v",
        "headers": [{"key": "h", "value": "x"}],
    }
    assert (received[0]["key"], received[0]["value_base64"]) == (None, "/w==")
    # The output can be produced again, to a topic that has these partitions.
    assert run_ottla("produce", topic, "--json-lines", *at, stdin=written).returncode == 0
    refused = run_ottla("produce", f"{topic}-2", "--json-lines", *at, stdin=written)
    assert refused.returncode == 1
    assert "no partition 1" in refused.stderr


def test_group_continues_at_its_committed_offset(run_ottla: RunOttla, at: At, topic: str) -> None:
    run_ottla("produce", topic, *at, stdin="one\ntwo\nthree\n")
    group = ("consume", topic, "--group", "readers", "--no-follow", *at)
    assert run_ottla(*group, "--max-records", "2").stdout.split() == ["one", "two"]
    assert run_ottla(*group).stdout.split() == ["three"]
    assert run_ottla(*group).stdout.split() == []


@pytest.mark.parametrize(
    "options", [("--partition", "0"), ("--from", "3")], ids=["partition", "offset"]
)
def test_options_that_a_group_determines_are_rejected(
    run_ottla: RunOttla, at: At, topic: str, options: tuple[str, ...]
) -> None:
    refused = run_ottla("consume", topic, "--group", "readers", *options, *at)
    assert refused.returncode == 2
    assert options[0] in refused.stderr


def test_consumer_starts_at_the_given_start_point(run_ottla: RunOttla, at: At, topic: str) -> None:
    lines = "".join(
        json.dumps({"value": f"{number}", "timestamp": 1_000 * number}) + "\n"
        for number in range(5)
    )
    run_ottla("produce", topic, "--json-lines", *at, stdin=lines)

    def read(*options: str) -> list[str]:
        return run_ottla("consume", topic, "--no-follow", *options, *at).stdout.split()

    assert read("--from", "beginning") == ["0", "1", "2", "3", "4"]
    assert read("--from", "3") == ["3", "4"]
    assert read("--from", "end") == []
    assert read("--from", "1970-01-01T00:00:02Z") == ["2", "3", "4"]
    assert read("--from", "2026-01-01") == []
    assert read("--partition", "0", "--max-records", "2") == ["0", "1"]
    assert read("--from", "4", "-f", "template", "--template", "{partition}/{offset}") == ["0/4"]
    beyond = run_ottla("consume", topic, "--no-follow", "--from", "5000000000", *at)
    assert (beyond.stdout, beyond.returncode) == ("", 0)
    assert f"{topic}-0 ends at 5" in beyond.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_following_consumer_prints_new_records_until_a_signal(
    run_ottla: RunOttla, at: At, topic: str, number: signal.Signals
) -> None:
    run_ottla("produce", topic, *at, stdin="first\n")
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "consume", topic, *at],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        assert consumer.stdout.readline() == "first\n"
        run_ottla("produce", topic, *at, stdin="second\n")
        assert consumer.stdout.readline() == "second\n"
        consumer.send_signal(number)
        assert consumer.wait(TIMEOUT_S) == 0
        assert consumer.stderr.read().startswith("received 2 records, ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_a_member_commit_and_leave_its_group(
    run_ottla: RunOttla, at: At, topic: str, number: signal.Signals
) -> None:
    run_ottla("produce", topic, *at, stdin="first\nsecond\n")
    group = f"of-{topic}"
    command = ("consume", topic, "--group", group, "--from", "beginning", *at)
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *command], stdout=subprocess.PIPE, text=True
    ) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(2)] == ["first\n", "second\n"]
        consumer.send_signal(number)
        assert consumer.wait(TIMEOUT_S) == 0
    described = json.loads(run_ottla("groups", "describe", group, "--json", *at).stdout)
    assert (described["state"], described["members"]) == ("Empty", [])
    assert [each["lag"] for each in described["partitions"]] == [0]


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_a_producer_that_waits_for_input(
    run_ottla: RunOttla, at: At, topic: str, number: signal.Signals, exit_code: int
) -> None:
    """The signal alone suffices, without another line of input or the end of the pipe."""
    run_ottla("topics", "create", topic, *at)
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "produce", topic, *at],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as producer:
        assert producer.stdin is not None
        assert producer.stderr is not None
        producer.stdin.write(b"first\n")
        producer.stdin.flush()
        read = run_ottla("consume", topic, "--max-records", "1", *at)
        assert read.stdout == "first\n"
        producer.send_signal(number)
        assert producer.wait(TIMEOUT_S) == exit_code
        assert producer.stderr.read() == b""


def test_closed_pipe_ends_the_consumer_silently(
    run_ottla: RunOttla, at: At, topic: str, tmp_path: Path
) -> None:
    line = "x" * 99
    file = tmp_path / "lines"
    file.write_text(f"{line}\n" * 20_000)
    run_ottla("produce", topic, file, *at)
    command = shlex.join([sys.executable, "-m", "ottla.cli", "consume", topic, "--no-follow", *at])
    piped = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert (piped.stdout, piped.stderr) == (f"{line}\n141\n", "")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        pytest.param(("topics", "describe", "nowhere"), 1, "nowhere", id="unknown topic"),
        pytest.param(("topics", "delete", "nowhere"), 1, "nowhere", id="nothing to delete"),
        pytest.param(("topics", "create", "a/b"), 1, "a/b", id="illegal name"),
        pytest.param(("topics", "create", "a", "-c", "x=1"), 1, "x", id="unknown config"),
        pytest.param(("topics", "create", "a", "-c", "x"), 2, "KEY=VALUE", id="no value"),
        pytest.param(("topics", "alter", "a"), 2, "nothing to change", id="no change"),
        pytest.param(("configs", "alter", "topic", "a"), 2, "nothing to change", id="no config"),
        pytest.param(("consume", "nowhere"), 1, "nowhere", id="nothing to read"),
        pytest.param(("consume", "a", "--from", "x"), 2, "--from", id="no start"),
        pytest.param(("consume", "a", "--from", "9" * 20), 2, "exceeds", id="no such offset"),
        pytest.param(("consume", NOT_UTF_8), 2, "text in UTF-8", id="name to read"),
        pytest.param(("topics", "create", NOT_UTF_8), 2, "text in UTF-8", id="name to create"),
        pytest.param(("groups", "describe", NOT_UTF_8), 2, "text in UTF-8", id="name of a group"),
        pytest.param(("consume", "a", "-f", "template"), 2, "--template", id="no template"),
        pytest.param(("produce", "a", "missing.txt"), 2, "missing.txt", id="no such file"),
        pytest.param(
            ("produce", "a", "--json-lines", "--key-separator", ":"),
            2,
            "exclusive",
            id="both forms",
        ),
        pytest.param(("produce", "a", "--key-separator", ""), 2, "is empty", id="no separator"),
        pytest.param(("configs", "describe", "broker", "x"), 1, "no broker x", id="no broker id"),
        pytest.param(("configs", "describe", "broker", "77"), 1, "no broker 77", id="no broker"),
        pytest.param(("topics", "create", "a", "--replicas", "x"), 2, "got x.", id="no replicas"),
        pytest.param(
            ("cluster", "reassign", "--plan", "missing.json"), 2, "missing.json", id="no plan"
        ),
    ],
)
def test_failed_command_prints_one_sentence(
    run_ottla: RunOttla, at: At, arguments: tuple[str, ...], exit_code: int, sentence: str
) -> None:
    ended = run_ottla(*arguments, *at)
    assert ended.returncode == exit_code
    assert sentence in ended.stderr
    if exit_code == 1:
        assert ended.stderr.startswith("ottla: ")
        assert ended.stderr.count("\n") == 1


def test_consume_rejects_an_unknown_partition(run_ottla: RunOttla, at: At, topic: str) -> None:
    run_ottla("topics", "create", topic, *at)
    ended = run_ottla("consume", topic, "--partition", "7", "--no-follow", *at)
    assert ended.returncode == 1
    assert f"{topic}-7 does not exist" in ended.stderr


def test_malformed_line_is_reported_by_number(run_ottla: RunOttla, at: At, topic: str) -> None:
    ended = run_ottla("produce", topic, "--json-lines", *at, stdin='{"value": "a"}\nnoise\n')
    assert ended.returncode == 1
    assert ended.stderr.startswith("ottla: line 2: not valid JSON")


def test_oversized_line_is_reported_by_number(
    run_ottla: RunOttla, at: At, topic: str, tmp_path: Path
) -> None:
    endless = tmp_path / "endless"
    with endless.open("wb") as file:
        file.write(b"short\n")
        file.truncate(MAX_LINE_BYTES + 2 * CHUNK_BYTES)
    ended = run_ottla("produce", topic, str(endless), *at)
    assert ended.returncode == 1
    assert ended.stderr.startswith("ottla: line 2: longer than")


def test_oversized_record_is_reported_in_one_sentence(
    run_ottla: RunOttla, at: At, topic: str
) -> None:
    ended = run_ottla("produce", topic, *at, stdin="x" * 2_000_000)
    assert ended.returncode == 1
    assert ended.stderr.startswith("ottla: ")
    assert ended.stderr.count("\n") == 1


def test_unreachable_broker_is_reported_in_one_sentence(run_ottla: RunOttla) -> None:
    ended = run_ottla("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("ottla: ")
    assert "cannot connect to 127.0.0.1:1: Connection refused." in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("bootstrap", ["localhost:port", "localhost:99999", ":9092", ""])
def test_malformed_address_is_wrong_usage(run_ottla: RunOttla, bootstrap: str) -> None:
    ended = run_ottla("topics", "list", "--bootstrap", bootstrap)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "host:port" in ended.stderr


def test_json_output_names_the_changed_resources(run_ottla: RunOttla, at: At, topic: str) -> None:
    def output(*arguments: str) -> object:
        return json.loads(run_ottla(*arguments, "--json", *at).stdout)

    assert output("topics", "create", topic) == {"created": [topic]}
    assert output("topics", "alter", topic, "-p", "2") == {"changed": [topic]}
    setting = ("configs", "alter", "topic", topic, "-c", "retention.ms=1000")
    assert output(*setting) == {"changed": [f"topic {topic}"]}
    run_ottla("produce", topic, *at, stdin="a\n")
    assert output("consume", topic, "--no-follow")["value"] == "a"  # type: ignore[index]
    assert output("topics", "delete", topic) == {"deleted": [topic]}


def test_failed_group_deletion_names_the_groups_deleted_before(
    run_ottla: RunOttla, at: At, topic: str
) -> None:
    run_ottla("topics", "create", topic, *at)
    run_ottla("consume", topic, "--no-follow", "--group", topic, *at)
    ended = run_ottla("groups", "delete", topic, "nobody", *at)
    assert (ended.returncode, ended.stdout) == (1, f"deleted {topic}\n")
    assert "group nobody: There is no such group (GROUP_ID_NOT_FOUND)." in ended.stderr


def test_files_of_a_broker_verify_clean_while_it_runs_and_afterwards(
    run_ottla: RunOttla, broker_process: BrokerProcess
) -> None:
    at = ("--bootstrap", broker_process.bootstrap)
    run_ottla("topics", "create", "t", "-c", "segment.bytes=20000", *at)
    lines = "".join(f"{number:0100d}\n" for number in range(3_000))
    run_ottla("produce", "t", "--linger-ms", "0", *at, stdin=lines)
    verified = run_ottla("logs", "verify", broker_process.data_dir)
    assert (verified.returncode, verified.stderr) == (0, "")
    files = sorted((broker_process.data_dir / "t-0").iterdir())
    dumped = run_ottla("logs", "dump", "--deep", *files)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    assert broker_process.stop() == 0
    assert run_ottla("logs", "verify", "--deep", broker_process.data_dir).returncode == 0


def test_cluster_describe_counts_partitions_per_broker(
    run_ottla: RunOttla, at: At, topic: str
) -> None:
    run_ottla("topics", "create", topic, "-p", "2", *at)
    found = json.loads(run_ottla("cluster", "describe", "--json", *at).stdout)
    [broker] = found["brokers"]
    assert broker["leaders"] == broker["replicas"] == found["partitions"] >= 2
    assert (broker["lagging"], found["under_replicated"], found["leaderless"]) == (0, 0, 0)
    head, *_rows = run_ottla("cluster", "describe", *at).stdout.splitlines()[1:]
    assert head.split()[-3:] == ["leaders", "replicas", "lagging"]


def test_filters_omit_healthy_partitions(run_ottla: RunOttla, at: At, topic: str) -> None:
    run_ottla("topics", "create", topic, *at)
    for option in ("--under-replicated", "--unavailable"):
        narrowed = run_ottla("topics", "describe", topic, option, "--json", *at)
        assert json.loads(narrowed.stdout) == []
    everything = json.loads(run_ottla("topics", "describe", "--json", *at).stdout)
    assert topic in [report["name"] for report in everything]


@pytest.mark.parametrize(
    "arguments",
    [
        ("reassign",),
        ("reassign", "orders", "--brokers", "1", "--cancel"),
        ("reassign", "orders:0=one"),
        ("reassign", "orders:x", "--cancel"),
        ("elect", "--unclean"),
        ("elect", "orders:x"),
    ],
)
def test_contradictory_moves_and_elections_are_wrong_usage(
    run_ottla: RunOttla, at: At, arguments: tuple[str, ...]
) -> None:
    ended = run_ottla("cluster", *arguments, *at)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1


def test_an_election_names_every_partition_that_cannot_elect(
    run_ottla: RunOttla, at: At, topic: str
) -> None:
    run_ottla("topics", "create", topic, *at)
    ended = run_ottla("cluster", "elect", f"{topic}:7", f"{topic}:0", f"{topic}:8", "--json", *at)
    assert (ended.returncode, json.loads(ended.stdout)) == (1, [])
    first, second = ended.stderr.splitlines()
    assert f"{topic}-7" in first
    assert f"{topic}-8" in second


def test_replicas_option_is_validated_and_excludes_other_counts(
    run_ottla: RunOttla, at: At, topic: str
) -> None:
    assert run_ottla("topics", "create", topic, "--replicas", "0=x", *at).returncode == 2
    both = run_ottla("topics", "create", topic, "--replicas", "0=1", "-p", "2", *at)
    assert both.returncode == 2
