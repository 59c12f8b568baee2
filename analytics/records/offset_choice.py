"""The options of the records source: topics, partitions and offsets, in Spark's words (decision).

    subscribe         topics, separated by commas
    subscribePattern  a regular expression that matches the complete name of a topic
    assign            {"orders": [0, 1]}
    startingOffsets   earliest, latest or {"orders": {"0": 23, "1": -2}}; -2 is earliest, -1 latest
    endingOffsets     latest or {"orders": {"0": 50, "1": -1}}

Without a choice of topics, all but the internal ones are read. Offsets are by topic and number of
the partition, as in Spark's checkpoints.
"""

import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from analytics.errors import RecordsUsageError
from kafkawire.ids import TopicPartition

INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__cluster_metadata")
EARLIEST: Final = -2
LATEST: Final = -1
_NAMED: Final = {"earliest": EARLIEST, "latest": LATEST}
_TOPIC_OPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_UNSUPPORTED: Final = (
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
)

Offsets = Mapping[TopicPartition, int]
Position = int | Offsets
"""`EARLIEST` or `LATEST` for all partitions, or an offset for each."""


class Isolation(StrEnum):
    """The isolation levels of a consumer, by Kafka's names."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class TopicChoice:
    """The partitions to read."""

    def __init__(self, options: Mapping[str, str], internal: Iterable[str]) -> None:
        """Read the options.

        Raises:
            RecordsUsageError: there are several of them, or one is malformed.
        """
        given = [name for name in _TOPIC_OPTIONS if name in options]
        if len(given) > 1:
            raise RecordsUsageError(f"{' and '.join(given)} exclude each other: choose one")
        for name in _UNSUPPORTED:
            if name in options:
                raise RecordsUsageError(f"{name} is not supported: give offsets instead")
        self._internal = frozenset(internal)
        self._topics: frozenset[str] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._partitions: frozenset[TopicPartition] | None = None
        if "subscribe" in options:
            names = (name.strip() for name in options["subscribe"].split(","))
            self._topics = frozenset(name for name in names if name)
            if not self._topics:
                raise RecordsUsageError("subscribe names no topic")
        elif "subscribePattern" in options:
            try:
                self._pattern = re.compile(options["subscribePattern"])
            except re.error as error:
                raise RecordsUsageError(
                    f"subscribePattern is not a regular expression: {error}"
                ) from error
        elif "assign" in options:
            self._partitions = frozenset(_assigned(options["assign"]))

    def accepts(self, partition: TopicPartition) -> bool:
        """Whether the partition is to be read."""
        if self._partitions is not None:
            return partition in self._partitions
        if self._topics is not None:
            return partition.topic in self._topics
        if self._pattern is not None:
            return self._pattern.fullmatch(partition.topic) is not None
        return partition.topic not in self._internal

    def check_found(self, found: Iterable[TopicPartition]) -> None:
        """Verify that every topic and partition that the options name was found.

        Raises:
            RecordsUsageError: one was not.
        """
        present = set(found)
        missing: list[str] = []
        if self._topics is not None:
            missing = sorted(self._topics - {each.topic for each in present})
        elif self._partitions is not None:
            missing = sorted(map(str, self._partitions - present))
        if missing:
            raise RecordsUsageError(f"no log of {', '.join(missing)} is in the directories")


def read_position(name: str, text: str, forbidden: int | None = None) -> Position:
    """Return the value of the option `name`; `forbidden` is a position that it may not have.

    Raises:
        RecordsUsageError: the value is malformed.
    """
    named = _NAMED.get(text.strip().lower())
    if named is not None:
        _check_allowed(name, named, forbidden)
        return named
    offsets = {}
    for topic, partitions in _object(name, text).items():
        if not isinstance(partitions, dict):
            raise _malformed(name, '{"orders": {"0": 23}}')
        for number, offset in partitions.items():
            is_whole = isinstance(offset, int) and not isinstance(offset, bool)
            if not number.isdecimal() or not is_whole or offset < EARLIEST:
                raise _malformed(name, '{"orders": {"0": 23}}')
            _check_allowed(name, offset, forbidden)
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def resolve(
    name: str, position: Position, earliest: Offsets, latest: Offsets
) -> dict[TopicPartition, int]:
    """Return the offset of each partition in `earliest` at a position.

    Raises:
        RecordsUsageError: the position lacks one of them, or names others, as in Spark.
    """
    if isinstance(position, int):
        position = dict.fromkeys(earliest, position)
    differing = sorted(map(str, position.keys() ^ earliest.keys()))
    if differing:
        raise RecordsUsageError(
            f"{name} must name the partitions that are read, no more and no fewer; "
            f"it differs in {', '.join(differing)}"
        )
    return {
        partition: earliest[partition]
        if offset == EARLIEST
        else latest[partition]
        if offset == LATEST
        else offset
        for partition, offset in position.items()
    }


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return the offsets in the form of Spark's checkpoints."""
    found: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint."""
    return {
        TopicPartition(topic, int(number)): offset
        for topic, partitions in value.items()
        for number, offset in partitions.items()
    }


def limited(start: Offsets, end: Offsets, max_offsets: int) -> dict[TopicPartition, int]:
    """Return ends after about `max_offsets` offsets, shared by the partitions by their backlogs.

    Each partition with a backlog advances by one offset at least.
    """
    backlogs = {
        partition: max(0, offset - start.get(partition, 0)) for partition, offset in end.items()
    }
    total = sum(backlogs.values())
    if total <= max_offsets:
        return dict(end)
    return {
        partition: start.get(partition, 0)
        + min(backlogs[partition], -(-backlogs[partition] * max_offsets // total))
        if backlogs[partition]
        else offset
        for partition, offset in end.items()
    }


def read_flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the option `name`, true or false.

    Raises:
        RecordsUsageError: it is neither.
    """
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise RecordsUsageError(f"{name} must be true or false, got {text}")
    return text == "true"


def read_count(options: Mapping[str, str], name: str) -> int | None:
    """Return the positive option `name`; None if it is not given.

    Raises:
        RecordsUsageError: it is not a positive number.
    """
    if name not in options:
        return None
    text = options[name]
    if not text.isdecimal() or int(text) == 0:
        raise RecordsUsageError(f"{name} must be a positive number, got {text}")
    return int(text)


def _assigned(text: str) -> Iterable[TopicPartition]:
    form = '{"orders": [0, 1]}'
    for topic, numbers in _object("assign", text).items():
        if not isinstance(numbers, list):
            raise _malformed("assign", form)
        for number in numbers:
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise _malformed("assign", form)
            yield TopicPartition(topic, number)


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _malformed(name, '{"orders": ...} in JSON')
    return value


def _malformed(name: str, form: str) -> RecordsUsageError:
    return RecordsUsageError(f"{name} must have the form {form}")


def _check_allowed(name: str, offset: int, forbidden: int | None) -> None:
    if offset == forbidden:
        word = "earliest" if offset == EARLIEST else "latest"
        raise RecordsUsageError(f"{name} cannot be {word}")
