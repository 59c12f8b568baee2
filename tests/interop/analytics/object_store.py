"""A local object store with S3's protocol: moto's server in a virtual environment of its own.

It needs 140 MB of libraries that nothing else here uses, so it is not a dependency of the project.
`make interop` installs it once into the cache, with the versions in `object_store.txt`. Tests that
need it are skipped without it.
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.own_environment import OwnEnvironment
from tests.ports import wait_until_listening

MOTO = OwnEnvironment("object-store", Path(__file__).with_suffix(".txt"))
TIMEOUT_S = 60
BUCKET = "logs"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret"}

needs_object_store = pytest.mark.skipif(
    not MOTO.is_ready(), reason="the local object store is missing: `make interop` installs it"
)


@contextmanager
def object_store() -> Iterator[str]:
    """Run a store with an empty bucket; yield the options of its URIs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    process = subprocess.Popen(
        [str(MOTO.python), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
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
    MOTO.install()
