"""Each command of the table in `docs/client-table.md` is run."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import READY_EVENT, BrokerProcess
from tests.interop.cli.command_table import BEGIN, END, ROWS, Row, render

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client-table.md"
TIMEOUT_S = 120
SETTINGS = {
    "broker.id": "1",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
# These read files, or have no connection.
OFFLINE = ("logs",)


def test_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0].strip() == render().strip()


def test_every_command_of_ours_does_its_work(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, SETTINGS)
    try:
        broker.wait_for_event(READY_EVENT)
        faults = [fault for row in ROWS if row.ours and (fault := fault_of(row, broker, tmp_path))]
    finally:
        broker.kill()
    assert faults == []


def fault_of(row: Row, broker: BrokerProcess, log_dir: Path) -> str | None:
    """Run the command of a row; return its output if it failed, or lacks the word."""
    assert row.ours is not None
    words = row.ours.replace("LOG/", f"{log_dir}/").split()
    if words[0] not in OFFLINE:
        words += ["--bootstrap", broker.bootstrap]
    ended = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *words],
        input=row.stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "OTTLA_USER_PASSWORD": "s3cret-of-alice"},
    )
    if ended.returncode == 0 and row.word in ended.stdout:
        return None
    return f"{row.ours}: exit code {ended.returncode}: {ended.stdout}{ended.stderr}"
