"""Settings of clients coordinated through znodes, and their defaults per layout (decision)."""

from dataclasses import dataclass
from typing import Final, Literal

from clusterstate.znodes.consumer_nodes import is_group_name
from ottla.client.argument import MAX_INT32, require_flag, require_whole
from ottla.client.client_config import ResetPolicy
from ottla.client.errors import ConfigurationError
from ottla.zookeeper.assignment import Strategy
from ottla.zookeeper.registration import MAX_STREAMS, Layout

ResetWord = Literal["smallest", "largest", "earliest", "latest", "none"]
OffsetPlace = Literal["znodes", "kafka", "both"]

_RESETS: Final[dict[str, ResetPolicy]] = {
    "smallest": "earliest",
    "largest": "latest",
    "earliest": "earliest",
    "latest": "latest",
    "none": "none",
}
_DEFAULT_RESET: Final[dict[Layout, ResetPolicy]] = {
    Layout.KAFKA: "latest",
    Layout.JAFKA: "earliest",
}
_COMMIT_INTERVAL_MS: Final = {Layout.KAFKA: 60_000, Layout.JAFKA: 1_000}
_BACKOFF_MS: Final = {Layout.KAFKA: 2_000, Layout.JAFKA: 10_000}
DEFAULT_TRIES: Final = 4
DEFAULT_SESSION_TIMEOUT_MS: Final = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Checked settings of one member."""

    group_id: str
    layout: Layout
    strategy: Strategy
    streams: int
    reset: ResetPolicy
    auto_commit_interval_ms: int | None
    rebalance_max_retries: int
    rebalance_backoff_ms: int
    session_timeout_ms: int


def parse_layout(layout: str) -> Layout:
    """Return the layout with this name.

    Raises:
        ConfigurationError: there is none.
    """
    if layout not in list(Layout):
        raise ConfigurationError(f"layout must be kafka or jafka, got {layout!r}")
    return Layout(layout)


def member_settings(
    *,
    group_id: str,
    layout: str = Layout.KAFKA,
    strategy: str = Strategy.RANGE,
    streams: int = 1,
    auto_offset_reset: ResetWord | None = None,
    enable_auto_commit: bool = True,
    auto_commit_interval_ms: int | None = None,
    rebalance_max_retries: int = DEFAULT_TRIES,
    rebalance_backoff_ms: int | None = None,
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
) -> MemberSettings:
    """Return checked settings, with the defaults of the layout's Java clients.

    Raises:
        ConfigurationError: a setting is out of range; the message has its value and limits.
    """
    if not is_group_name(group_id):
        raise ConfigurationError(
            f"group_id must be of letters, digits, '.', '_', '-': {group_id!r}"
        )
    if strategy not in list(Strategy):
        raise ConfigurationError(f"the strategy must be range or roundrobin, got {strategy!r}")
    chosen = parse_layout(layout)
    reset = _RESETS.get(auto_offset_reset) if auto_offset_reset else _DEFAULT_RESET[chosen]
    if reset is None:
        raise ConfigurationError(
            f"auto_offset_reset must be one of {', '.join(_RESETS)}, got {auto_offset_reset!r}"
        )
    backoff_ms = _BACKOFF_MS[chosen] if rebalance_backoff_ms is None else rebalance_backoff_ms
    interval_ms = auto_commit_interval_ms
    if interval_ms is None:
        interval_ms = _COMMIT_INTERVAL_MS[chosen]
    for name, value, low, high in (
        ("streams", streams, 1, MAX_STREAMS),
        ("auto_commit_interval_ms", interval_ms, 1, MAX_INT32),
        ("rebalance_max_retries", rebalance_max_retries, 1, MAX_INT32),
        ("rebalance_backoff_ms", backoff_ms, 0, MAX_INT32),
        ("session_timeout_ms", session_timeout_ms, 1, MAX_INT32),
    ):
        require_whole(name, value, low, high)
    require_flag("enable_auto_commit", enable_auto_commit)
    if rebalance_max_retries * backoff_ms <= session_timeout_ms and backoff_ms:
        raise ConfigurationError(
            f"rebalance_max_retries x rebalance_backoff_ms, {rebalance_max_retries * backoff_ms}, "
            f"must exceed session_timeout_ms, {session_timeout_ms}, or a crash next door fails us"
        )
    return MemberSettings(
        group_id=group_id,
        layout=chosen,
        strategy=Strategy(strategy),
        streams=streams,
        reset=reset,
        auto_commit_interval_ms=interval_ms if enable_auto_commit else None,
        rebalance_max_retries=rebalance_max_retries,
        rebalance_backoff_ms=backoff_ms,
        session_timeout_ms=session_timeout_ms,
    )
