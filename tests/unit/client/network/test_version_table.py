"""Both sides support every chosen version."""

import pytest

from kafkawire.apis import APIS, ApiKey
from kafkawire.messages.api_versions import ApiVersion
from ottla.client.errors import UnsupportedVersionError
from ottla.client.network.version_table import CEILINGS, VersionTable


def table(low: int, high: int, api_key: ApiKey = ApiKey.LIST_OFFSETS) -> VersionTable:
    return VersionTable([ApiVersion(api_key=api_key, min_version=low, max_version=high)])


def test_the_highest_common_version_is_chosen() -> None:
    ours = APIS[ApiKey.LIST_OFFSETS].decodable[1]
    assert table(0, 3).choose(ApiKey.LIST_OFFSETS) == 3
    assert table(0, 99).choose(ApiKey.LIST_OFFSETS) == ours
    assert table(ours, ours).choose(ApiKey.LIST_OFFSETS) == ours


@pytest.mark.parametrize("api_key", list(CEILINGS))
def test_versions_above_the_ceiling_are_not_chosen(api_key: ApiKey) -> None:
    assert table(0, 99, api_key).choose(api_key) == CEILINGS[api_key]


def test_no_common_version_is_reported_with_both_ranges() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"98\.\.99.*upgrade"):
        table(98, 99).choose(ApiKey.LIST_OFFSETS)
    with pytest.raises(UnsupportedVersionError, match="upgrade"):
        table(-1, -1).choose(ApiKey.LIST_OFFSETS)


def test_an_api_that_the_broker_lacks_is_reported() -> None:
    assert not table(0, 1).has(ApiKey.FETCH)
    with pytest.raises(UnsupportedVersionError, match="does not offer FETCH"):
        table(0, 1).choose(ApiKey.FETCH)
