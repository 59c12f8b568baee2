"""The periodic tasks for groups, with Kafka's names and keys (composition)."""

from __future__ import annotations

from broker.config.broker_config import BrokerConfig
from broker.groups.coordinator import GroupCoordinator
from broker.scheduler import PeriodicTask


def group_tasks(groups: GroupCoordinator, config: BrokerConfig) -> list[PeriodicTask]:
    """Return the periodic tasks for `groups`."""
    return [
        PeriodicTask(
            "delete-expired-group-metadata",
            groups.expire,
            period_ms=config.offsets_retention_check_interval_ms,
            runs_in_loop=True,
        )
    ]
