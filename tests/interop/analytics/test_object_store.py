"""Logs in an object store are audited and read like logs on a disk."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics.data_source import KafkaSegments
from analytics.file_store import list_directory
from analytics.snapshot import read_snapshot
from analytics.spark_session import start_session
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.compaction_violations import COMPACTION
from tests.analytics.conftest import SETTINGS, needs_java
from tests.analytics.integrity_violations import INTEGRITY
from tests.analytics.log_model import compact, make_log
from tests.interop.analytics.object_store import (
    CREDENTIALS,
    needs_object_store,
    object_store,
    upload,
)

pytestmark = [needs_java, needs_object_store, pytest.mark.filterwarnings("ignore")]
HORIZON_MS = NOW_MS + RULES.delete_retention_ms
TIMEOUT_S = 300


@pytest.fixture(scope="module")
def options() -> Iterator[str]:
    """A store with its credentials in environment variables, as usual."""
    before = dict(os.environ)
    os.environ.update(CREDENTIALS)
    with object_store() as found:
        yield found
    os.environ.clear()
    os.environ.update(before)


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "ottla.cli.__main__", "audit", *arguments, "--json"]
    rule = f"--rule=now.ms={NOW_MS}"
    done = subprocess.run(
        [*command, rule, "--master", "local[2]"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.stderr == ""
    told: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, told


def test_the_command_audits_uris(options: str, tmp_path: Path) -> None:
    raw = make_log()
    raw.write(tmp_path / "raw")
    twin = compact(raw, horizon_ms=HORIZON_MS)
    twin.write(tmp_path / "clean")
    log, expected = COMPACTION["a lost key"](raw, twin)
    log.write(tmp_path / "lost")
    against = upload(tmp_path / "raw", options)
    code, told = run("compaction", upload(tmp_path / "clean", options), "--against", against)
    assert (code, told["findings"], told["records"]) == (0, [], 140)
    code, told = run("compaction", upload(tmp_path / "lost", options), "--against", against)
    assert (code, {(row["what"], row["offset"]) for row in told["findings"]}) == (3, expected)
    assert told["findings"][0]["file"].startswith("s3://logs/lost/orders-0/0000")


def test_planted_damage_in_the_store_is_named(options: str, tmp_path: Path) -> None:
    for number, name in enumerate(("a flipped bit: value", "an index entry off by one batch")):
        expected = INTEGRITY[name](make_log().write(tmp_path / f"broker-{number}"))
        found = findings_of("integrity", upload(tmp_path / f"broker-{number}", options))
        names = {(each.damage, each.file.partition("?")[0].rpartition("/")[2]) for each in found}
        assert names == {(what, file) for what, file, _ in expected}


def test_the_data_source_reads_uris(options: str, tmp_path: Path) -> None:
    make_log().write(tmp_path / "read")
    place = upload(tmp_path / "read", options)
    session = start_session("local[2]", SETTINGS)
    try:
        session.dataSource.register(KafkaSegments)
        source = session.read.format("kafka-segments").schema("offset bigint, key binary")
        rows = source.option("range.bytes", 1000).load(place).collect()
        assert sorted(row["offset"] for row in rows) == list(range(400))
        assert {len(row["key"]) for row in rows} == {9}
    finally:
        session.stop()


def test_a_snapshot_may_be_in_the_store(options: str, tmp_path: Path) -> None:
    from analytics.discovery import find_replicas
    from analytics.snapshot import open_snapshot, take_snapshot

    make_log().write(tmp_path / "log")
    folder = tmp_path / "snapshots"
    folder.mkdir()
    replicas = find_replicas(upload(tmp_path / "log", options), lambda _: None)
    take_snapshot(replicas, folder / "monday.parquet", RULES.key_limit)
    place = upload(folder, options).replace("?", "/monday.parquet?")
    open_snapshot(place, 100)
    earlier = read_snapshot(place, "orders", 0)
    assert earlier is not None
    assert earlier.end_offset == 400


def test_a_missing_bucket_is_reported_in_one_sentence(options: str) -> None:
    with pytest.raises(OSError, match="bucket"):
        list_directory(f"s3://nobodys-bucket/logs{options}")
