"""Whether the brokers of a cluster know each other (edge)."""

import asyncio
from collections.abc import Callable, Mapping, Set
from typing import Final

from ottla.client.client_config import ClientConfig, parse_bootstrap
from ottla.client.cluster_metadata import ClusterMetadata
from ottla.client.errors import OttlaError
from ottla.client.network.cluster import Cluster

RETRY_S: Final = 0.01
REQUEST_TIMEOUT_MS: Final = 2_000


async def wait_for_complete_metadata(running: Callable[[], Mapping[int, str]]) -> None:
    """Return once the metadata of all running brokers list these, one of them as the controller.

    `running` returns the addresses of the brokers that run now, by id.
    """
    while True:
        addresses = running()
        complete = await asyncio.gather(
            *(_is_complete(each, addresses.keys()) for each in addresses.values())
        )
        if all(complete):
            return
        await asyncio.sleep(RETRY_S)


async def _is_complete(address: str, broker_ids: Set[int]) -> bool:
    try:
        metadata = await _metadata(address)
    except OttlaError:
        # It has just started: the next attempt reaches it.
        return False
    # The metadata may list brokers that have just died, as the controller, too.
    return broker_ids <= metadata.brokers.keys() and metadata.controller_id in broker_ids


async def controller_of(address: str) -> int:
    """Return the id of the controller, or -1 without one, from the broker at `address`.

    Raises:
        NoBrokerAvailableError: no broker can be reached there.
    """
    return (await _metadata(address)).controller_id


async def _metadata(address: str) -> ClusterMetadata:
    config = ClientConfig(
        bootstrap=parse_bootstrap(address),
        client_id="ottla-testing",
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    cluster = Cluster(config, allow_auto_topic_creation=False)
    try:
        await cluster.start()
        return cluster.metadata
    finally:
        await cluster.close()
