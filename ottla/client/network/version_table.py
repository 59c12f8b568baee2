"""Chooses the version of each request on a connection. Decision: no I/O.

Invariant: the broker announced every chosen version, and this client can decode it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from kafkawire.apis import APIS, ApiKey
from ottla.client.errors import UnsupportedVersionError

CEILINGS: Final[Mapping[ApiKey, int]] = {
    # Produce 12 promises transactions of KIP-890 part 2, 13 names topics by id.
    ApiKey.PRODUCE: 11,
    # Fetch 13 names topics by id.
    ApiKey.FETCH: 12,
}
"""Highest versions to use: later ones require features that this client does not have."""


class SupportedApi(Protocol):
    """One row of an ApiVersions response."""

    api_key: int
    min_version: int
    max_version: int


class VersionTable:
    """The versions that both sides of one connection support."""

    def __init__(self, announced: Iterable[SupportedApi]) -> None:
        self._announced = {row.api_key: (row.min_version, row.max_version) for row in announced}

    def choose(self, api_key: ApiKey) -> int:
        """Return the highest common version of `api_key`.

        Raises:
            UnsupportedVersionError: there is no common version.
        """
        low, high = APIS[api_key].decodable
        high = min(high, CEILINGS.get(api_key, high))
        announced = self._announced.get(api_key)
        if announced is None:
            raise UnsupportedVersionError(
                f"the broker does not offer {api_key.name}: use a broker that does"
            )
        version = min(high, announced[1])
        if version < max(low, announced[0]):
            raise UnsupportedVersionError(
                f"the broker offers {api_key.name} in versions {announced[0]}..{announced[1]}, "
                f"this client speaks {low}..{high}: upgrade the older of the two"
            )
        return version

    def has(self, api_key: ApiKey) -> bool:
        """Whether the broker offers `api_key` at all."""
        return api_key in self._announced
