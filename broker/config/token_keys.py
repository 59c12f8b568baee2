"""Keys of delegation tokens (decision)."""

from dataclasses import dataclass

from broker.config.declared_key import long, password
from storage.config.config_key import at_least

HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class TokenKeys:
    """Delegation tokens (KIP-48)."""

    delegation_token_secret_key: str = password(
        "Key that makes the secrets of delegation tokens, the same for all brokers; empty: there "
        "are no tokens."
    )
    delegation_token_max_lifetime_ms: int = long(
        7 * 24 * HOUR_MS, "Longest lifetime of a token, however often it is renewed.", at_least(1)
    )
    delegation_token_expiry_time_ms: int = long(
        24 * HOUR_MS, "Time after which a token must be renewed.", at_least(1)
    )
    delegation_token_expiry_check_interval_ms: int = long(
        HOUR_MS, "Time between deletions of expired tokens.", at_least(1)
    )
