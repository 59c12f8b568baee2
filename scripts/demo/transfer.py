"""Transfer of a file through one broker and back (composition).

It combines `ottla` commands.
"""

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
    """Send lines through a broker, read them with our client and kcat, and check the files.

    Raises:
        DemoError: received lines differ from the sent lines, or a command failed.
    """
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
    title("The files on disk after the broker has stopped")
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
    title("Our producer sends it, compressed")
    commands.ask_broker("topics", "create", TOPIC, "--partitions", "1")
    commands.ask_broker("produce", TOPIC, _shown(material, directory), "--compression", CODEC)
    commands.ask_broker("topics", "describe", TOPIC)
    title("Our consumer reads it back")
    received = directory / "ottla.out"
    commands.ask_broker("consume", TOPIC, "--no-follow", output=received)
    _compare("our consumer", sent, _checksum(received))
    title("An independent client, kcat, reads it back")
    if shutil.which("kcat") is None:
        note("kcat is not installed, so this step is skipped (apt install kcat)")
        return
    received = directory / "kcat.out"
    command = ["kcat", "-C", "-q", "-e", "-o", "beginning", "-t", TOPIC, "-b", address]
    commands.run(command, command, received)
    _compare("kcat", sent, _checksum(received))


def _material(directory: Path, chosen: Path | None) -> Path:
    title("The data to send")
    if chosen is None:
        path = directory / "material.jsonl"
        description = write_material(path)
    elif chosen.is_file():
        path, description = chosen.resolve(), str(chosen)
    else:
        raise DemoError(f"{chosen} is not a file; name one with FILE=...")
    data = path.read_bytes()
    if not data.strip():
        raise DemoError(f"{description} has no lines to send")
    note(f"{description}: {len(data.splitlines()):,} lines, {len(data):,} bytes")
    return path


def _checksum(path: Path) -> str:
    """Return the SHA-256 of the lines, without the line feed at the end."""
    return hashlib.sha256(path.read_bytes().removesuffix(b"\n")).hexdigest()


def _compare(client: str, sent: str, received: str) -> None:
    if sent != received:
        raise DemoError(f"{client} received {received[:16]}..., but {sent[:16]}... was sent")
    note(f"sha256 {received[:16]}... equals that of the sent data", style="green")


def _shown(path: Path, directory: Path) -> str:
    """Return the shortest form of `path` for a command that runs in `directory`."""
    return path.name if path.parent == directory else str(path)
