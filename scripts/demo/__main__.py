"""`python -m scripts.demo [FILE]`: the main job end to end, nothing hidden. Composition.

Each step prints the command that it runs; they are the ones that a user would type. The exit code
is 1 when anything that came back differs from what was sent, or the log is found inconsistent.
"""

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from scripts.demo.daemon import BrokerFailedError, Daemon
from scripts.demo.material import ROOT, write_material

TOPIC: Final = "demo"
CODEC: Final = "zstd"
console = Console(highlight=False, markup=False, soft_wrap=True)


class DemoError(Exception):
    """A step did not do what it should; the message says which."""


class Commands:
    """Runs commands in the demo's directory, and shows them with what they write."""

    def __init__(self, directory: Path, address: str) -> None:
        self._directory = directory
        self._at = ("--bootstrap", address)

    def ask_broker(self, *arguments: str, output: Path | None = None) -> None:
        """Run an `ottla` command that talks to the broker."""
        self.ottla(*arguments, *self._at, output=output)

    def ottla(self, *arguments: str, output: Path | None = None) -> None:
        """Run an `ottla` command."""
        self.run([sys.executable, "-m", "ottla.cli", *arguments], ["ottla", *arguments], output)

    def run(self, command: Sequence[str], shown: Sequence[str], output: Path | None = None) -> None:
        """Run any command; what it writes to standard output may go to a file instead.

        Raises:
            DemoError: it did not end with exit code 0.
        """
        target = f" > {output.name}" if output else ""
        console.print(f"  $ {shlex.join(shown)}{target}", style="bold")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            command, capture_output=True, check=False, cwd=self._directory, env=environment
        )
        if output is None:
            _indent(ended.stdout)
        else:
            output.write_bytes(ended.stdout)
        _indent(ended.stderr)
        if ended.returncode != 0:
            raise DemoError(f"`{shlex.join(shown)}` ended with exit code {ended.returncode}")


def main(arguments: Sequence[str]) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="lines to send")
    chosen = parser.parse_args(arguments).file
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as temporary:
        try:
            _run(Path(temporary), chosen)
        except (DemoError, BrokerFailedError) as error:
            console.print(f"\nFAILED: {error}", style="bold red")
            return 1
    console.print("\nEverything that was sent came back, byte for byte.", style="bold green")
    return 0


def _run(directory: Path, chosen: Path | None) -> None:
    material = _material(directory, chosen)
    daemon = Daemon(directory)
    _title("A broker, as a daemon")
    address, ready_s = daemon.start()
    _note(f"ready at {address} after {ready_s:.2f} s (process {daemon.pid})")
    commands = Commands(directory, address)
    try:
        _transfer(directory, material, address, commands)
    finally:
        exit_code = daemon.stop()
    _title("What is on the disk, now that the broker has stopped")
    if exit_code != 0:
        raise DemoError(f"the broker ended with exit code {exit_code}")
    files = [path.relative_to(directory) for path in sorted(daemon.data.glob(f"{TOPIC}-0/0*"))]
    commands.ottla("logs", "dump", "--deep", "--summary", *map(str, files))
    commands.ottla("logs", "verify", daemon.data.name)


def _transfer(directory: Path, material: Path, address: str, commands: Commands) -> None:
    sent = _checksum(material)
    _title("Our producer writes it, compressed")
    commands.ask_broker("topics", "create", TOPIC, "--partitions", "1")
    commands.ask_broker("produce", TOPIC, _shown(material, directory), "--compression", CODEC)
    commands.ask_broker("topics", "describe", TOPIC)
    _title("Our consumer reads it back")
    received = directory / "ottla.out"
    commands.ask_broker("consume", TOPIC, "--no-follow", output=received)
    _compare("our consumer", sent, _checksum(received))
    _title("A client that we did not write reads it back")
    if shutil.which("kcat") is None:
        _note("kcat is not installed here, so this step is left out (apt install kcat)")
        return
    received = directory / "kcat.out"
    command = ["kcat", "-C", "-q", "-e", "-o", "beginning", "-t", TOPIC, "-b", address]
    commands.run(command, command, received)
    _compare("kcat", sent, _checksum(received))


def _material(directory: Path, chosen: Path | None) -> Path:
    _title("What we send")
    if chosen is None:
        path = directory / "material.jsonl"
        what = write_material(path)
    elif chosen.is_file():
        path, what = chosen.resolve(), str(chosen)
    else:
        raise DemoError(f"{chosen} is no file; name one with FILE=...")
    data = path.read_bytes()
    if not data.strip():
        raise DemoError(f"{what} has no lines to send")
    _note(f"{what}: {len(data.splitlines()):,} lines, {len(data):,} bytes")
    return path


def _checksum(path: Path) -> str:
    """Return the SHA-256 of the lines; a line feed at the very end makes no difference."""
    return hashlib.sha256(path.read_bytes().removesuffix(b"\n")).hexdigest()


def _compare(who: str, sent: str, received: str) -> None:
    if sent != received:
        raise DemoError(f"{who} received {received[:16]}..., sent was {sent[:16]}...")
    _note(f"sha256 {received[:16]}... as sent", style="green")


def _shown(path: Path, directory: Path) -> str:
    """Return the shortest name of `path` for a command that runs in `directory`."""
    return path.name if path.parent == directory else str(path)


def _indent(written: bytes) -> None:
    for line in written.decode("utf-8", errors="replace").splitlines():
        console.print(f"    {line}")


def _title(text: str) -> None:
    console.print(f"\n{text}", style="bold cyan")


def _note(text: str, style: str = "") -> None:
    console.print(f"  {text}", style=style)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
