"""A streaming query over a growing log, restarted from its checkpoint."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics.spark_session import start_session
from analytics.stream_source import KafkaBatches
from tests.analytics.conftest import SETTINGS, needs_java
from tests.analytics.test_stream import grown

pytestmark = [needs_java, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    session = start_session("local[1]", SETTINGS)
    yield session
    session.stop()


def test_the_stream_continues_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(KafkaBatches)
    for batch_count in (10, 30):
        grown(tmp_path / "log", batch_count)
        frame = spark.readStream.format("kafka-batches").load(str(tmp_path / "log"))
        stream = frame.writeStream.format("parquet").trigger(availableNow=True)
        stream = stream.option("checkpointLocation", str(tmp_path / "progress"))
        stream.start(str(tmp_path / "rows")).awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "rows")).collect()
        assert sorted(row["base_offset"] for row in rows) == list(range(0, batch_count * 5, 5))
        assert {row["finding"] for row in rows} == {None}
