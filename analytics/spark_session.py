"""Edge: a Spark session that starts fast and keeps quiet.

Start-up is most of a small audit. Class data sharing, the first compiler alone and the serial
collector halve it: the archive of classes is made when the first session of a user ends, and kept
in the cache directory (docs/audits.md says where, and how to do without).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from analytics.errors import AuditError, SparkMissingError
from analytics.spark_master import check_master

MIN_JAVA: Final = 17
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla" / "spark"
LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
# The tasks of an audit do their work in Python: the first compiler is enough and starts faster. A
# shuffle of SQL takes three times as long with it (benchmarks/audit_load.py).
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ALL_COMPILERS: Final = "-XX:+UseSerialGC"
# An archive that does not fit any more is ignored; nobody needs to read about it.
_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_ARCHIVE_MAGIC_BYTES: Final = 4
_JAVA_TIMEOUT_S: Final = 30
_LOG_TAIL_LINES: Final = 3
# What Spark says at every start.
_LOG_NOISE: Final = ("Setting default log level", "To adjust logging level", "WARNING: Using")
_FRAMES: Final = ("at ", "... ", "An error occurred while calling", "SQLSTATE: ")
_CAUSE: Final = "Caused by: "
YARN_MAX_WAIT_MS: Final = 20_000


def find_java() -> str:
    """The `java` that Spark will run.

    Raises:
        SparkMissingError: there is none, or it is too old; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    remedy = f"install Java {MIN_JAVA} or newer (Debian: apt install openjdk-17-jre-headless)"
    if java is None or not Path(java).exists():
        raise SparkMissingError(f"Spark needs Java and none was found: {remedy}")
    answer = subprocess.run(
        [java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False
    )
    version = re.search(r'version "(\d+)', answer.stderr)
    if version is None or int(version[1]) < MIN_JAVA:
        found = version[1] if version else "of no known version"
        raise SparkMissingError(f"Spark needs Java {MIN_JAVA} and {java} is {found}: {remedy}")
    return java


def start_session(
    master: str, settings: Mapping[str, str] | None = None, *, is_long: bool = False
) -> Any:
    """A Spark session on `master`; see `start_context`."""
    start_context(master, settings, is_long=is_long)
    return get_session()


def get_session() -> Any:
    """What SQL needs besides the context that was started."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def start_context(
    master: str, settings: Mapping[str, str] | None = None, *, is_long: bool = False
) -> Any:
    """Spark on `master`, or where spark-submit says if that is empty.

    Where it runs in this process already it is used as it is. `is_long` is for work that Spark
    itself does, such as SQL: it gets all of Java's compilers.

    Raises:
        SparkMissingError: there is no pyspark or no Java.
        AuditError: Spark does not start, or nobody is at `master`.
    """
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError:
        raise SparkMissingError(
            "audits need pyspark and pyarrow: pip install 'ottla[analytics]'"
        ) from None
    java = find_java()
    check_master(master)
    is_local = master.startswith("local[") or master == "local"
    _set_environment(is_local)
    conf = SparkConf().setAppName("ottla audit")
    if master:
        conf.setMaster(master)
    conf.setAll([*_settings(java, is_local, is_long).items(), *(settings or {}).items()])
    with _captured_output() as log:
        try:
            context = SparkContext.getOrCreate(conf)
        except spark_errors() as error:
            where = f" on {master}" if master else ""
            raise AuditError(f"Spark did not start{where}: {_reason(error, log)}") from error
    context.setLogLevel("ERROR")
    return context


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises where it cannot go on; not the mistakes of our own code on the driver."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, RuntimeError


@contextmanager
def told_in_one_sentence() -> Iterator[None]:
    """Have what ends a job of Spark's be an AuditError."""
    try:
        yield
    except spark_errors() as error:
        # A worker's own words come last, Spark's about them first.
        lines = _told(str(error))
        raise AuditError(f"Spark gave up: {lines[0][:200]} ... {lines[-1][:200]}") from error


def _settings(java: str, is_local: bool, is_long: bool) -> dict[str, str]:
    CACHE.mkdir(parents=True, exist_ok=True)
    log4j = CACHE / "log4j2.properties"
    if not log4j.exists():
        log4j.write_text(LOG4J, encoding="utf-8")
    compilers = _ALL_COMPILERS if is_long else _QUICK
    archive = _archive(java, is_long)
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()} {_QUIET} {compilers} {archive}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": options,
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
        # Its client tries for a quarter of an hour otherwise.
        "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": str(YARN_MAX_WAIT_MS),
    }
    if is_long:
        # A small map before the large one: of use to those who group by few keys alone. Without
        # it the second opinion in SQL reads 0.83 M records/s instead of 0.65.
        settings["spark.sql.codegen.aggregate.map.twolevel.enabled"] = "false"
    if is_local:
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.python.daemon.module"] = "analytics.worker_daemon"
    return settings


def _archive(java: str, is_long: bool) -> str:
    """The option that uses the archive of classes, or that makes it when this session ends."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    if not jars.is_dir():
        # spark-submit gives us pyspark in a zip, and a JVM that runs already.
        return ""
    # Java ignores an archive of jars that lie elsewhere, or were installed anew.
    stamp = f"{pyspark.__version__} {jars} {jars.stat().st_mtime_ns} {java} {Path(java).resolve()}"
    # SQL loads twice as many classes.
    kind = "sql" if is_long else "classes"
    archive = CACHE / f"{kind}-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"
    if _is_whole(archive):
        return f"-XX:SharedArchiveFile={archive}"
    return f"-XX:ArchiveClassesAtExit={archive}"


def _is_whole(archive: Path) -> bool:
    """Whether Java has ended writing it: the head, which begins with a number, is written last."""
    try:
        with archive.open("rb") as file:
            return any(file.read(_ARCHIVE_MAGIC_BYTES))
    except FileNotFoundError:
        return False


def _set_environment(is_local: bool) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@contextmanager
def _captured_output() -> Iterator[Path]:
    """Have what starts meanwhile write into a file: the JVM is chatty, and ends after we do."""
    sys.stdout.flush()
    sys.stderr.flush()
    own = os.dup(1), os.dup(2)
    file, name = tempfile.mkstemp(prefix="ottla-spark-", suffix=".log")
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield Path(name)
    finally:
        for descriptor, kept in enumerate(own, start=1):
            os.dup2(kept, descriptor)
            os.close(kept)
        Path(name).unlink(missing_ok=True)


def _reason(error: Exception, log: Path) -> str:
    """What went wrong first, in Java's words, else what was said last."""
    text = log.read_text(errors="replace")
    lines = [line.strip() for line in f"{text}\n{error}".splitlines() if line.strip()]
    if causes := [line for line in lines if line.startswith(_CAUSE)]:
        return causes[-1].removeprefix(_CAUSE)[:500]
    return " ".join(_told(text)[-_LOG_TAIL_LINES:] or lines)[:500]


def _told(text: str) -> list[str]:
    """The lines without those of stack traces and those that Spark always writes."""
    lines = [line.strip(" \t:") for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith((*_FRAMES, *_LOG_NOISE))]
