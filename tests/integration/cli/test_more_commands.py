"""Commands for records, log directories, quotas, members, offsets and load, on a real broker."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla import Consumer
from ottla.client.record import ConsumerRecord
from tests.conftest import BrokerProcess
from tests.integration.cli.conftest import RunOttla

At = tuple[str, str]


@pytest.fixture
def at(shared_broker: BrokerProcess) -> At:
    return ("--bootstrap", shared_broker.bootstrap)


def fill(run_ottla: RunOttla, at: At, topic: str, lines: Sequence[str]) -> None:
    ended = run_ottla("produce", topic, *at, stdin="".join(f"{line}\n" for line in lines))
    assert ended.returncode == 0, ended.stderr


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def test_consume_reads_several_topics_and_patterns(run_ottla: RunOttla, at: At) -> None:
    for name in ("many-a", "many-b", "many-c1"):
        fill(run_ottla, at, name, [name])
    read = ("consume", "--no-follow", *at)
    assert sorted(run_ottla(*read, "many-a", "many-b").stdout.split()) == ["many-a", "many-b"]
    kcat = ("--format", "kcat", "--template", r"%t/%p@%o %k:%s\n")
    lines = run_ottla(*read, "--regex", "many-[ab]", *kcat).stdout.splitlines()
    assert sorted(lines) == ["many-a/0@0 :many-a", "many-b/0@0 :many-b"]
    grouped = run_ottla(*read, "--regex", "many-.*", "--group", "pattern")
    assert sorted(grouped.stdout.split()) == ["many-a", "many-b", "many-c1"], grouped.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), 2, "name topics, or give --regex"),
        (("a", "--regex", "b"), 2, "name topics, or give --regex"),
        (("--regex", "("), 2, "regular expression"),
        (("--regex", "no-such-\x1b.*"), 1, r"no topic matches 'no-such-\x1b.*'"),
        (("many-a", "-f", "kcat"), 2, "needs --template"),
        (("many-a", "-f", "kcat", "--template", "%q"), 2, "the format has %q"),
    ],
)
def test_consume_refuses_arguments_without_meaning(
    run_ottla: RunOttla, at: At, arguments: tuple[str, ...], code: int, text: str
) -> None:
    ended = run_ottla("consume", "--no-follow", *arguments, *at)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert text in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_delete_records_moves_the_start(run_ottla: RunOttla, at: At) -> None:
    fill(run_ottla, at, "shrinking", [str(n) for n in range(10)])
    delete = ("topics", "delete-records", "shrinking:0", *at, "--before")
    assert rows(run_ottla(*delete, "4").stdout) == [["shrinking", "0", "4"]]
    assert run_ottla("consume", "shrinking", "--no-follow", *at).stdout.split() == list("456789")
    everything = run_ottla(*delete, "end", "--json")
    assert json.loads(everything.stdout) == [{"topic": "shrinking", "partition": 0, "start": 10}]
    assert run_ottla(*delete, "beginning").returncode == 2
    missing = run_ottla("topics", "delete-records", "shrinking:7", "--before", "1", *at)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "shrinking-7 does not exist" in missing.stderr


def test_log_dirs_prints_directories_and_replicas(
    run_ottla: RunOttla, shared_broker: BrokerProcess, at: At
) -> None:
    fill(run_ottla, at, "sized", ["value"])
    dirs = ("cluster", "log-dirs", *at)
    (row,) = rows(run_ottla(*dirs).stdout)
    assert row[1] == str(shared_broker.data_dir)
    (replica,) = rows(run_ottla(*dirs, "--topic", "sized", "--replicas").stdout)
    assert replica[2:4] == ["sized", "0"]
    assert int(replica[4]) > 0
    (directory,) = json.loads(run_ottla(*dirs, "--topic", "sized", "--json").stdout)
    assert [each["topic"] for each in directory["replicas"]] == ["sized"]
    assert run_ottla(*dirs, "--broker", "77").returncode == 1


def test_quotas_are_set_listed_and_removed(run_ottla: RunOttla, at: At) -> None:
    alter = ("quotas", "alter", *at)
    done = run_ottla(
        *alter, "--user", "al", "--default", "client-id", "--set", "producer_byte_rate=1e6"
    )
    assert done.stdout == "changed client-id=(default), user=al\n"
    assert (
        run_ottla(*alter, "--ip", "10.0.0.1", "--set", "connection_creation_rate=5").returncode == 0
    )
    quotas = ("quotas", "list", *at)
    assert rows(run_ottla(*quotas).stdout) == [
        ["client-id=(default),", "user=al", "producer_byte_rate", "1000000"],
        ["ip=10.0.0.1", "connection_creation_rate", "5"],
    ]
    (found,) = json.loads(run_ottla(*quotas, "--ip", "10.0.0.1", "--json").stdout)
    assert found["quotas"] == {"connection_creation_rate": 5.0}
    for arguments in ((), ("--user", "al"), ("--user", "al", "--default", "group")):
        assert run_ottla(*alter, *arguments).returncode == 2
    refused = run_ottla(*alter, "--user", "al", "--set", "no_such_rate=1")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
    run_ottla(*alter, "--ip", "10.0.0.1", "--delete", "connection_creation_rate")
    assert rows(run_ottla(*quotas, "--ip", "10.0.0.1").stdout) == []


def test_offsets_are_shifted_and_reset_by_age(run_ottla: RunOttla, at: At) -> None:
    old = [f'{{"value": "{n}", "timestamp": {1_000 * n}}}' for n in range(6)]
    sent = run_ottla("produce", "aged", "--json-lines", *at, stdin="\n".join(old) + "\n")
    assert sent.returncode == 0
    fill(run_ottla, at, "aged", ["6", "7", "8", "9"])
    read = run_ottla("consume", "aged", "--group", "aged", "--no-follow", *at)
    assert len(read.stdout.split()) == 10
    reset = ("groups", "reset-offsets", "aged", *at)
    assert rows(run_ottla(*reset, "--shift-by", "-3").stdout) == [["aged", "0", "7"]]
    assert rows(run_ottla(*reset, "--shift-by", "-100", "--dry-run").stdout)[0][2] == "0"
    assert rows(run_ottla(*reset, "--by-duration", "1d", "-t", "aged:0").stdout)[0][2] == "6"
    assert run_ottla(*reset).returncode == 2
    assert run_ottla(*reset, "--by-duration", "soon").returncode == 2
    fill(run_ottla, at, "fresh", ["0"])
    missing = run_ottla(*reset, "--shift-by", "1", "--topic", "fresh")
    assert "has no offset of fresh-0 to shift" in missing.stderr
    deleted = run_ottla("groups", "delete-offsets", "aged", "aged", *at)
    assert deleted.stdout == "deleted aged-0\n"
    # A group without members and offsets is gone.
    assert run_ottla("groups", "describe", "aged", *at).returncode == 1


def test_members_of_a_group_are_listed_and_removed(
    run_ottla: RunOttla, shared_broker: BrokerProcess, at: At
) -> None:
    import confluent_kafka

    fill(run_ottla, at, "shared", ["value"])
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": shared_broker.bootstrap,
            "group.id": "crew",
            "group.instance.id": "worker-7",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["shared"])
    while consumer.poll(1.0) is None:
        pass
    (row,) = rows(run_ottla("groups", "members", "crew", *at).stdout)
    assert (row[1], row[-1]) == ("worker-7", "shared-0")
    (member,) = json.loads(run_ottla("groups", "members", "crew", "--json", *at).stdout)
    assert member["partitions"] == ["shared-0"]
    # A static member keeps its place when it ends.
    consumer.close()
    remove = ("groups", "remove-members", "crew", *at)
    assert "no member nobody" in run_ottla(*remove, "nobody").stderr
    assert run_ottla(*remove, "worker-7").stdout == "removed worker-7\n"
    assert rows(run_ottla("groups", "members", "crew", *at).stdout) == []
    assert run_ottla(*remove).stdout == ""


def await_records(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let consumers wait for the next `count` records as long as these take."""
    fetch_batch, left = Consumer.fetch_batch, count

    async def fetch_patiently(
        consumer: Consumer, max_records: int, timeout_ms: float
    ) -> list[ConsumerRecord]:
        nonlocal left
        records = await fetch_batch(consumer, max_records, None if left else timeout_ms)
        left -= len(records)
        return records

    monkeypatch.setattr(Consumer, "fetch_batch", fetch_patiently)


