"""Addresses on which a coordinator cannot listen."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("option", ["--listen", "--metrics-listen"])
def test_a_name_that_no_resolver_knows_is_one_sentence(tmp_path: Path, option: str) -> None:
    options = {"--listen": "127.0.0.1:0", option: "\u202ehost:0"}
    words = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "coordination", f"--data-dir={tmp_path}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ottla coordinator: cannot listen on \u202ehost")
