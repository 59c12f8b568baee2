"""A schema registry, Apicurio's, and Confluent's Avro serializers, for the tests of this folder.

`make interop` installs both once into the cache: the registry with Maven, the serializers with the
versions in `confluent.txt` into a virtual environment of their own. Tests are skipped without them.
"""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.certificates import Authority
from tests.interop.own_environment import CACHE, OwnEnvironment
from tests.ports import free_port

VERSION: Final = "2.6.13.Final"
"""The newest one for Java 17."""
ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
REGISTRY: Final = CACHE / f"apicurio-{VERSION}"
RUNNER: Final = REGISTRY / f"apicurio-registry-app-{VERSION}-runner.jar"
CONFLUENT: Final = OwnEnvironment("confluent-avro", Path(__file__).with_name("confluent.txt"))
PROGRAM: Final = Path(__file__).with_name("confluent.py")
START_TIMEOUT_S: Final = 180
TIMEOUT_S: Final = 120
# With the protocol of Confluent's registry.
PATH: Final = "/apis/ccompat/v7"

needs_strangers = [
    pytest.mark.skipif(
        not RUNNER.exists() or not CONFLUENT.is_ready(),
        reason="Apicurio's registry or Confluent's serializers are missing: `make interop`",
    ),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no java"),
]


@dataclass(frozen=True)
class Registry:
    """A running registry, in memory."""

    url: str
    tls_url: str

    def subjects(self) -> list[str]:
        """Return all subjects, read without our client."""
        found: list[str] = _get(f"{self.url}/subjects")
        return sorted(found)

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject, read without our client."""
        found: list[int] = _get(f"{self.url}/subjects/{subject}/versions")
        return found


@contextmanager
def registry(authority: Authority) -> Iterator[Registry]:
    """Run a registry, with a certificate of `authority` on its second port."""
    port, tls_port = free_port(), free_port()
    made = authority.issue("registry")
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.http.ssl-port": tls_port,
        "quarkus.http.ssl.certificate.files": made.certificate,
        "quarkus.http.ssl.certificate.key-files": made.key,
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    log = made.key.parent / "registry.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["java", "-Xmx384m", *options, "-jar", str(RUNNER)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        found = Registry(f"http://127.0.0.1:{port}{PATH}", f"https://127.0.0.1:{tls_port}{PATH}")
        _wait_until_ready(process, found, log)
        yield found
    finally:
        process.terminate()
        process.wait(timeout=TIMEOUT_S)


def run_confluent(command: str, *arguments: str, records: Sequence[Any] = ()) -> list[Any]:
    """Run `confluent.py`: it takes and returns records as lines of JSON."""
    done = subprocess.run(
        [str(CONFLUENT.python), str(PROGRAM), command, *arguments],
        input="".join(json.dumps(each) + "\n" for each in records),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def install() -> None:
    """Fetch both, unless they are there."""
    if shutil.which("mvn") and not RUNNER.exists():
        REGISTRY.mkdir(parents=True, exist_ok=True)
        copy = ["mvn", "-q", "-B", COPY, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={REGISTRY}"]
        subprocess.run(copy, check=False)
        for archive in REGISTRY.glob("*.tar.gz"):
            unpack = ["tar", "-xzf", str(archive), "-C", str(REGISTRY)]
            if subprocess.run(unpack, check=False).returncode == 0:
                archive.unlink()
    CONFLUENT.install()


def _wait_until_ready(process: subprocess.Popen[bytes], found: Registry, log: Path) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            found.subjects()
        except OSError:
            assert process.poll() is None, log.read_text()[-2_000:]
            assert time.monotonic() < deadline_s, log.read_text()[-2_000:]
            time.sleep(0.1)
        else:
            return


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


if __name__ == "__main__":
    install()
