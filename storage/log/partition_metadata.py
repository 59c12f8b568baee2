"""`partition.metadata`: the id of the topic that a partition's directory belongs to (edge).

Bytes on disk: `version: 0`, newline, `topic_id: <22 characters>`. The file is written before the
first batch, so that data of a deleted topic is never mistaken for data of a new topic of that name.
Source: KIP-516.
"""

from pathlib import Path
from typing import Final

import structlog

from kafkawire.ids import ZERO_TOPIC_ID, TopicId, topic_id_from_text, topic_id_to_text
from storage.disk.checkpoint import write_atomically
from storage.errors import CorruptCheckpointError

log = structlog.get_logger(__name__)

VERSION: Final = "0"


def write_topic_id(path: Path, topic_id: TopicId) -> None:
    """Write the file; it is durable on return."""
    write_atomically(path, f"version: {VERSION}\ntopic_id: {topic_id_to_text(topic_id)}")


def read_topic_id(path: Path) -> TopicId | None:
    """Return the topic id, or None if there is no file.

    Raises:
        CorruptCheckpointError: the file is malformed. It must not be treated as absent, because the
            data beside it might then be assigned to another topic.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        topic_id = topic_id_from_text(fields["topic_id"].strip())
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"{path}: no topic id: {error}") from error
    if fields.get("version", "").strip() != VERSION or topic_id == ZERO_TOPIC_ID:
        raise CorruptCheckpointError(f"{path}: not version {VERSION} with a topic id: {fields}")
    return topic_id
