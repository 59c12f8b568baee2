"""The class archive of a Spark session, and the error of a failed job."""

from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JError

from analytics.errors import AuditError
from analytics.spark_session import _archive, spark_errors_translated

SPARK_MESSAGE = """\
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


def test_each_kind_of_work_and_jar_directory_has_its_own_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = set()
    for place in (tmp_path / "one", tmp_path / "other"):
        (place / "jars").mkdir(parents=True)
        monkeypatch.setattr(pyspark, "__file__", str(place / "__init__.py"))
        for uses_sql in (False, True):
            options.add(_archive("java", uses_sql))
            assert _archive("java", uses_sql) in options
    assert len(options) == 4


def test_pyspark_without_jars_gets_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark.zip" / "__init__.py"))
    assert _archive("java", uses_sql=False) == ""


def test_failed_job_is_reported_by_its_first_and_last_line() -> None:
    sentence = (
        "^Spark gave up: org.apache.spark.api.python.PythonException: "
        "An exception was thrown from the Python worker ... ValueError: 'S99' is not a valid Check$"
    )
    with pytest.raises(AuditError, match=sentence), spark_errors_translated():
        raise Py4JError(SPARK_MESSAGE)
