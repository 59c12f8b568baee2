"""The files of a Spark session in the cache, and the error of a failed job."""

import shlex
from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JError

from analytics.errors import AuditError
from analytics.spark_session import _archive, _log_settings, spark_errors_translated

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


def test_an_archive_in_a_directory_with_blanks_is_one_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of a user"))
    (tmp_path / "jars").mkdir()
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))
    [option] = shlex.split(_archive("java", uses_sql=False))
    assert option.startswith(f"-XX:ArchiveClassesAtExit={tmp_path}/of a user/ottla/spark/classes-")


def test_a_cache_that_cannot_be_used_is_refused_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(AuditError, match="Not a directory; set XDG_CACHE_HOME to"):
        _log_settings()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(AuditError, match="has no home directory; set XDG_CACHE_HOME to"):
        _log_settings()


def test_failed_job_is_reported_by_its_first_and_last_line() -> None:
    sentence = (
        "^Spark gave up: org.apache.spark.api.python.PythonException: "
        "An exception was thrown from the Python worker ... ValueError: 'S99' is not a valid Check$"
    )
    with pytest.raises(AuditError, match=sentence), spark_errors_translated():
        raise Py4JError(SPARK_MESSAGE)
