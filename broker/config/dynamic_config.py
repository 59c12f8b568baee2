"""The configuration in force: dynamic configs on top of the file (decision).

Four layers; the first one with a key wins: the broker's own dynamic configs, the dynamic configs
shared by all brokers of the cluster, the file, the defaults. The coordinator's nodes hold the first
two. Source: DynamicBrokerConfig of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.config.broker_config import BrokerConfig, value_text
from broker.config.dynamic_keys import (
    CLEANER_THREADS,
    RATE_KEYS,
    THREAD_COUNTS,
    check_dynamic,
    check_thread_counts,
    is_of_one_broker,
    overridden,
    usable,
)
from broker.config.listener_security_keys import is_reloadable
from broker.errors import ConfigError
from kafkawire.errors import ApiError, ErrorCode

OF_ONE_BROKER: Final = (
    "advertised listeners and files of keys and certificates can be changed for one broker only"
)

Configs = Mapping[str, str]


class DynamicConfig:
    """The layers of one broker's configuration; `current` is the merged result."""

    def __init__(self, static: BrokerConfig) -> None:
        self.static = static
        self.current = static
        self.own: Configs = {}
        self.shared: Configs = {}
        # Raises ConfigError if the files of a configuration cannot be used.
        self.check_files: Callable[[BrokerConfig], object] = lambda _config: None

    def check(self, configs: Configs, *, is_shared: bool) -> None:
        """Refuse `configs` that cannot take effect, as the broker's own or as the shared ones.

        Raises:
            ApiError: INVALID_REQUEST.
        """
        check_dynamic(configs)
        if is_shared and any(map(is_of_one_broker, configs)):
            raise ApiError(ErrorCode.INVALID_REQUEST, OF_ONE_BROKER)
        own, shared = (self.own, configs) if is_shared else (configs, self.shared)
        try:
            merged = self._merged(own, shared)
            # Without its override, a listener returns to the file of the broker's properties.
            if not is_shared and any(map(is_reloadable, (*configs, *self.own))):
                self.check_files(merged)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        counted = (*THREAD_COUNTS, CLEANER_THREADS)
        check_thread_counts(_counts(self.current, counted), _counts(merged, counted))

    def adopt_own(self, configs: Configs) -> list[str]:
        """Make `configs` the broker's own; return the reasons why some have no effect."""
        own, reasons = usable(configs)
        return reasons + self._adopt(own, self.shared)

    def adopt_shared(self, configs: Configs) -> list[str]:
        """Make `configs` the shared ones; return the reasons why some have no effect."""
        shared, reasons = usable(
            {name: text for name, text in configs.items() if not is_of_one_broker(name)}
        )
        if len(shared) + len(reasons) < len(configs):
            reasons.append(OF_ONE_BROKER)
        return reasons + self._adopt(self.own, shared)

    def rate(self, name: str) -> int:
        """Return the value of one of `RATE_KEYS`, in bytes per second; unlimited by default."""
        key = RATE_KEYS[name]
        value = key.parse(self.own.get(name, self.shared.get(name, key.default)))
        assert isinstance(value, int)
        return value

    def _adopt(self, own: Configs, shared: Configs) -> list[str]:
        try:
            current = self._merged(own, shared)
        except ConfigError as error:
            # Each value is legal, but not their combination: keep the previous configuration.
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
