"""The settings of a group member, their defaults and limits (decision).

Names follow Kafka's consumer settings with underscores.
Invariant: every instance is valid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ottla.client.argument import require_flag, require_list, require_text, require_whole
from ottla.client.consumer.group.assignor import Assignor, RebalanceProtocol
from ottla.client.consumer.group.forgetful_assignor import RangeAssignor, RoundRobinAssignor
from ottla.client.consumer.group.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from ottla.client.errors import ConfigurationError

AssignorName = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]

ASSIGNORS: Final[dict[str, type[Assignor]]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
DEFAULT_ASSIGNORS: Final[tuple[AssignorName, ...]] = ("range", "cooperative-sticky")
"""As in the Java consumer: eager range, and prepared for cooperative rebalances (KIP-726)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Settings of a consumer's group membership."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignors: tuple[Assignor, ...]
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ConfigurationError("group_id is empty: give the group a name")
        require_text("group_id", self.group_id)
        if self.group_instance_id == "":
            raise ConfigurationError("group_instance_id is empty: give a name, or leave it out")
        if self.group_instance_id is not None:
            require_text("group_instance_id", self.group_instance_id)
        if not self.assignors:
            raise ConfigurationError("assignors is empty: name at least one")
        for name in ("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms"):
            require_whole(name, getattr(self, name), 1)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigurationError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be less than "
                f"session_timeout_ms ({self.session_timeout_ms}): a third of it is usual"
            )
        require_whole("auto_commit_interval_ms", self.auto_commit_interval_ms, 0)
        require_flag("enable_auto_commit", self.enable_auto_commit)

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep partitions during a rebalance; every assignor must support it."""
        return all(RebalanceProtocol.COOPERATIVE in each.protocols for each in self.assignors)


def parse_assignors(names: Sequence[str]) -> tuple[Assignor, ...]:
    """Return the assignors named in `names`, in the same order of preference.

    Raises:
        ConfigurationError: it is no list, there is no such assignor, or a name appears twice.
    """
    names = require_list("assignors", "names", names)
    for name in names:
        if name not in ASSIGNORS:
            raise ConfigurationError(f"assignors must be of {', '.join(ASSIGNORS)}, got {name!r}")
    if len(set(names)) != len(names):
        raise ConfigurationError(f"assignors names one twice: {', '.join(names)}")
    return tuple(ASSIGNORS[name]() for name in names)


def chosen_assignor(assignors: Sequence[Assignor], name: str | None) -> Assignor | None:
    """Return the assignor that the group agreed on, None if this member does not have it."""
    return next((each for each in assignors if each.name == name), None)
