"""Tests that need Spark: the data source, the tasks, the SQL audits, the command's verdicts."""

import hashlib
import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.data_source import KafkaSegments
from analytics.errors import AuditError
from analytics.finding_row import finding_row
from analytics.plan import Audit
from analytics.record_source import KafkaRecords
from analytics.result_files import write_result
from analytics.run import Request, plan, run_audit
from analytics.spark_audit import findings_frame, run_tasks, tasks_frame
from analytics.spark_session import spark_errors_translated
from logcheck.rule import Rules
from tests.analytics.audited import NOW_MS, RULES, findings_of
from tests.analytics.compaction_violations import COMPACTION
from tests.analytics.conftest import needs_java
from tests.analytics.log_model import compact, make_log
from tests.analytics.sql_audit import changed_keys, duplicate_keys, read_log

pytestmark = [needs_java, pytest.mark.filterwarnings("ignore")]
HORIZON_MS = NOW_MS + RULES.delete_retention_ms


def compaction_of(tmp_path: Path, **changes: Any) -> Request:
    return Request(
        audit=Audit.COMPACTION,
        directories=[str(tmp_path / "clean")],
        against=str(tmp_path / "raw"),
        master="local[1]",
        rules=replace(RULES, **changes),
    )


@pytest.mark.usefixtures("spark")
def test_audit_of_a_clean_log_is_clean(tmp_path: Path) -> None:
    for partition in range(2):
        raw = make_log(partition=partition)
        raw.write(tmp_path / "raw")
        compact(raw, horizon_ms=HORIZON_MS).write(tmp_path / "clean")
    result = run_audit(compaction_of(tmp_path))
    assert (result.verdict.is_clean, result.verdict.exit_code, result.findings) == (True, 0, [])
    assert (result.verdict.partitions, result.verdict.replicas) == (2, 2)
    assert result.verdict.line().startswith("compaction: clean; 2 partitions, 2 replicas")


