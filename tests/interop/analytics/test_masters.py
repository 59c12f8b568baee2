"""Equal verdicts on every kind of Spark master, with our modules shipped to the workers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analytics.shipping import ROOT, write_zip
from tests.analytics.audited import NOW_MS, RULES
from tests.analytics.compaction_violations import COMPACTION
from tests.analytics.conftest import needs_java
from tests.analytics.log_model import compact, make_log
from tests.ports import free_port, wait_until_listening

pytestmark = needs_java
HORIZON_MS = NOW_MS + RULES.delete_retention_ms
TIMEOUT_S = 600
EXIT_FOUND = 3


@contextmanager
def daemon(kind: str, *arguments: str) -> Iterator[None]:
    """A stand-alone Spark daemon."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        [str(program), f"org.apache.spark.deploy.{kind}", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers on loopback."""
    work, port = str(tmp_path_factory.mktemp("work")), free_port()
    url = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    worker = (*here, "-c", "1", "-m", "1g", "-d", work, url)
    with daemon("master.Master", *here, "--port", str(port)):
        wait_until_listening(port, TIMEOUT_S)
        with daemon("worker.Worker", *worker), daemon("worker.Worker", *worker):
            yield url


def audit(master: str, tmp_path: Path, name: str | None, *rules: str) -> tuple[int, str]:
    """Return exit code and output of the command, started outside of our source tree."""
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
    # A key limit far below the number of keys, so that the work is split into shards.
    code, text = audit(master, tmp_path / "lost", "a batch of lost keys", "key.limit=15")
    assert (code, "lost_key" in text) == (EXIT_FOUND, True)


def test_a_local_master(tmp_path: Path) -> None:
    check_verdicts("local[2]", tmp_path)


def test_a_standalone_master_with_two_workers(standalone: str, tmp_path: Path) -> None:
    check_verdicts(standalone, tmp_path)


def test_a_local_cluster(tmp_path: Path) -> None:
    check_verdicts("local-cluster[2,1,1024]", tmp_path)


def test_spark_submit_with_a_zip_of_our_modules(tmp_path: Path) -> None:
    """Outside of our source tree, Python finds our modules only in the zip."""
    import pyspark

    raw = make_log()
    raw.write(tmp_path / "raw")
    COMPACTION["a lost key"](raw, compact(raw, horizon_ms=HORIZON_MS))[0].write(tmp_path / "clean")
    modules = write_zip(tmp_path / "modules.zip")
    (tmp_path / "submit.py").write_text((ROOT / "analytics" / "submit.py").read_text())
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[2]", "--py-files", str(modules)]
    places = ["submit.py", "compaction", "clean", "--against", "raw", f"--rule=now.ms={NOW_MS}"]
    done = subprocess.run(
        [*command, *places],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == EXIT_FOUND, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["by_kind"] == {"lost_key": 1}
