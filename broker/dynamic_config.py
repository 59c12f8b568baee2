"""The configuration that is in force: the file's, under what was set while brokers run (decision).

Four layers, of which the first that has a key wins: this broker's own values, those that all
brokers of the cluster share, the file's, the defaults. The first two lie in the coordinator's
nodes. Source: DynamicBrokerConfig of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.config import BrokerConfig, value_text
from broker.dynamic_keys import (
    CLEANER_THREADS,
    RATE_KEYS,
    THREAD_COUNTS,
    check_dynamic,
    check_thread_counts,
    overridden,
    usable,
)
from broker.errors import ConfigError
from kafkawire.errors import ApiError, ErrorCode

Configs = Mapping[str, str]


class DynamicConfig:
    """The layers of one broker's configuration, and `current`: what they say together."""

    def __init__(self, static: BrokerConfig) -> None:
        self.static = static
        self.current = static
        self.own: Configs = {}
        self.shared: Configs = {}

    def check(self, configs: Configs, *, is_shared: bool) -> None:
        """Refuse `configs` as this broker's own, or as those of all, if they cannot be in force.

        Raises:
            ApiError: INVALID_REQUEST.
        """
        check_dynamic(configs)
        own, shared = (self.own, configs) if is_shared else (configs, self.shared)
        try:
            merged = self._merged(own, shared)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        counted = (*THREAD_COUNTS, CLEANER_THREADS)
        check_thread_counts(_counts(self.current, counted), _counts(merged, counted))

    def adopt_own(self, configs: Configs) -> list[str]:
        """Let `configs` be this broker's own; return why some do not count."""
        own, reasons = usable(configs)
        return reasons + self._adopt(own, self.shared)

    def adopt_shared(self, configs: Configs) -> list[str]:
        """Let `configs` be those of all brokers; return why some do not count."""
        shared, reasons = usable(configs)
        return reasons + self._adopt(self.own, shared)

    def rate(self, name: str) -> int:
        """Return one of `RATE_KEYS`, in bytes per second; by default there is hardly a limit."""
        key = RATE_KEYS[name]
        value = key.parse(self.own.get(name, self.shared.get(name, key.default)))
        assert isinstance(value, int)
        return value

    def _adopt(self, own: Configs, shared: Configs) -> list[str]:
        try:
            current = self._merged(own, shared)
        except ConfigError as error:
            # Legal one by one, and not together: what was in force stays.
            return [str(error)]
        self.own, self.shared, self.current = own, shared, current
        return []

    def _merged(self, own: Configs, shared: Configs) -> BrokerConfig:
        if not own and not shared:
            return self.static
        originals = overridden(overridden(self.static.originals, shared), own)
        return BrokerConfig.from_properties(originals)


def _counts(config: BrokerConfig, names: tuple[str, ...]) -> dict[str, int]:
    return {name: int(value_text(config, name) or 0) for name in names}
