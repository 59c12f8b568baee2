"""`ottla.spark`: the data sources below the package's name."""

import subprocess
import sys
from pathlib import Path

import pytest

import ottla.spark

ROOT = Path(__file__).parents[2]


def test_the_names_are_the_data_sources() -> None:
    data_source = pytest.importorskip("analytics.data_source")
    assert ottla.spark.KafkaSegments is data_source.KafkaSegments
    assert ottla.spark.KafkaBatches.name() == "kafka-batches"
    assert ottla.spark.KafkaRecords.name() == "kafka-records"
    assert {"KafkaBatches", "KafkaRecords", "KafkaSegments"} <= set(dir(ottla.spark))


def test_the_import_loads_no_spark_until_a_name_is_used() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; import ottla.spark\n"
        "try: ottla.spark.KafkaSegments\n"
        "except ImportError as error: print(error)\n"
        "print('analytics.data_source' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "ottla.spark.KafkaSegments needs Spark: pip install 'ottla[analytics]'",
        "False",
    ]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = ottla.spark.Nothing
