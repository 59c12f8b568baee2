"""Runs the blocks of code in the README (edge).

Left out are the targets of make, which have tests of their own, and the installation, which has
happened before. `ottla up` runs in the background, on any free ports, during the following blocks.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BLOCK: Final = re.compile(r"```(sh|python|python pytest)\n(.*?)```", re.DOTALL)
LEFT_OUT: Final = ("make ", "pip install ")
UP: Final = "ottla up "
DIRECTORY: Final = "/tmp/ottla"
"""The README's directory, replaced by one of the run."""
ADDRESS: Final = "127.0.0.1:9092"
TIMEOUT_S: Final = 300
STOP_TIMEOUT_S: Final = 120


class ReadmeError(Exception):
    """A block of the README failed; the message has its output."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code: its language and its text."""

    kind: str
    text: str

    @property
    def lines(self) -> list[str]:
        """The commands of a block for the shell, except `LEFT_OUT`."""
        commands = [re.sub(r"\s+#.*", "", line) for line in self.text.splitlines()]
        return [line for line in commands if line and not line.startswith(LEFT_OUT)]


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page that can run."""
    return [Block(kind, text) for kind, text in BLOCK.findall(page)]


def run_readme(page: str, programs: Path, workplace: Path) -> int:
    """Run the blocks with the programs of an environment; return how many commands ran.

    `programs` is the environment's directory of `ottla` and `python`, and `workplace` an empty one.

    Raises:
        ReadmeError: a block failed, or the cluster did not start or stop.
    """
    blocks = blocks_of(page)
    [up] = [line for block in blocks for line in block.lines if line.startswith(UP)]
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    count = 1
    with _running(f"{up} --port 0", environment, workplace) as bootstrap:
        environment["OTTLA_BOOTSTRAP"] = bootstrap
        for block in blocks:
            if block.kind == "sh":
                lines = [line for line in block.lines if not line.startswith(UP)]
                count += len(lines)
                script = "\n".join(("set -euo pipefail", *lines))
                _run(["bash", "-c", _placed(script, workplace)], environment, workplace)
            elif block.kind == "python":
                program = block.text.replace(ADDRESS, bootstrap.partition(",")[0])
                _run([str(programs / "python"), "-c", program], environment, workplace)
                count += 1
            else:
                (workplace / "test_readme.py").write_text(block.text, encoding="utf-8")
                pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_readme.py"]
                _run([str(programs / "python"), *pytest], environment, workplace)
                count += 1
    return count


def _run(command: list[str], environment: dict[str, str], workplace: Path) -> None:
    done = subprocess.run(
        command,
        cwd=workplace,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise ReadmeError(
            f"exit code {done.returncode} of:\n{command[-1]}\n{done.stdout}{done.stderr}"
        )


def _placed(text: str, workplace: Path) -> str:
    return text.replace(DIRECTORY, str(workplace / "ottla"))


@contextmanager
def _running(command: str, environment: dict[str, str], workplace: Path) -> Iterator[str]:
    """Run the cluster during the block; yield the addresses of its brokers."""
    words = _placed(command, workplace).split()
    with subprocess.Popen(
        words, cwd=workplace, env=environment, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdout is not None
        try:
            for line in cluster.stdout:
                if line.startswith("ready "):
                    break
            else:
                raise ReadmeError(f"{command}: ended before it was ready")
            yield line.split()[1]
        finally:
            cluster.send_signal(signal.SIGTERM)
            try:
                cluster.wait(STOP_TIMEOUT_S)
            finally:
                cluster.kill()
