"""Finds and runs Kafka's jars; tests that need them are skipped without them.

`OTTLA_KAFKA_JARS` names a folder with the jars of kafka_2.13 3.9, Kafka Streams, the file
connectors and their dependencies, `OTTLA_KAFKA_STREAMS_TESTS` one with the tests of Kafka Streams,
`OTTLA_KAFKA_4_CLIENTS` one with Kafka's clients 4, and `OTTLA_SPARK_KAFKA_JARS` one with Spark's
Kafka source. Without them, `make interop` downloads them once into a cache with Maven, from the
lists beside this file. Java 17 or newer is needed, with its compiler for programs from source.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

CACHE = Path.home() / ".cache" / "ottla"
JARS = Path(os.environ.get("OTTLA_KAFKA_JARS") or CACHE / "kafka-jars")
CLIENTS_4 = Path(os.environ.get("OTTLA_KAFKA_4_CLIENTS") or CACHE / "kafka-4-clients")
STREAMS_TESTS = Path(os.environ.get("OTTLA_KAFKA_STREAMS_TESTS") or CACHE / "kafka-streams-tests")
SPARK_KAFKA = Path(os.environ.get("OTTLA_SPARK_KAFKA_JARS") or CACHE / "spark-kafka-jars")
FOLDERS = {
    "kafka_jars.xml": (JARS, ("kafka_2.13-*.jar", "kafka-streams-*.jar", "connect-file-*.jar")),
    "kafka_streams_tests.xml": (STREAMS_TESTS, ("kafka-streams-*-test.jar",)),
    "kafka_4_clients.xml": (CLIENTS_4, ("kafka-clients-4.*.jar",)),
    "spark_kafka_jars.xml": (SPARK_KAFKA, ("spark-sql-kafka-*.jar", "commons-pool2-*.jar")),
}
"""Where the jars of each list are, and the jars by which a complete folder is known."""
TIMEOUT_S = 120

needs_jars = [
    pytest.mark.skipif(
        not list(JARS.glob("kafka_2.13-*.jar")),
        reason="Kafka's jars are missing: `make interop` fetches them where there is Maven",
    ),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no java"),
]


def kafka_jars() -> Path | None:
    """Return the folder with Kafka's jars, None if there is none."""
    return JARS if any(JARS.glob("kafka_2.13-*.jar")) else None


def spark_kafka_or_skip() -> list[Path]:
    """Return the jars of Spark's Kafka source; skip the test if they or java are missing."""
    jars = sorted(SPARK_KAFKA.glob("*.jar"))
    if not any(SPARK_KAFKA.glob("spark-sql-kafka-*.jar")) or shutil.which("java") is None:
        pytest.skip("needs java, and Spark's Kafka source (OTTLA_SPARK_KAFKA_JARS or mvn)")
    return jars


def streams_or_skip() -> None:
    """Skip the test if Kafka Streams or java is missing."""
    if not any(JARS.glob("kafka-streams-*.jar")) or shutil.which("java") is None:
        pytest.skip("needs java, and the jars of Kafka Streams (OTTLA_KAFKA_JARS or mvn)")


def streams_tests_or_skip() -> None:
    """Skip the test if Kafka Streams, its tests or java are missing."""
    streams_or_skip()
    if not any(STREAMS_TESTS.glob("kafka-streams-*-test.jar")):
        pytest.skip("needs the tests of Kafka Streams (OTTLA_KAFKA_STREAMS_TESTS or mvn)")


def connect_or_skip() -> None:
    """Skip the test if Kafka Connect's file connectors or java are missing."""
    if not any(JARS.glob("connect-file-*.jar")) or shutil.which("java") is None:
        pytest.skip("needs java, and the jar connect-file (OTTLA_KAFKA_JARS or mvn)")


def clients_4_or_skip() -> Path:
    """Return the folder of Kafka's clients 4; skip the test if they or java are missing."""
    if not any(CLIENTS_4.glob("kafka-clients-4.*.jar")) or shutil.which("java") is None:
        pytest.skip("needs java, and Kafka's clients 4 (OTTLA_KAFKA_4_CLIENTS or mvn)")
    return CLIENTS_4


def fetch() -> None:
    """Copy the jars with Maven, unless they are there."""
    for pom, (folder, patterns) in FOLDERS.items():
        if shutil.which("mvn") and not all(any(folder.glob(each)) for each in patterns):
            copy = ["mvn", "-q", "-f", str(Path(__file__).with_name(pom))]
            copy += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
            subprocess.run(copy, check=False)


def java_command(
    program: str, *arguments: str, jars: Path = JARS, more: Sequence[Path] = ()
) -> list[str]:
    """Return the command for a class of the jars, or a source file; `more` are further folders."""
    places = ":".join(f"{folder}/*" for folder in (jars, *more))
    return ["java", "-Xmx256m", "-cp", places, program, *arguments]


def run_java(
    program: str,
    *arguments: str,
    jars: Path = JARS,
    more: Sequence[Path] = (),
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Run a class of the jars, or a source file; return its output, stderr included."""
    result = subprocess.run(
        java_command(program, *arguments, jars=jars, more=more),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


if __name__ == "__main__":
    fetch()
