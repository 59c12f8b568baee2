"""Where Kafka's jars are, and how to run them; tests without them are skipped.

`OTTLA_KAFKA_JARS` names a folder with the jars of kafka_2.13 3.9 and what it depends on, as
`mvn -f tests/interop/storage/kafka_jars.xml dependency:copy-dependencies -DoutputDirectory=FOLDER`
puts them there. Java 17 or newer is needed, with its compiler for programs from source.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

JARS = Path(os.environ.get("OTTLA_KAFKA_JARS") or "/nowhere")
TIMEOUT_S = 120

needs_jars = [
    pytest.mark.skipif(
        not list(JARS.glob("kafka_2.13-*.jar")),
        reason="OTTLA_KAFKA_JARS names no folder with Kafka's jars",
    ),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no java"),
]


def run_java(program: str, *arguments: str) -> str:
    """Run a class of the jars, or a source file; return what it prints, errors included."""
    result = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{JARS}/*", program, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr
