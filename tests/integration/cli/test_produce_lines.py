"""`ottla produce` to a partition that does not exist."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ottla.cli.command_config import ClusterAccess
from ottla.cli.failure import CommandError
from ottla.cli.input_record import line_parser
from ottla.cli.produce_lines import ProduceOptions, produce_lines
from ottla.cli.transfer import Transfer
from ottla.client.errors import UnknownPartitionError
from tests.integration.client.fake_broker import FakeCluster, fake_cluster


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with fake_cluster() as cluster:
        yield cluster


async def produce(cluster: FakeCluster, path: Path, partition: int) -> Transfer:
    """Send the lines of a file to a partition of topic a."""
    access = ClusterAccess(bootstrap=cluster.bootstrap, security={})
    options = ProduceOptions(
        topic="a",
        partition=partition,
        acks="all",
        compression="none",
        linger_ms=0,
        batch_size_bytes=1024,
    )
    transfer = Transfer("sent")
    parse = line_parser(key_separator=None, is_json=False)
    await produce_lines(path, parse, access, options, transfer)
    return transfer


async def test_an_unknown_partition_is_refused_also_without_a_line(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.create("a", [0, 0])
    lines = tmp_path / "lines"
    lines.touch()
    assert (await produce(cluster, lines, 1)).record_count == 0
    with pytest.raises(CommandError, match=r"^a-2 does not exist: a has 2 partitions, numbered"):
        await produce(cluster, lines, 2)
    lines.write_bytes(b"a line\n")
    with pytest.raises(UnknownPartitionError, match="topic a has no partition 2"):
        await produce(cluster, lines, 2)
    assert (await produce(cluster, lines, 1)).record_count == 1
