"""The same verdicts on every kind of master, with our modules shipped to workers that lack them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.analytics.audited import NOW_MS, RULES
from tests.analytics.compaction_violations import COMPACTION
from tests.analytics.conftest import needs_java
from tests.analytics.log_model import compact, make_log

pytestmark = needs_java
HORIZON_MS = NOW_MS + RULES.delete_retention_ms
TIMEOUT_S = 300
EXIT_FOUND = 3


@contextmanager
def daemon(kind: str, *arguments: str) -> Iterator[str]:
    """A stand-alone Spark daemon; gives the URL that it says."""
    import pyspark

    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            said = re.search(r"(spark://\S+)|Successfully registered with master", line)
            if said is not None and (said[1] is None or kind.endswith("Master")):
                yield (said[1] or "").rstrip(".")
                break
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers on loopback."""
    work = str(tmp_path_factory.mktemp("work"))
    ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    worker = ("--host", "127.0.0.1", "-c", "1", "-m", "1g", "-d", work, "--webui-port", "0")
    with (
        daemon("master.Master", *ports) as master,
        daemon("worker.Worker", *worker, master),
        daemon("worker.Worker", *worker, master),
    ):
        yield master


def audit(master: str, tmp_path: Path, name: str | None, *rules: str) -> tuple[int, str]:
    """The exit code and the output of the command, started where our sources are not."""
    raw = make_log()
    raw.write(tmp_path / "raw")
    twin = compact(raw, horizon_ms=HORIZON_MS)
    log = twin if name is None else COMPACTION[name](raw, twin)[0]
    log.write(tmp_path / "clean")
    chosen = [f"--rule=now.ms={NOW_MS}", *(f"--rule={rule}" for rule in rules)]
    command = [sys.executable, "-m", "ottla.cli.__main__", "audit", "compaction"]
    places = [str(tmp_path / "clean"), "--against", str(tmp_path / "raw"), "--master", master]
    done = subprocess.run(
        [*command, *places, *chosen],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def check_verdicts(master: str, tmp_path: Path) -> None:
    assert audit(master, tmp_path / "sound", None)[0] == 0
    code, text = audit(master, tmp_path / "stale", "an older value survives")
    assert (code, "stale_value" in text) == (EXIT_FOUND, True)
    # A limit of keys far below what the partition has: the work is split over shards.
    code, text = audit(master, tmp_path / "lost", "a batch of lost keys", "key.limit=15")
    assert (code, "lost_key" in text) == (EXIT_FOUND, True)


def test_a_local_master(tmp_path: Path) -> None:
    check_verdicts("local[2]", tmp_path)


def test_a_standalone_master_with_two_workers(standalone: str, tmp_path: Path) -> None:
    check_verdicts(standalone, tmp_path)


def test_a_local_cluster(tmp_path: Path) -> None:
    check_verdicts("local-cluster[2,1,1024]", tmp_path)
