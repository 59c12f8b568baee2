"""The part of one machine in a cluster over several machines (decision).

One machine runs the coordinator, and its brokers have the ids from 1. The brokers of a machine that
joins have ids that the coordinator generates, above `reserved.broker.max.id`, so that no two
machines can take the same one. The rack of a broker is the address of its machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

RACK_KEY: Final = "broker.rack"
CONNECT_KEY: Final = "zookeeper.connect"
RESERVED_KEY: Final = "reserved.broker.max.id"
DEFAULT_RESERVED: Final = 1_000
SESSION_TIMEOUT_MS: Final = 6_000
"""Longer than on one machine, because a network loses and delays packets."""
MOST_REPLICAS: Final = 3
MAX_BROKERS: Final = 100
"""Largest number of brokers on one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine of a cluster over several."""

    host: str
    """Name or address under which the others reach it."""
    coordinator: str
    """`HOST:PORT` of the coordinator, as the other machines reach it."""
    generated_ids: tuple[int, ...] = ()
    """Ids of the brokers of a machine that joins; empty on the machine with the coordinator."""

    @property
    def has_coordinator(self) -> bool:
        """Whether the coordinator runs on this machine."""
        return not self.generated_ids

    def defaults(self) -> dict[str, str]:
        """Return the rack, and defaults that are the same for any number of cores.

        A topic has its replicas on up to three machines, and survives the loss of one.
        """
        return {
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "default.replication.factor": str(MOST_REPLICAS),
            "min.insync.replicas": str(MOST_REPLICAS - 1),
            "offsets.topic.replication.factor": str(MOST_REPLICAS),
            "transaction.state.log.replication.factor": str(MOST_REPLICAS),
            "transaction.state.log.min.isr": str(MOST_REPLICAS - 1),
            RACK_KEY: self.host,
        }

    def own(self) -> dict[str, str]:
        """Return keys that overrides may not change."""
        # Generated ids are above the range of configured ones, which this key would check.
        return {} if self.has_coordinator else {"broker.id.generation.enable": "false"}


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Refuse overrides that would take a machine out of its cluster.

    Raises:
        ValueError: there is one.
    """
    if CONNECT_KEY in overrides:
        raise ValueError(
            f"{CONNECT_KEY} names a coordinator of your own: leave it out, or --join and --joinable"
        )
