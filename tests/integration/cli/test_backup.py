"""`ottla backup` and `ottla restore`, on brokers that run and that are stopped."""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import ottla
from coordination.protocol.messages import OPEN_ACL
from coordination.server.coordinator import open_state
from coordination.server.disk.data_dir import DataDir, read_identity
from coordination.server.disk.state_recovery import recover
from coordination.server.state.txns import CreateTxn, Entry
from ottla.cli.app import make_app
from ottla.cli.backup.copying import copy_directory
from ottla.cli.backup.moves import Moves
from ottla.testing import Broker
from storage.directory.meta_properties import read_meta_properties
from storage.errors import InconsistentMetadataError

RECORDS = 200
BATCH_BYTES = 300_000


def run(*words: object) -> Result:
    return CliRunner().invoke(make_app(), [str(word) for word in words])


async def values_of(bootstrap: str, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with ottla.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign_topics(topic)
        while len(found) < count:
            found += [record.value or b"" for record in await consumer.fetch_batch(timeout_ms=1000)]
    return found


async def test_a_backup_of_a_running_broker_has_every_acknowledged_record(tmp_path: Path) -> None:
    async with Broker(directory=tmp_path / "one") as broker:
        topic = broker.topics().create(partitions=1, configs={"segment.bytes": "20000"})
        async with ottla.Producer(broker.bootstrap) as producer:
            for number in range(RECORDS):
                await producer.send_and_wait(topic, b"%d" % number + bytes(300))
            writing = asyncio.create_task(keep_writing(producer, topic))
            done = await asyncio.to_thread(run, "backup", tmp_path / "saved", broker.log_dir)
            writing.cancel()
        assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    assert manifest["directories"][0]["was_in_use"] is True
    data = tmp_path / "two" / "broker-1" / "data"
    assert run("restore", tmp_path / "saved", "--to", data).exit_code == 0
    assert run("logs", "verify", data).exit_code == 0
    async with Broker(directory=tmp_path / "two") as restored:
        values = await values_of(restored.bootstrap, topic, RECORDS)
        expected = [b"%d" % number + bytes(300) for number in range(RECORDS)]
        assert values[:RECORDS] == expected
        async with ottla.Producer(restored.bootstrap) as producer:
            assert (await producer.send_and_wait(topic, b"more")).offset >= RECORDS


async def keep_writing(producer: ottla.Producer, topic: str) -> None:
    while True:
        await producer.send_and_wait(topic, bytes(300))


def test_the_copy_of_a_coordinators_log_that_grows_meanwhile_is_one_as_after_a_crash(
    tmp_path: Path,
) -> None:
    source, target = tmp_path / "coordinator", tmp_path / "saved"
    target.mkdir()
    data_dir = DataDir(source)
    _, writer = open_state(data_dir)
    written = copied_bytes = 0

    def write(count: int) -> None:
        nonlocal written
        for _ in range(count):
            written += 1
            txn = CreateTxn(f"/{written}", bytes(BATCH_BYTES), OPEN_ACL, 0, written)
            writer.append([Entry(written, 0, 0, 0, txn)])
            writer.sync()

    def write_as_much(size_bytes: int) -> None:
        nonlocal copied_bytes
        copied_bytes += size_bytes
        write(copied_bytes // BATCH_BYTES + acknowledged - written)

    write(3)
    acknowledged = written
    copied = copy_directory(source, target, "1", write_as_much, Moves([source]))
    writer.close()
    data_dir.close()
    assert written > acknowledged
    recovered = recover(target / "1", read_identity(target / "1"))
    assert acknowledged <= recovered.state.zxid <= written
    for each in copied.files:
        data = (target / "1" / each.path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (each.size_bytes, each.sha256)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A backup of a stopped broker."""
    with Broker(directory=tmp_path / "one") as broker:
        broker.topics().create(partitions=3)
        assert broker.stop() == 0
        done = run("backup", tmp_path / "saved", broker.log_dir, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["directories"] == 1
    return tmp_path / "saved"


def test_a_changed_backup_is_detected_and_nothing_is_restored(saved: Path, tmp_path: Path) -> None:
    assert run("restore", saved, "--check").exit_code == 0
    names = {path.name for path in (saved / "1").iterdir()}
    assert "coordinator" in names
    assert not names & {".lock", ".kafka_cleanshutdown", ".ottla-boot-id"}
    [meta] = saved.glob("1/meta.properties")
    meta.write_text(meta.read_text() + "#\n")
    for words in (("--check",), ("--to", tmp_path / "new")):
        done = run("restore", saved, *words)
        assert done.exit_code == 3
        assert "has changed since the backup" in done.output
    assert not any((tmp_path / "new").iterdir())
    meta.unlink()
    assert "is missing" in run("restore", saved, "--check").output


@pytest.mark.parametrize("kind", ["pipe", "link", "endless"])
def test_a_backup_with_something_else_than_files_is_not_read(tmp_path: Path, kind: str) -> None:
    saved = tmp_path / "saved"
    (saved / "1").mkdir(parents=True)
    place = saved / "1" / "meta.properties"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to("/dev/zero")
    else:
        place.touch()
        # A file with a hole takes no space; reading all of it would take an hour.
        os.truncate(place, 2**42)
    file = {"path": place.name, "size_bytes": 1, "sha256": "0" * 64}
    directory = {"source": "/x", "folder": "1", "was_in_use": False, "files": [file]}
    manifest = {"format": 1, "began": "", "ended": "", "directories": [directory]}
    (saved / "manifest.json").write_text(json.dumps(manifest))
    for words in (("--check",), ("--to", tmp_path / "new")):
        done = run("restore", saved, *words)
        assert done.exit_code == 3, done.output
        expected = {"pipe": "is not a regular", "link": "is a link", "endless": "more bytes"}[kind]
        assert expected in done.output
    assert not any((tmp_path / "new").iterdir())


def test_directories_with_files_are_never_written_to(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = run("restore", saved, "--to", tmp_path / "full")
    assert (done.exit_code, "is not empty" in done.output) == (1, True)
    done = run("restore", saved)
    assert "is not empty" in done.output, "the source exists"
    done = run("backup", saved, tmp_path / "one" / "broker-1" / "data")
    assert (done.exit_code, "is not empty" in done.output) == (1, True)


@pytest.mark.parametrize(
    ("words", "exit_code", "reason"),
    [
        (("backup", "{}/new", "{}"), 1, "neither a log directory nor a coordinator's"),
        (("backup", "{}/new", "{}", "{}"), 2, "named twice"),
        (("restore", "{}"), 1, "no complete backup"),
        (("restore", "{}", "--check", "--to", "{}/x"), 2, "leave out --to"),
    ],
)
def test_a_wrong_use_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...], exit_code: int, reason: str
) -> None:
    done = run(*(word.format(tmp_path) for word in words))
    assert (done.exit_code, reason in done.output.replace("\n", " ")) == (exit_code, True)


def test_the_number_of_targets_must_fit(saved: Path, tmp_path: Path) -> None:
    done = run("restore", saved, "--to", tmp_path / "a", "--to", tmp_path / "b")
    assert (done.exit_code, "--to names 2" in done.output) == (2, True)


def test_two_directories_are_not_restored_to_one(tmp_path: Path) -> None:
    directories = [
        {"source": "/x", "folder": folder, "was_in_use": False, "files": []} for folder in "12"
    ]
    manifest = {"format": 1, "began": "", "ended": "", "directories": directories}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    done = run("restore", tmp_path, "--to", tmp_path / "a", "--to", tmp_path / "b" / ".." / "a")
    assert (done.exit_code, "names a directory twice" in done.output) == (2, True)
    assert not (tmp_path / "a").exists()


@contextlib.contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Let the system refuse longer files of this process, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_backup_that_does_not_fit_is_no_backup(saved: Path, tmp_path: Path) -> None:
    with files_of_at_most(64):
        done = run("backup", tmp_path / "small", tmp_path / "one" / "broker-1" / "data")
    assert done.exit_code == 1
    assert re.fullmatch(rf"ottla: {tmp_path}/small/1/\S+: File too large\n", done.output)
    assert "no complete backup" in run("restore", tmp_path / "small").output
    assert run("restore", saved, "--check").exit_code == 0


def test_a_restore_that_does_not_fit_leaves_nothing(saved: Path, tmp_path: Path) -> None:
    with files_of_at_most(64):
        done = run("restore", saved, "--to", tmp_path / "new")
    assert (done.exit_code, "File too large" in done.output) == (1, True)
    assert not any((tmp_path / "new").iterdir())
    assert run("restore", saved, "--to", tmp_path / "new").exit_code == 0


DIES_AT_A_SYNC = """
import os, signal

sync, numbers = os.fsync, iter(range(LIMIT))

def sync_or_die(descriptor):
    if next(numbers, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    sync(descriptor)

os.fsync = sync_or_die
from ottla.cli.app import make_app
make_app()()
"""


@pytest.mark.parametrize("limit", [1, 5, 20])
def test_no_broker_starts_on_an_interrupted_restoration(
    saved: Path, tmp_path: Path, limit: int
) -> None:
    """A broker with another coordinator would serve the part that has been copied."""
    program = DIES_AT_A_SYNC.replace("LIMIT", str(limit))
    words = ("restore", str(saved), "--to", str(tmp_path / "new"))
    ended = subprocess.run([sys.executable, "-c", program, *words], capture_output=True)
    assert ended.returncode == -signal.SIGKILL
    with pytest.raises(InconsistentMetadataError, match="ottla restore was interrupted"):
        read_meta_properties(tmp_path / "new" / "meta.properties")