def test_perf_measures_both_ways(
    run_ottla: RunOttla, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = run_ottla("perf", "produce", "load", "-n", "2000", "--size", "50", "--json", *at)
    report = json.loads(sent.stdout)
    assert (report["records"], report["bytes"]) == (2_000, 100_000)
    assert 0 < report["p50_ms"] <= report["p99_ms"] <= report["max_ms"]
    paced = run_ottla("perf", "produce", "load", "-n", "50", "--rate", "1000", *at)
    assert "latency in ms: mean" in paced.stdout
    read = run_ottla("perf", "consume", "load", "-n", "2050", *at)
    assert read.stdout.startswith("received 2,050 records, ")
    group = run_ottla("perf", "consume", "load", "-n", "10", "--group", "loaders", "--json", *at)
    assert json.loads(group.stdout)["records"] == 10
    with monkeypatch.context() as patch:
        await_records(patch, 2_050)
        short = run_ottla("perf", "consume", "load", "-n", "9999", "--timeout-ms", "300", *at)
    assert (short.returncode, short.stdout) == (1, "")
    assert "2050 of 9999 records arrived" in short.stderr
    trips = run_ottla("perf", "end-to-end", "trips", "-n", "20", "--json", *at)
    assert json.loads(trips.stdout)["records"] == 20


def test_a_profile_names_the_cluster(
    run_ottla: RunOttla, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(
        f'default = "here"\n[here]\nbootstrap.servers = "{shared_broker.bootstrap}"\n'
        '[elsewhere]\nbootstrap.servers = "127.0.0.1:1"\nsasl.password = "s3cret"\n'
    )
    env = {"OTTLA_PROFILES": str(file)}
    created = run_ottla("topics", "create", "profiled", env=env)
    assert created.returncode == 0, created.stderr
    named = run_ottla("--profile", "here", "topics", "list", env=env)
    assert "profiled" in named.stdout.split()
    unknown = run_ottla("--profile", "nowhere", "topics", "list", env=env)
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (2, 1)
    listed = run_ottla("profiles", "list", env=env)
    assert rows(listed.stdout) == [
        ["elsewhere", "127.0.0.1:1"],
        ["here", shared_broker.bootstrap, "default"],
    ]
    assert "s3cret" not in run_ottla("profiles", "list", "--json", env=env).stdout


def test_names_that_the_locale_lacks_are_escaped(
    run_ottla: RunOttla, run_ottla_process: RunOttla, at: At
) -> None:
    name = "größe-€-\U0001f389"
    fill(run_ottla, at, "localised", ["v"])
    read = ("consume", "localised", "--group", name, "--max-records", "1", *at)
    assert run_ottla(*read).returncode == 0
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    listed = run_ottla_process("groups", "list", *at, env=ascii_only)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert r"gr\xf6\xdfe-\u20ac-\U0001f389" in listed.stdout
    document = run_ottla_process("groups", "list", "--json", *at, env=ascii_only)
    assert name in [each["group_id"] for each in json.loads(document.stdout)]