def test_spark_finds_the_same_as_this_process_and_writes_it(spark: Any, tmp_path: Path) -> None:
    raw = make_log()
    raw.write(tmp_path / "raw")
    log, expected = COMPACTION["a changed value"](raw, compact(raw, horizon_ms=HORIZON_MS))
    log.write(tmp_path / "clean")
    result = run_audit(compaction_of(tmp_path))
    local = findings_of("compaction", tmp_path / "clean", against=tmp_path / "raw")
    assert result.findings == [finding_row(finding) for finding in local]
    assert {(row["what"], row["offset"]) for row in result.findings} == expected
    assert result.verdict.exit_code == 3

    write_result(result, tmp_path / "out")
    rows = spark.read.parquet(str(tmp_path / "out" / "findings.parquet")).collect()
    assert [(row["what"], row["offset"]) for row in rows] == list(expected)
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert (verdict["clean"], verdict["errors"], verdict["by_kind"]) == (
        False,
        1,
        {"changed_value": 1},
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "changed_value" in page
    assert "default-src 'none'" in page, "the page may load a resource from the network"


@pytest.mark.parametrize("limits", [{}, {"key_limit": 4}], ids=["one table", "many shards"])
def test_dataframe_job_finds_the_same_as_the_command(
    spark: Any, tmp_path: Path, limits: dict[str, int]
) -> None:
    raw = make_log()
    raw.write(tmp_path / "raw")
    log, expected = COMPACTION["a changed value"](raw, compact(raw, horizon_ms=HORIZON_MS))
    log.write(tmp_path / "clean")
    tasks, found = plan(compaction_of(tmp_path, **limits))
    assert found == []
    findings = findings_frame(tasks_frame(spark, tasks))
    assert findings.schema.simpleString().startswith("struct<check:string,what:string,")
    rows = findings.where("severity = 'error'").collect()
    assert {(row["what"], row["offset"]) for row in rows} == expected


@pytest.mark.usefixtures("spark")
def test_a_partition_too_large_for_one_table_is_split(tmp_path: Path) -> None:
    raw = make_log()
    raw.write(tmp_path / "raw")
    log, expected = COMPACTION["a batch of lost keys"](raw, compact(raw, horizon_ms=HORIZON_MS))
    log.write(tmp_path / "clean")
    result = run_audit(compaction_of(tmp_path, key_limit=15))
    assert {(row["what"], row["offset"]) for row in result.findings} == expected
    assert {summary["shard_count"] for summary in result.summaries} >= {4}


@pytest.mark.usefixtures("spark")
def test_replicas_too_large_for_one_table_are_each_reported_once(tmp_path: Path) -> None:
    make_log().write(tmp_path / "a")
    for name in "bc":
        compact(make_log(), horizon_ms=HORIZON_MS).write(tmp_path / name)
    request = Request(
        audit=Audit.REPLICAS,
        directories=[str(tmp_path / name) for name in "abc"],
        master="local[1]",
        rules=replace(RULES, key_limit=20),
    )
    # Of the first two shards, one fits its table and the other does not.
    result = run_audit(request)
    places = [(summary["replica"], summary["shard"]) for summary in result.summaries]
    assert len(places) == len(set(places)) == 3 * result.summaries[0]["shard_count"] > 3


def test_worker_failure_is_reported_in_one_sentence(spark: Any) -> None:
    sentence = "^Spark gave up: .*JSONDecodeError: "
    with pytest.raises(AuditError, match=sentence), spark_errors_translated():
        spark.sparkContext.parallelize(["not a task"], 1).mapPartitions(run_tasks).collect()


def test_task_of_a_dead_worker_is_repeated(spark: Any, tmp_path: Path) -> None:
    mark = tmp_path / "attempt"

    def die_once(_: object) -> int:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return 1
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert spark.sparkContext.parallelize([0], 1).map(die_once).collect() == [1]


def test_worker_that_dies_again_is_reported_in_one_sentence(spark: Any) -> None:
    sentence = r"^Spark gave up: a worker died 2 times \(out of memory\?\); a lower"
    with pytest.raises(AuditError, match=sentence), spark_errors_translated():
        spark.sparkContext.parallelize([0], 1).map(
            lambda _: os.kill(os.getpid(), signal.SIGKILL)
        ).collect()


def test_workers_import_the_installed_pyspark(spark: Any) -> None:
    def origin(_: object) -> str:
        import pyspark

        return str(pyspark.__file__)

    assert ".zip" not in spark.sparkContext.parallelize([0], 1).map(origin).first()


def test_sql_and_tasks_agree(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(KafkaSegments)
    raw = make_log()
    raw.write(tmp_path / "raw")
    twin = compact(raw, horizon_ms=HORIZON_MS)
    reference = read_log(spark, str(tmp_path / "raw"))
    until = twin.cleaner_point or 0
    for name in ("a changed value", "an older value survives"):
        log, expected = COMPACTION[name](raw, twin)
        log.write(tmp_path / name)
        rows = changed_keys(read_log(spark, str(tmp_path / name)), reference, until).collect()
        assert {(row["what"], row["offset"]) for row in rows} == expected, name
    log, expected = COMPACTION["a duplicate key"](raw, twin)
    log.write(tmp_path / "twice")
    found = duplicate_keys(read_log(spark, str(tmp_path / "twice")), until).collect()
    assert {(row["what"], row["offset"]) for row in found} == expected


# Two blocks with one MD5. Source: X. Wang and H. Yu, How to Break MD5 and Other Hash Functions.
MD5_TWINS = [
    bytes.fromhex(
        "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f89"
        "55ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5b"
        "d8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0"
        "e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70"
    ),
    bytes.fromhex(
        "d131dd02c5e6eec4693d9a0698aff95c2fcab50712467eab4004583eb8fb7f89"
        "55ad340609f4b30283e4888325f1415a085125e8f7cdc99fd91dbd7280373c5b"
        "d8823e3156348f5bae6dacd436c919c6dd53e23487da03fd02396306d248cda0"
        "e99f33420f577ee8ce54b67080280d1ec69821bcb6a8839396f965ab6ff72a70"
    ),
]


@pytest.mark.usefixtures("spark")
def test_keys_with_equal_hashes_are_reported(tmp_path: Path) -> None:
    raw, sound = make_log(), make_log(partition=1)
    sound.write(tmp_path / "raw")
    for log in (raw, sound):
        compact(log, horizon_ms=HORIZON_MS).write(tmp_path / "clean")
    # Two records get different keys with one hash. A cleaner keeps only the second record.
    batches = list(raw.batches)
    for number, key in zip((1, 27), MD5_TWINS, strict=True):
        first, *others = batches[number].records
        batches[number] = replace(batches[number], records=(replace(first, key=key), *others))
    segments = [(base, batches[base // 5 : base // 5 + 20]) for base, _ in raw.segments]
    directory = replace(raw, segments=segments).write(tmp_path / "raw")
    result = run_audit(replace(compaction_of(tmp_path), audit=Audit.COLLISIONS))
    assert (result.verdict.partitions, result.verdict.records) == (2, 280)
    [finding] = result.findings
    place = finding["check"], finding["what"], finding["file"], finding["offset"]
    file = str(directory / "00000000000000000000.log")
    assert place == ("S14", "key_collision", file, 5)
    assert finding["position"] == len(batches[0].encode())
    assert finding["expected"].endswith("79054025255fb1a26e4bc422aef54eb4")


@pytest.mark.usefixtures("spark")
def test_shorter_hash_gives_more_collisions(tmp_path: Path) -> None:
    make_log(100, 90).write(tmp_path / "clean")
    request = compaction_of(tmp_path, hash_bytes=1)
    result = run_audit(replace(request, audit=Audit.COLLISIONS, against=None))
    keys = {record.key or b"" for batch in make_log(100, 90).batches for record in batch.records}
    digests = [hashlib.md5(key).digest()[0] for key in keys]
    assert result.verdict.by_kind == {"key_collision": len(keys) - len(set(digests))}
    groups = sum(count > 1 for count in Counter(digests).values())
    short = replace(request, rules=replace(request.rules, finding_limit=3))
    verdict = run_audit(replace(short, audit=Audit.COLLISIONS, against=None)).verdict
    assert verdict.unlisted == {"error": groups - 3 - 1}, "one row stands for those without a row"


@pytest.mark.usefixtures("spark")
def test_collisions_are_found_in_a_directory_with_a_comma(tmp_path: Path) -> None:
    make_log(100, 90).write(tmp_path / "a,b")
    request = replace(compaction_of(tmp_path, hash_bytes=1), audit=Audit.COLLISIONS, against=None)
    result = run_audit(replace(request, directories=[str(tmp_path / "a,b")]))
    assert set(result.verdict.by_kind) == {"key_collision"}


def test_data_source_projects_and_filters(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(KafkaSegments)
    for partition in range(2):
        make_log(partition=partition).write(tmp_path)
    frame = spark.read.format("kafka-segments").schema("partition int, offset bigint")
    frame = frame.option("range.bytes", 7000)
    where = "partition = 1 and offset >= 150 and offset < 153"
    pushed = frame.option("pushdown", "true").load(str(tmp_path)).where(where)
    assert sorted(row["offset"] for row in pushed.collect()) == [150, 151, 152]
    assert pushed.rdd.getNumPartitions() < 4
    plain = frame.option("pushdown", "false").load(str(tmp_path))
    assert plain.where(where).count() == 3
    assert plain.count() == 800, "the filters of one query affected the next one"


def test_records_source_has_the_rows_and_errors_of_a_kafka_source(
    spark: Any, tmp_path: Path
) -> None:
    spark.dataSource.register(KafkaRecords)
    log = make_log()
    log.write(tmp_path)
    source = spark.read.format("kafka-records").option("includeHeaders", "true")
    rows = source.option("subscribe", "orders").load(str(tmp_path)).orderBy("offset").collect()
    assert [(row["key"], row["value"], row["offset"], row["headers"]) for row in rows] == [
        (record.key, record.value, record.offset, None)
        for batch in log.batches
        for record in batch.records
    ]
    assert rows[7]["timestamp"].timestamp() * 1000 == log.batches[1].records[2].timestamp_ms
    with pytest.raises(Exception, match="RecordsUsageError: no log of payments is in the dir"):
        source.option("subscribe", "payments").load(str(tmp_path)).count()


@pytest.mark.usefixtures("spark")
def test_replicas_are_audited_together(tmp_path: Path) -> None:
    for name in "ab":
        make_log().write(tmp_path / name)
    request = Request(
        audit=Audit.REPLICAS,
        directories=[str(tmp_path / "a"), str(tmp_path / "b")],
        master="local[1]",
        rules=Rules(now_ms=NOW_MS),
    )
    assert run_audit(request).verdict.line().startswith("replicas: clean; 1 partitions, 2 replicas")
