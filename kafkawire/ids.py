"""The identifiers that every part of Ottla uses (decision).

Offsets, epochs and ids are `NewType`s of int, so that a type checker distinguishes them; at run
time they are plain ints. The rule for topic names and the text form of topic ids are Kafka's.
"""

import base64
import re
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

if TYPE_CHECKING:
    BrokerId = NewType("BrokerId", int)
    Offset = NewType("Offset", int)
    LeaderEpoch = NewType("LeaderEpoch", int)
    ProducerId = NewType("ProducerId", int)
else:
    # Calling a NewType runs Python code and takes twice as long, several times per batch.
    BrokerId = Offset = LeaderEpoch = ProducerId = int

TopicId = uuid.UUID

ZERO_TOPIC_ID: Final = TopicId(int=0)
"""Represents "no topic id"."""

MAX_TOPIC_NAME_CHARS: Final = 249
"""Leaves room for `-<partition>` and a suffix in the 255 bytes of a directory name."""

TOPIC_ID_TEXT_CHARS: Final = 22

_LEGAL_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_ID_TEXT: Final = re.compile(rf"[a-zA-Z0-9_-]{{{TOPIC_ID_TEXT_CHARS}}}")


class TopicPartition(NamedTuple):
    """One partition of one topic; its text is the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_to_text(topic_id: TopicId) -> str:
    """Return the 22 characters of URL-safe base64 that Kafka writes in files and prints."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")


def topic_id_from_text(text: str) -> TopicId:
    """Return the topic id that `topic_id_to_text` wrote as `text`.

    Raises:
        ValueError: `text` is not 22 characters of URL-safe base64.
    """
    if not _TOPIC_ID_TEXT.fullmatch(text):
        raise ValueError(f"a topic id is {TOPIC_ID_TEXT_CHARS} base64 characters, got {text!r}")
    return TopicId(bytes=base64.urlsafe_b64decode(text + "=="))


def validate_topic_name(name: str) -> str | None:
    """Return the reason why `name` is not a legal topic name, or None if it is legal."""
    if not name:
        return "a topic name must not be empty"
    if name in (".", ".."):
        return f"a topic cannot be named {name!r}, which names a directory"
    if len(name) > MAX_TOPIC_NAME_CHARS:
        return f"a topic name has at most {MAX_TOPIC_NAME_CHARS} characters, got {len(name)}"
    if not _LEGAL_TOPIC_NAME.fullmatch(name):
        return f"a topic name consists of ASCII letters, digits, '.', '_' and '-', got {name!r}"
    return None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the order of the input."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
