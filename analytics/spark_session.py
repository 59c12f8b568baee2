"""A Spark session that starts fast and prints nothing (edge).

Start-up dominates a small audit. Class data sharing, the first compiler alone and the serial
collector halve it. The class archive is written when a user's first session ends, and is kept in
the cache directory (docs/audits.md gives its place, and the setting to disable it).
"""

import hashlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from analytics.errors import AuditError, SparkMissingError

MIN_JAVA: Final = 17
CACHE_REMEDY: Final = "set XDG_CACHE_HOME to a directory that this user can write to"
LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
# The tasks of an audit run in Python: Java's first compiler is enough for them and starts faster.
# An SQL shuffle takes three times as long with it (benchmarks/audit_load.py).
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ALL_COMPILERS: Final = "-XX:+UseSerialGC"
# Java ignores an outdated archive, and needs no log line about that.
_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_ARCHIVE_MAGIC_BYTES: Final = 4
_JAVA_TIMEOUT_S: Final = 30
_LOG_TAIL_LINES: Final = 3
# Lines that Spark prints at every start.
_LOG_NOISE: Final = ("Setting default log level", "To adjust logging level", "WARNING: Using")
_FRAMES: Final = ("at ", "... ", "An error occurred while calling", "SQLSTATE: ")
_CAUSE: Final = "Caused by: "
_DEAD_WORKER: Final = ("java.io.EOFException", "Python worker exited unexpectedly")
MAX_FAILURES: Final = 2
"""Attempts at a task on this machine, whose worker may run out of memory; clusters allow 4."""
YARN_MAX_WAIT_MS: Final = 20_000
_PROGRESS_INTERVAL_S: Final = 0.2
CONNECT_TIMEOUT_S: Final = 5.0
DEFAULT_PORT: Final = 7077
_STANDALONE: Final = "spark://"


def find_java() -> str:
    """Return the `java` that Spark will run.

    Raises:
        SparkMissingError: Java is missing or too old; the message says what to install.
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
        found = version[1] if version else "of unknown version"
        raise SparkMissingError(f"Spark needs Java {MIN_JAVA} and {java} is {found}: {remedy}")
    return java


def start_session(
    master: str, settings: Mapping[str, str] | None = None, *, uses_sql: bool = False
) -> Any:
    """Start Spark on `master` and return its session; see `start_context`."""
    start_context(master, settings, uses_sql=uses_sql)
    return get_session()


def get_session() -> Any:
    """Return the SQL session on top of the running Spark context."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def start_context(
    master: str, settings: Mapping[str, str] | None = None, *, uses_sql: bool = False
) -> Any:
    """Start Spark on `master`, or on the master of spark-submit if `master` is empty.

    A context that already runs in this process is reused unchanged. `uses_sql` is for work that
    Spark itself does: it enables all of Java's compilers.

    Raises:
        SparkMissingError: pyspark or Java is missing.
        AuditError: Spark does not start, or no master accepts connections at `master`.
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
        conf.setMaster(_with_attempts(master))
    conf.setAll([*_settings(java, is_local, uses_sql).items(), *(settings or {}).items()])
    with _captured_output() as log:
        try:
            context = SparkContext.getOrCreate(conf)
        except spark_errors() as error:
            where = f" on {master}" if master else ""
            raise AuditError(f"Spark did not start{where}: {_reason(error, log)}") from error
    context.setLogLevel("ERROR")
    return context


def _with_attempts(master: str) -> str:
    """Return the URL of a master on this machine with the number of attempts at a task."""
    return re.sub(r"^local(?:\[([^,\]]+)\])?$", rf"local[\g<1>,{MAX_FAILURES}]", master)


def check_master(url: str) -> None:
    """Return once a stand-alone master in `url` accepts a connection, or if `url` names none.

    Spark itself retries for a minute and then reports little. YARN and Kubernetes are not checked.

    Raises:
        AuditError: no master accepts a connection; the message gives the reasons.
    """
    if not url.startswith(_STANDALONE):
        return
    places = url.removeprefix(_STANDALONE).split(",")
    reasons = [reason for place in places if (reason := _refusal(place)) is not None]
    if len(reasons) == len(places):
        raise AuditError(
            f"no Spark master answers at {url}: {'; '.join(reasons)}; "
            "start one, or leave --master out to run here"
        )


def _refusal(place: str) -> str | None:
    """Return the reason why `place` (host:port) is unreachable; None if it is reachable."""
    host, mark, port = place.rpartition(":")
    try:
        address = (host, int(port)) if mark else (place, DEFAULT_PORT)
        with socket.create_connection(address, CONNECT_TIMEOUT_S):
            return None
    except (OSError, ValueError, OverflowError) as error:
        return f"{place}: {getattr(error, 'strerror', None) or error}"


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the error types of Spark itself; other errors are bugs of our code on the driver."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, RuntimeError


@contextmanager
def spark_errors_translated() -> Iterator[None]:
    """Translate a failure of a Spark job in the block to an AuditError of one sentence."""
    try:
        yield
    except spark_errors() as error:
        if any(mark in str(error) for mark in _DEAD_WORKER):
            raise AuditError(
                f"Spark gave up: a worker died {MAX_FAILURES} times (out of memory?); "
                "a lower --rule key.limit needs less memory"
            ) from error
        # The first line is Spark's message, the last one that of the worker.
        lines = _messages(str(error))
        raise AuditError(f"Spark gave up: {lines[0][:200]} ... {lines[-1][:200]}") from error


@contextmanager
def shown_progress(context: Any) -> Iterator[None]:
    """Show a progress bar on standard error while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    done = threading.Event()
    tracker = context.statusTracker()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("partitions", total=None)

        def watch() -> None:
            while not done.wait(_PROGRESS_INTERVAL_S):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                for stage in stages[-1:]:
                    if stage is not None:
                        progress.update(
                            bar, total=stage.numTasks, completed=stage.numCompletedTasks
                        )

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _settings(java: str, is_local: bool, uses_sql: bool) -> dict[str, str]:
    log4j = _log_settings()
    compilers = _ALL_COMPILERS if uses_sql else _QUICK
    archive = _archive(java, uses_sql)
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()} {_QUIET} {compilers} {archive}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": options,
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
        # The default is a quarter of an hour.
        "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": str(YARN_MAX_WAIT_MS),
    }
    if uses_sql:
        # The small map before the large one helps only with few keys. Without it the independent
        # audit in SQL reads 0.83 M records/s instead of 0.65.
        settings["spark.sql.codegen.aggregate.map.twolevel.enabled"] = "false"
    if is_local:
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.python.daemon.module"] = "analytics.worker_daemon"
    return settings


