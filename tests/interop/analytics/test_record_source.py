"""Spark's own Kafka source and sink on our broker, beside the records source on its files."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from analytics.record_source import KafkaRecords
from analytics.spark_session import start_session
from ottla.testing import Broker
from tests.analytics.conftest import SETTINGS, needs_java
from tests.interop.kafka_jars import spark_kafka_or_skip

pytestmark = [needs_java, pytest.mark.filterwarnings("ignore")]
PARTITIONS = 3
TIMEOUT_S = 120


class Abandoned(Exception):  # noqa: N818 - not an error of the program
    """Ends a transaction with an abort."""


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    jars = ",".join(map(str, spark_kafka_or_skip()))
    session = start_session("local[1]", {**SETTINGS, "spark.jars": jars})
    session.dataSource.register(KafkaRecords)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker, whose files are read while it runs."""
    with Broker(directory=tmp_path_factory.mktemp("broker")) as running:
        yield running


async def fill(bootstrap: str, topic: str) -> None:
    """Write plain, committed and aborted records, with and without headers."""
    async with ottla.Producer(bootstrap, compression="zstd") as producer:
        for number in range(60):
            headers = [("trace", b"%d" % number), ("none", None), ("trace", b"")]
            await producer.send_and_wait(
                topic,
                None if number % 7 == 0 else b"value %d" % number,
                key=None if number % 5 == 0 else b"key %d" % number,
                headers=headers if number % 3 == 0 else [],
                partition=number % PARTITIONS,
            )
    for name, is_aborted in (("one", False), ("two", True), ("three", False)):
        async with ottla.Producer(bootstrap, transactional_id=name) as producer:
            try:
                async with producer.transaction():
                    for partition in range(PARTITIONS):
                        await producer.send_and_wait(topic, name.encode(), partition=partition)
                    if is_aborted:
                        raise Abandoned
            except Abandoned:
                pass


def kafka(spark: Any, broker: Broker, topic: str, **options: str) -> Any:
    source = spark.read.format("kafka").option("subscribe", topic)
    source = source.option("kafka.bootstrap.servers", broker.bootstrap)
    return source.option("includeHeaders", "true").options(**options).load()


def files(spark: Any, broker: Broker, topic: str, **options: str) -> Any:
    source = spark.read.format("kafka-records").option("subscribe", topic)
    source = source.option("includeHeaders", "true").option("toLogEnd", "true")
    return source.options(**options).load(str(broker.log_dir))


def rows_of(frame: Any) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_files_give_the_rows_of_spark_s_own_source(spark: Any, broker: Broker, level: str) -> None:
    topic = broker.topics().create(partitions=PARTITIONS)
    asyncio.run(fill(broker.bootstrap, topic))
    isolation = {"kafka.isolation.level": level}
    theirs = kafka(spark, broker, topic, **isolation)
    ours = files(spark, broker, topic, **isolation)
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    rows = rows_of(theirs)
    assert rows_of(ours) == rows
    transactions = 2 if level == "read_committed" else 3
    assert len(rows) == 60 + transactions * PARTITIONS
    assert asyncio.run(count_for_our_client(broker.bootstrap, topic, level, len(rows))) == len(rows)
    bounds = {
        "startingOffsets": f'{{"{topic}": {{"0": 3, "1": -2, "2": 19}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": 9, "1": 5, "2": -1}}}}',
    }
    assert rows_of(files(spark, broker, topic, **isolation, **bounds)) == rows_of(
        kafka(spark, broker, topic, **isolation, **bounds)
    )


async def count_for_our_client(bootstrap: str, topic: str, level: Any, expected: int) -> int:
    count = 0
    async with ottla.Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level=level
    ) as consumer:
        await consumer.assign_topics(topic)
        while count < expected:
            count += len(await consumer.fetch_batch(timeout_ms=1000))
    return count


def test_rows_of_spark_s_sink_are_in_the_files(spark: Any, broker: Broker) -> None:
    topic = broker.topics().create(partitions=PARTITIONS)
    frame = spark.createDataFrame(
        [
            (b"a", b"1", 0, [("trace", b"x")]),
            (None, b"2", 1, None),
            (b"c", None, 2, [("p", b""), ("q", None)]),
        ],
        "key binary, value binary, partition int, headers array<struct<key:string,value:binary>>",
    )
    sink = frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    sink.option("topic", topic).option("includeHeaders", "true").save()
    found = rows_of(files(spark, broker, topic))
    columns = ("key", "value", "partition", "headers")
    assert [tuple(row[name] for name in columns) for row in found] == [
        tuple(row) for row in frame.collect()
    ]
    assert found == rows_of(kafka(spark, broker, topic))


def test_streams_of_both_sources_give_the_same_rows(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topics().create(partitions=PARTITIONS)
    sources = {
        "kafka": {"kafka.bootstrap.servers": broker.bootstrap},
        "kafka-records": {"path": str(broker.log_dir), "toLogEnd": "true"},
    }
    # The second run continues at the checkpoint of the first one.
    for _ in range(2):
        asyncio.run(fill(broker.bootstrap, topic))
        for name, options in sources.items():
            stream = spark.readStream.format(name).option("subscribe", topic)
            stream = stream.option("startingOffsets", "earliest").option("includeHeaders", "true")
            stream = stream.option("kafka.isolation.level", "read_committed").options(**options)
            query = stream.load().writeStream.format("parquet").trigger(availableNow=True)
            query = query.option("checkpointLocation", str(tmp_path / name / "progress"))
            assert query.start(str(tmp_path / name / "rows")).awaitTermination(TIMEOUT_S)
    theirs, ours = (rows_of(spark.read.parquet(str(tmp_path / name / "rows"))) for name in sources)
    assert len(theirs) == 2 * (60 + 2 * PARTITIONS)
    assert ours == theirs


def test_an_error_of_the_source_is_one_sentence(spark: Any, broker: Broker) -> None:
    with pytest.raises(Exception, match="no log of nothing is in the directories"):
        files(spark, broker, "nothing").count()
