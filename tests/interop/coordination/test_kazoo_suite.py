"""All of kazoo's own test suite against our coordinator. `kazoo_suite.py --subset` is quicker."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("kazoo_suite.py")


def test_kazoos_own_suite_passes() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " failed" not in done.stdout.splitlines()[-1]
