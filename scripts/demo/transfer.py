"""A file goes through one broker and back. Composition of commands that a user would type."""

import hashlib
import shutil
from pathlib import Path
from typing import Final

from scripts.demo.console import Commands, DemoError, note, title
from scripts.demo.daemon import Daemon
from scripts.demo.material import write_material

TOPIC: Final = "demo"
CODEC: Final = "zstd"
SEGMENT_SUFFIXES: Final = (".log", ".index", ".timeindex")


def transfer_a_file(directory: Path, chosen: Path | None) -> None:
    """Send lines through a broker and back, with our clients and kcat, and look at the files."""
    material = _material(directory, chosen)
    daemon = Daemon(directory)
    title("A broker, as a daemon")
    address, ready_s = daemon.start()
    note(f"ready at {address} after {ready_s:.2f} s (process {daemon.pid})")
    commands = Commands(directory, address)
    try:
        _transfer(directory, material, address, commands)
    finally:
        exit_code = daemon.stop()
    title("What is on the disk, now that the broker has stopped")
    if exit_code != 0:
        raise DemoError(f"the broker ended with exit code {exit_code}")
    files = [
        path.relative_to(directory)
        for path in sorted(daemon.data.glob(f"{TOPIC}-0/0*"))
        if path.suffix in SEGMENT_SUFFIXES
    ]
    commands.ottla("logs", "dump", "--deep", "--summary", *map(str, files))
    commands.ottla("logs", "verify", daemon.data.name)


def _transfer(directory: Path, material: Path, address: str, commands: Commands) -> None:
    sent = _checksum(material)
    title("Our producer writes it, compressed")
    commands.ask_broker("topics", "create", TOPIC, "--partitions", "1")
    commands.ask_broker("produce", TOPIC, _shown(material, directory), "--compression", CODEC)
    commands.ask_broker("topics", "describe", TOPIC)
    title("Our consumer reads it back")
    received = directory / "ottla.out"
    commands.ask_broker("consume", TOPIC, "--no-follow", output=received)
    _compare("our consumer", sent, _checksum(received))
    title("A client that we did not write reads it back")
    if shutil.which("kcat") is None:
        note("kcat is not installed here, so this step is left out (apt install kcat)")
        return
    received = directory / "kcat.out"
    command = ["kcat", "-C", "-q", "-e", "-o", "beginning", "-t", TOPIC, "-b", address]
    commands.run(command, command, received)
    _compare("kcat", sent, _checksum(received))


def _material(directory: Path, chosen: Path | None) -> Path:
    title("What we send")
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
    note(f"{what}: {len(data.splitlines()):,} lines, {len(data):,} bytes")
    return path


def _checksum(path: Path) -> str:
    """Return the SHA-256 of the lines; a line feed at the very end makes no difference."""
    return hashlib.sha256(path.read_bytes().removesuffix(b"\n")).hexdigest()


def _compare(who: str, sent: str, received: str) -> None:
    if sent != received:
        raise DemoError(f"{who} received {received[:16]}..., sent was {sent[:16]}...")
    note(f"sha256 {received[:16]}... as sent", style="green")


def _shown(path: Path, directory: Path) -> str:
    """Return the shortest name of `path` for a command that runs in `directory`."""
    return path.name if path.parent == directory else str(path)
