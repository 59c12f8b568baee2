"""`meta.properties`: the broker and cluster that a log dir belongs to (edge).

Bytes on disk: Java properties `version`, `broker.id`, `cluster.id` and optionally `directory.id`.
Version 1, which Kafka writes in KRaft mode, has `node.id` instead; it is read but never written.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage.config.config_key import INT_MAX
from storage.disk.checkpoint import write_atomically
from storage.errors import InconsistentMetadataError

VERSION: Final = "0"
VERSION_WITHOUT_ZOOKEEPER: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of the file; None for a missing property."""

    broker_id: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None

    def check(self, path: Path, broker_id: int, cluster_id: str) -> None:
        """Check that the log dir at `path` belongs to this broker.

        Raises:
            InconsistentMetadataError: it belongs to another broker or cluster.
        """
        if self.broker_id not in (None, broker_id):
            raise InconsistentMetadataError(
                f"log dir {path} belongs to broker {self.broker_id}, this is broker {broker_id}"
            )
        if self.cluster_id not in (None, cluster_id):
            raise InconsistentMetadataError(
                f"log dir {path} belongs to cluster {self.cluster_id}, this is {cluster_id}"
            )


def read_meta_properties(path: Path) -> MetaProperties:
    """Return the content of the file at `path`; a missing file has no properties.

    Raises:
        InconsistentMetadataError: the version is unknown, or a value is malformed.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return MetaProperties()
    properties = dict(map(_split, filter(_is_entry, map(str.strip, text.splitlines()))))
    version = properties.get("version", VERSION)
    if version not in (VERSION, VERSION_WITHOUT_ZOOKEEPER):
        raise InconsistentMetadataError(f"{path}: unknown version {version}")
    broker_id = properties.get("broker.id" if version == VERSION else "node.id")
    if broker_id is not None and not (broker_id.isdecimal() and int(broker_id) <= INT_MAX):
        raise InconsistentMetadataError(f"{path}: broker id {broker_id!r}")
    return MetaProperties(
        broker_id=None if broker_id is None else int(broker_id),
        cluster_id=properties.get("cluster.id"),
        directory_id=properties.get("directory.id"),
    )


def write_meta_properties(path: Path, meta: MetaProperties) -> None:
    """Replace the file; it is durable on return."""
    entries = {
        "broker.id": meta.broker_id,
        "cluster.id": meta.cluster_id,
        "directory.id": meta.directory_id,
        "version": VERSION,
    }
    lines = [f"{name}={value}\n" for name, value in entries.items() if value is not None]
    write_atomically(path, "".join(["#\n", *lines]))


def _is_entry(line: str) -> bool:
    return bool(line) and line[0] not in "#!"


def _split(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    # Java escapes separators in values; our values need no other unescaping.
    return name.strip(), value.strip().replace("\\", "")
