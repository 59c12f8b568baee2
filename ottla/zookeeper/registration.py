"""`/consumers/<group>/ids/<consumer>`: the subscription of a member (decision).

Kafka 0.8 and newer: JSON with pattern and subscription; other fields are never read. Jafka and
Kafka 0.7: a JSON object of topics and streams, or `*streams*regex` and `!streams!regex`. A regex is
written with one level of escapes and taken as it is read. Kafka 1.0.1 to 1.1.1 escape it twice, so
their members match nothing by `a\\.b`; each member has to read the same, or their assignments
differ.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.json_object import JsonObject, encode_json

MAX_STREAMS: Final = 10_000
"""Number of streams of one member above which its registration counts as malformed."""
_FILTER: Final = re.compile(r"([*!])(\d{1,9})\1(.*)", re.DOTALL)


class Layout(StrEnum):
    """Form of the nodes."""

    KAFKA = "kafka"
    JAFKA = "jafka"


class Pattern(StrEnum):
    """Kind of a subscription."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


_SIGNS: Final = {Pattern.WHITE_LIST: "*", Pattern.BLACK_LIST: "!"}
_PATTERNS: Final = {sign: pattern for pattern, sign in _SIGNS.items()}


@dataclass(frozen=True, slots=True)
class Registration:
    """Streams per topic; per regex, of which there is one, if the pattern is a list."""

    subscription: Mapping[str, int]
    pattern: Pattern = Pattern.STATIC

    def encode(self, layout: Layout, timestamp_ms: int) -> bytes:
        """Return the node's data, as Kafka 0.8.1 to 1.1 or Jafka writes it."""
        if layout is Layout.KAFKA:
            return encode_json(
                {
                    "version": 1,
                    "subscription": dict(self.subscription),
                    "pattern": self.pattern.value,
                    "timestamp": str(timestamp_ms),
                }
            )
        if self.pattern is Pattern.STATIC:
            return encode_json(dict(self.subscription))
        regex, streams = next(iter(self.subscription.items()))
        sign = _SIGNS[self.pattern]
        return f"{sign}{streams}{sign}{regex}".encode()


def decode_registration(data: bytes | None, layout: Layout) -> Registration:
    """Decode the registration of a member.

    Raises:
        MalformedZnodeError: not a registration of this layout.
    """
    return _decode_kafka(data) if layout is Layout.KAFKA else _decode_jafka(data)


def consumer_id(group: str, host: str, time_ms: int, upper_uuid: int) -> str:
    """Return the id of a new member, as Kafka names it.

    `upper_uuid` holds the 64 upper bits of a random UUID.
    """
    return f"{group}_{host}-{time_ms}-{f'{upper_uuid:x}'[:8]}"


def thread_ids(consumer: str, streams: int) -> list[str]:
    """Return the names under which the streams of a member own partitions."""
    return [f"{consumer}-{number}" for number in range(streams)]


def consumer_of(thread_id: str) -> str:
    """Return the id of the member that has a stream; a host may contain `-` and `_`, too."""
    return thread_id.rpartition("-")[0]


def _decode_kafka(data: bytes | None) -> Registration:
    fields = JsonObject.decode(data)
    text = fields.text("pattern")
    known = {each.value: each for each in Pattern}
    return Registration(_streams(data, "subscription"), known.get(text, Pattern.STATIC))


def _decode_jafka(data: bytes | None) -> Registration:
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedZnodeError("a registration is not text") from error
    if (found := _FILTER.fullmatch(text)) is not None:
        streams = int(found[2])
        if streams > MAX_STREAMS:
            raise MalformedZnodeError(f"{streams} streams exceed {MAX_STREAMS}")
        return Registration({found[3]: streams}, _PATTERNS[found[1]])
    JsonObject.decode(data)
    return Registration(_streams(data, None))


def _streams(data: bytes | None, name: str | None) -> dict[str, int]:
    # Decoded before, so that this is an object.
    value = json.loads(data or b"")
    if name is not None:
        value = value.get(name)
    if not isinstance(value, dict):
        raise MalformedZnodeError(f"{name} is not an object: {type(value).__name__}")
    for each in value.values():
        if type(each) is not int or each > MAX_STREAMS:
            raise MalformedZnodeError(f"streams per topic are numbers up to {MAX_STREAMS}")
    return value
