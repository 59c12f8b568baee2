"""Whether the brokers of a cluster know each other (edge)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from kafkawire.sentinels import NO_LEADER
from ottla.client.client_config import ClientConfig, parse_bootstrap
from ottla.client.errors import OttlaError
from ottla.client.network.cluster import Cluster

RETRY_S: Final = 0.01
REQUEST_TIMEOUT_MS: Final = 2_000


async def wait_for_complete_metadata(addresses: Sequence[str], broker_count: int) -> None:
    """Return once the metadata of the brokers at `addresses` list all brokers and a controller."""
    await asyncio.gather(*(_wait(each, broker_count) for each in addresses))


async def _wait(address: str, broker_count: int) -> None:
    config = ClientConfig(
        bootstrap=parse_bootstrap(address),
        client_id="ottla-testing",
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    while True:
        cluster = Cluster(config, allow_auto_topic_creation=False)
        try:
            await cluster.start()
            metadata = cluster.metadata
            if len(metadata.brokers) >= broker_count and metadata.controller_id != NO_LEADER:
                return
        except OttlaError:
            # It has just started: the next attempt reaches it.
            pass
        finally:
            await cluster.close()
        await asyncio.sleep(RETRY_S)


async def controller_of(address: str) -> int:
    """Return the id of the controller, or -1 without one, from the broker at `address`.

    Raises:
        NoBrokerAvailableError: no broker can be reached there.
    """
    config = ClientConfig(
        bootstrap=parse_bootstrap(address),
        client_id="ottla-testing",
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    cluster = Cluster(config, allow_auto_topic_creation=False)
    try:
        await cluster.start()
        return cluster.metadata.controller_id
    finally:
        await cluster.close()
