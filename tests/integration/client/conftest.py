"""Fixtures of the client tests: fake clusters, and checks for leaked tasks and connections."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.integration.client.client_support import no_leak
from tests.integration.client.fake_broker import FakeCluster, fake_cluster


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """One broker."""
    async with fake_cluster() as cluster, no_leak(cluster):
        yield cluster


@pytest_asyncio.fixture
async def pair() -> AsyncIterator[FakeCluster]:
    """Two brokers."""
    async with fake_cluster(broker_count=2) as cluster, no_leak(cluster):
        yield cluster
