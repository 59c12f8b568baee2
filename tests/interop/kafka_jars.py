"""Finds and runs Kafka's jars; tests that need them are skipped without them.

`OTTLA_KAFKA_JARS` names a folder with the jars of kafka_2.13 3.9 and its dependencies. Without it,
`make interop` downloads them once into a cache with Maven, from `kafka_jars.xml` beside this file.
Java 17 or newer is needed, with its compiler for programs from source.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

POM = Path(__file__).with_suffix(".xml")
CACHE = Path.home() / ".cache" / "ottla" / "kafka-jars"
JARS = Path(os.environ.get("OTTLA_KAFKA_JARS") or CACHE)
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


def fetch() -> None:
    """Copy the jars with Maven, unless they are there."""
    if kafka_jars() is None and shutil.which("mvn"):
        copy = ["mvn", "-q", "-f", str(POM), "dependency:copy-dependencies"]
        subprocess.run([*copy, f"-DoutputDirectory={JARS}"], check=False)


def run_java(program: str, *arguments: str) -> str:
    """Run a class of the jars, or a source file; return its output, stderr included."""
    result = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{JARS}/*", program, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


if __name__ == "__main__":
    fetch()
