"""Finds and runs the jars of Kafka 1.1.1, the last release but one with consumers on znodes. Edge.

`OTTLA_KAFKA_OLD_JARS` names a folder of its own with kafka_2.11 1.1.1 and its dependencies. Without
it, Maven copies them once into a cache, from `kafka_old_jars.xml` beside this file. In the same way
`OTTLA_KAFKA_CHECKER_JARS` and `kafka_offset_checker.xml` give Kafka 0.11.0.3, the last release with
ConsumerOffsetChecker.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import IO

import pytest

CACHE = Path.home() / ".cache" / "ottla"
JARS = Path(os.environ.get("OTTLA_KAFKA_OLD_JARS") or CACHE / "kafka-old-jars")
CHECKER_JARS = Path(os.environ.get("OTTLA_KAFKA_CHECKER_JARS") or CACHE / "kafka-checker-jars")
TIMEOUT_S = 120.0
MEMBER = Path(__file__).parent / "zookeeper" / "OldMember.java"
HEAP = "-Xmx128m"


def old_jars_or_skip() -> Path:
    """Return the folder of the jars; skip the test if they or java are missing."""
    return _jars_or_skip(JARS, "kafka_old_jars.xml", "1.1.1 (OTTLA_KAFKA_OLD_JARS or mvn)")


def checker_jars_or_skip() -> Path:
    """Return the folder of the jars with the checker; skip the test if they are missing."""
    text = "0.11.0.3 (OTTLA_KAFKA_CHECKER_JARS or mvn)"
    return _jars_or_skip(CHECKER_JARS, "kafka_offset_checker.xml", text)


def _jars_or_skip(jars: Path, pom: str, text: str) -> Path:
    if not any(jars.glob("kafka_2.11-*.jar")) and shutil.which("mvn"):
        copy = [
            "mvn",
            "-q",
            "-f",
            str(Path(__file__).with_name(pom)),
            "dependency:copy-dependencies",
        ]
        subprocess.run([*copy, f"-DoutputDirectory={jars}"], check=False)
    if not any(jars.glob("kafka_2.11-*.jar")) or shutil.which("java") is None:
        pytest.skip(f"needs java, and the jars of Kafka {text}")
    return jars


def run_old_tool(program: str, *arguments: str, may_fail: bool = False, jars: Path = JARS) -> str:
    """Run a class of the jars; return its output, stderr included."""
    result = subprocess.run(
        ["java", HEAP, "-cp", f"{jars}/*", program, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert may_fail or result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def compile_java(source: Path, directory: Path) -> Path:
    """Compile a source file against the jars; return the folder with the class."""
    subprocess.run(
        ["javac", "-cp", f"{JARS}/*", "-d", str(directory), str(source)],
        check=True,
        timeout=TIMEOUT_S,
    )
    return directory


def start_java(
    classes: Path, name: str, *arguments: str, stdout: IO[str], stderr: IO[str]
) -> "subprocess.Popen[str]":
    """Start a compiled class; its input stays open until the caller closes it."""
    return subprocess.Popen(
        ["java", HEAP, "-cp", f"{classes}:{JARS}/*", name, *arguments],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        text=True,
    )
