"""Names of Kafka's releases in `message.format.version` (decision).

A name is a release, such as 3.9 or 0.10.2, with any further numbers, or one of the inter-broker
protocol's versions, such as 3.0-IV1.
Source: MetadataVersion.fromVersionString of Kafka 3.9.
"""

from typing import Final

from storage.config.config_key import ConfigValue, Rule

_PROTOCOL_COUNTS: Final = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0, "0.10.0": 2, "0.10.1": 3, "0.10.2": 1,
    "0.11.0": 3, "1.0": 1, "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1,
    "2.6": 1, "2.7": 3, "2.8": 2, "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3,
    "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1,
}  # fmt: skip
"""Number of protocol versions of each release: 2 stands for -IV0 and -IV1."""

_NAMES: Final = frozenset(_PROTOCOL_COUNTS) | {
    f"{release}-IV{number}"
    for release, count in _PROTOCOL_COUNTS.items()
    for number in range(count)
}


def is_format_version(value: ConfigValue) -> bool:
    """Whether Kafka 3.9 knows a version by this name."""
    assert isinstance(value, str), "the rule of a string"
    number_count = 3 if value.startswith("0.") else 2
    numbers = value.rstrip(".").split(".")
    name = value if len(numbers) <= number_count else ".".join(numbers[:number_count])
    return name in _NAMES


FORMAT_VERSION: Final = Rule(is_format_version, "a version of Kafka such as 3.0-IV1 or 3.9")