def _log_settings() -> Path:
    """Return the file with the settings of Java's log, which lies beside the archives.

    Raises:
        AuditError: it cannot be written.
    """
    path = _cache() / "log4j2.properties"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(LOG4J, encoding="utf-8")
    except OSError as error:
        place = error.filename or path
        raise AuditError(f"{place}: {error.strerror}; {CACHE_REMEDY}") from error
    return path


def _cache() -> Path:
    """Return the directory that keeps files for later sessions.

    Raises:
        AuditError: the user has none.
    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise AuditError(f"this user has no home directory; {CACHE_REMEDY}") from None
    return base.absolute() / "ottla" / "spark"


def _archive(java: str, uses_sql: bool) -> str:
    """Return the option to use the class archive, or to write it when this session ends."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    if not jars.is_dir():
        # Under spark-submit, pyspark comes in a zip and the JVM already runs.
        return ""
    # Java ignores an archive whose jars have moved or were reinstalled.
    stamp = f"{pyspark.__version__} {jars} {jars.stat().st_mtime_ns} {java} {Path(java).resolve()}"
    # SQL loads twice as many classes.
    kind = "sql" if uses_sql else "classes"
    archive = _cache() / f"{kind}-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"
    # Spark splits the options at blanks, except in quotes.
    path = shlex.quote(str(archive))
    if _is_whole(archive):
        return f"-XX:SharedArchiveFile={path}"
    return f"-XX:ArchiveClassesAtExit={path}"


def _is_whole(archive: Path) -> bool:
    """Whether Java has finished the archive: it writes the header, which is not zero, last."""
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
    """Redirect the output of child processes to a file: the JVM is verbose and outlives us."""
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
    """Return Java's root cause, or else the last messages."""
    text = log.read_text(errors="replace")
    lines = [line.strip() for line in f"{text}\n{error}".splitlines() if line.strip()]
    if causes := [line for line in lines if line.startswith(_CAUSE)]:
        return causes[-1].removeprefix(_CAUSE)[:500]
    return " ".join(_messages(text)[-_LOG_TAIL_LINES:] or lines)[:500]


def _messages(text: str) -> list[str]:
    """Return the lines of `text` without stack traces and Spark's usual output."""
    lines = [line.strip(" \t:") for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith((*_FRAMES, *_LOG_NOISE))]
