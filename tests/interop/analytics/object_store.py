"""A local object store with S3's protocol: moto's server in a virtual environment of its own.

It needs 140 MB of libraries that nothing else here uses, so it is not a dependency of the project.
`make interop` installs it once into the cache, with the versions in `object_store.txt`. Tests that
need it are skipped without it.
"""

import os
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import wait_until_listening

VERSIONS = Path(__file__).with_suffix(".txt")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla" / "object-store"
PYTHON = CACHE / "bin" / "python"
READY = CACHE / ".ready"
TIMEOUT_S = 60
BUCKET = "logs"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret"}

needs_object_store = pytest.mark.skipif(
    not READY.exists(), reason="the local object store is missing: `make interop` installs it"
)


def install() -> None:
    """Create the environment, unless it exists with these versions."""
    if READY.exists() and READY.read_text() == VERSIONS.read_text():
        return
    venv.create(CACHE, with_pip=True, clear=True)
    command = [str(PYTHON), "-m", "pip", "install", "-q", "-r", str(VERSIONS)]
    if subprocess.run(command, check=False).returncode == 0:
        READY.write_text(VERSIONS.read_text())


@contextmanager
def object_store() -> Iterator[str]:
    """Run a store with an empty bucket; yield the options of its URIs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    process = subprocess.Popen(
        [str(PYTHON), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_listening(port, TIMEOUT_S)
        yield f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    finally:
        process.terminate()
        process.wait(timeout=TIMEOUT_S)


def upload(directory: Path, options: str) -> str:
    """Copy a log directory into the bucket; return its URI."""
    from pyarrow import fs

    store, _ = fs.FileSystem.from_uri(f"s3://{BUCKET}/{options}&allow_bucket_creation=true")
    store.create_dir(BUCKET)
    fs.copy_files(
        str(directory),
        f"{BUCKET}/{directory.name}",
        source_filesystem=fs.LocalFileSystem(),
        destination_filesystem=store,
    )
    return f"s3://{BUCKET}/{directory.name}{options}"


if __name__ == "__main__":
    install()
    sys.exit(0)
