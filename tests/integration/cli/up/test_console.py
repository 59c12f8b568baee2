"""The console that `ottla up` starts beside its cluster."""

import signal
import urllib.request
from pathlib import Path

from tests.integration.cli.up.conftest import TIMEOUT_S, Up, is_running


def test_console_of_a_cluster_starts_after_it_and_ends_with_it(
    started: list[Up], tmp_path: Path
) -> None:
    up = Up(tmp_path, console="--console")
    started.append(up)
    url = up.wait_for("consolestarted")["url"]
    assert [each["event"] for each in up.events][:1] == ["ready"]
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as page:
        assert "Ottla" in page.read().decode()
    [console] = consoles_of(up.process.pid)
    assert up.end(signal.SIGINT) == 0
    assert not is_running(console)


def consoles_of(parent: int) -> list[int]:
    """Return the process ids of the consoles that `parent` has started."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"\0console\0" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
