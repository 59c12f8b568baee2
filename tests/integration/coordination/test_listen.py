"""Addresses on which a coordinator cannot listen."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("host", ["\u202ehost", "unknown.invalid"])
@pytest.mark.parametrize("option", ["--listen", "--metrics-listen"])
def test_a_name_that_no_resolver_knows_is_one_sentence(
    tmp_path: Path, option: str, host: str
) -> None:
    options = {"--listen": "127.0.0.1:0", option: f"{host}:0"}
    words = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "coordination", f"--data-dir={tmp_path}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ottla coordinator: cannot listen on {host}")
    assert "unknown error" not in last
