"""Which archive of classes a session starts with, and what is told of one that fails."""

from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JError

from analytics.errors import AuditError
from analytics.spark_session import _archive, spark_errors_translated

WORDS_OF_SPARK = """\
An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.api.python.PythonException: An exception was thrown from the Python worker:
  File "replica_audit.py", line 41, in __init__
    self._checks = {Check(check) for check in task.checks}
                   ^^^^^^^^^^^^
ValueError: 'S99' is not a valid Check
 SQLSTATE: 38000
\tat org.apache.spark.rdd.RDD.collect(RDD.scala:1122)
\t... 20 more
"""


def test_an_archive_belongs_to_one_kind_of_work_and_the_jars_of_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = set()
    for place in (tmp_path / "one", tmp_path / "other"):
        (place / "jars").mkdir(parents=True)
        monkeypatch.setattr(pyspark, "__file__", str(place / "__init__.py"))
        for is_long in (False, True):
            options.add(_archive("java", is_long))
            assert _archive("java", is_long) in options
    assert len(options) == 4


def test_a_pyspark_without_jars_has_a_jvm_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark.zip" / "__init__.py"))
    assert _archive("java", is_long=False) == ""


def test_a_job_that_failed_is_told_by_its_first_and_its_last_words() -> None:
    sentence = (
        "^Spark gave up: org.apache.spark.api.python.PythonException: "
        "An exception was thrown from the Python worker ... ValueError: 'S99' is not a valid Check$"
    )
    with pytest.raises(AuditError, match=sentence), spark_errors_translated():
        raise Py4JError(WORDS_OF_SPARK)
