"""Changes of topics and configs, read from the fields of a form (decision).

A change has sentences for the page that asks for confirmation. The most destructive one, a
deletion, needs the name of the topic to be typed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.client.admin_model import BROKER_DEFAULT, ResourceType

MAX_PARTITIONS: Final = 100_000
MAX_REPLICAS: Final = 1_000
MAX_CONFIG_LINES: Final = 200
MAX_NAME_CHARACTERS: Final = 249
KINDS: Final = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create a topic; -1 means the broker's default."""

    topic: str
    partitions: int = BROKER_DEFAULT
    replicas: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)

    title = "Create topic"
    done = "created"
    typed = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The effect of the change."""
        return (
            f"Topic {self.topic} gets {_number_or_default(self.partitions, 'partition')} and "
            f"{_number_or_default(self.replicas, 'replica')} of each.",
            *(f"{key} is set to {value}." for key, value in self.configs.items()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete a topic."""

    topic: str

    title = "Delete topic"
    done = "deleted"

    @property
    def typed(self) -> str:
        """The name to type."""
        return self.topic

    @property
    def sentences(self) -> tuple[str, ...]:
        """The effect of the change."""
        return (f"Topic {self.topic} is deleted with all its records.", "This cannot be undone.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Raise the number of partitions of a topic to a total."""

    topic: str
    partitions: int

    title = "Add partitions"
    done = "extended"
    typed = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The effect of the change."""
        return (
            f"Topic {self.topic} gets {self.partitions} partitions in total.",
            "Most keys map to another partition from then on, so the records of one key are no "
            "longer in one partition. The number can never be lowered.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfig:
    """Set a config of a topic or broker; None resets it to its default."""

    kind: ResourceType
    name: str
    key: str
    value: str | None

    title = "Change config"
    done = "altered"
    typed = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The effect of the change."""
        owner = f"{self.kind.name.lower()} {self.name}"
        if self.value is None:
            return (f"{self.key} of {owner} is reset to its default.",)
        return (f"{self.key} of {owner} is set to “{self.value}”.",)


Change: TypeAlias = CreateTopic | DeleteTopic | AddPartitions | AlterConfig


def parse_change(fields: Mapping[str, str]) -> Change:
    """Return the change that the fields of a form describe.

    Raises:
        ValueError: a field is missing or has no valid value; the message is one sentence.
    """
    action = fields.get("action", "")
    if action == "create":
        return CreateTopic(
            topic=_name(fields, "topic"),
            partitions=_count(fields, "partitions", MAX_PARTITIONS, BROKER_DEFAULT),
            replicas=_count(fields, "replicas", MAX_REPLICAS, BROKER_DEFAULT),
            configs=parse_configs(fields.get("configs", "")),
        )
    if action == "delete":
        return DeleteTopic(topic=_name(fields, "topic"))
    if action == "partitions":
        count = _count(fields, "partitions", MAX_PARTITIONS, None)
        return AddPartitions(topic=_name(fields, "topic"), partitions=count)
    if action in ("set", "reset"):
        kind = fields.get("kind", "")
        if kind not in KINDS:
            raise ValueError(f"a config belongs to a topic or a broker, got {kind!r}")
        return AlterConfig(
            kind=KINDS[kind],
            name=_name(fields, "name"),
            key=_name(fields, "key"),
            value=fields.get("value", "").strip() if action == "set" else None,
        )
    raise ValueError(f"there is no change {action!r}")


def parse_configs(text: str) -> dict[str, str]:
    """Return the configs in lines of the form `key=value`; empty lines do not count.

    Raises:
        ValueError: a line has another form, a key is repeated, or there are too many lines.
    """
    configs: dict[str, str] = {}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_CONFIG_LINES:
        raise ValueError(f"at most {MAX_CONFIG_LINES} configs can be set, got {len(lines)}")
    for line in lines:
        key, separator, value = (part.strip() for part in line.partition("="))
        if not separator or not key:
            raise ValueError(f"a config has the form key=value, got {line!r}")
        if key in configs:
            raise ValueError(f"the config {key} is there twice")
        configs[key] = value
    return configs


def _name(fields: Mapping[str, str], field_name: str) -> str:
    name = fields.get(field_name, "").strip()
    if not name:
        raise ValueError(f"the {field_name} is missing")
    if len(name) > MAX_NAME_CHARACTERS:
        raise ValueError(
            f"the {field_name} has at most {MAX_NAME_CHARACTERS} characters, got {len(name)}"
        )
    return name


def _count(fields: Mapping[str, str], field_name: str, most: int, default: int | None) -> int:
    text = fields.get(field_name, "").strip()
    if not text and default is not None:
        return default
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not is_number or not 0 < int(text) <= most:
        raise ValueError(f"the number of {field_name} is from 1 to {most}, got {text!r}")
    return int(text)


def _number_or_default(count: int, noun: str) -> str:
    if count == BROKER_DEFAULT:
        return f"the default number of {noun}s"
    return f"{count} {noun}{'s' * (count != 1)}"
