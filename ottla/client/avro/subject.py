"""The subject under which the registry keeps the schema of a topic (decision)."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from ottla.client.errors import ConfigurationError

SubjectName = Literal["topic", "record", "topic-record"]
Subject: TypeAlias = Callable[[str], str]
_NAMES: Final[Mapping[str, tuple[bool, bool]]] = {
    "topic": (True, False),
    "record": (False, True),
    "topic-record": (True, True),
}
"""Whether the subject has the names of topic and record."""


def subject_namer(name: SubjectName, record: str | None, *, is_key: bool) -> Subject:
    """Return the function from topics to subjects, with the names of Confluent's strategies.

    Raises:
        ConfigurationError: `name` is none of them, or needs a record's name that is missing.
    """
    if name not in _NAMES:
        raise ConfigurationError(f"subject must be one of {', '.join(_NAMES)}, got {name!r}")
    has_topic, has_record = _NAMES[name]
    if not has_record:
        part = "key" if is_key else "value"
        return lambda topic: f"{topic}-{part}"
    if record is None:
        raise ConfigurationError(
            f"the subject {name!r} needs a schema with a name, as records have"
        )
    return lambda topic: f"{topic}-{record}" if has_topic else record
