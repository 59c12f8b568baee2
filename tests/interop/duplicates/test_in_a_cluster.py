"""Every record once, even if leaders change: three brokers, lost responses, killed brokers.

Followers derive the producer state from the batches that they copy. Clients reach each broker
through a proxy of its own; brokers reach each other directly.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ottla
from tests.conftest import BrokerProcess
from tests.harness.cluster import ClusterProcesses
from tests.interop.duplicates.lossy_proxy import LossyProxy
from tests.interop.duplicates.once import check_once, progress, read_values
from tests.interop.duplicates.writers import PARTITIONS, WRITERS
from tests.ports import free_port

TOPIC = "once"
LOSS_SHARE = 0.1

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class ProxiedCluster(ClusterProcesses):
    """A cluster whose brokers advertise the addresses of proxies to clients."""

    def __init__(self, directory: Path, proxies: dict[int, LossyProxy]) -> None:
        self.proxies = proxies
        self.client_ports = {number: free_port() for number in proxies}
        super().__init__(directory, broker_count=len(proxies))
        for number, proxy in proxies.items():
            proxy.target_port = self.client_ports[number]

    def launch(self, number: int) -> BrokerProcess:
        """Start one broker with a listener for clients and one for brokers."""
        inside = f"PLAINTEXT://127.0.0.1:{self.ports[number]}"
        broker = BrokerProcess(
            self.log_directory(number),
            {
                **self._overrides,
                "broker.id": str(number),
                "zookeeper.connect": self.connect,
                "listeners": f"{inside},CLIENTS://127.0.0.1:{self.client_ports[number]}",
                "advertised.listeners": (
                    f"{inside},CLIENTS://127.0.0.1:{self.proxies[number].port}"
                ),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "log.segment.bytes": "65536",
                "min.insync.replicas": "2",
            },
        )
        self.brokers[number] = broker
        return broker


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProxiedCluster]:
    with ExitStack() as stack:
        proxies = {number: LossyProxy(seed=number, loss_share=LOSS_SHARE) for number in (1, 2, 3)}
        for proxy in proxies.values():
            proxy.start()
            stack.callback(proxy.stop)
        yield stack.enter_context(ProxiedCluster(tmp_path, proxies))


async def create_topic(address: str) -> None:
    async with ottla.Admin(address) as admin:
        await admin.create_topics([ottla.NewTopic(TOPIC, PARTITIONS, 3)])


def run(cluster: ProxiedCluster, *, ends: int, records: int, losses: int) -> None:
    """Write while brokers end `ends` times, alternately killed and shut down."""
    dice = random.Random(4)
    asyncio.run(create_topic(cluster.bootstrap))
    proxies = list(cluster.proxies.values())
    address = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
    writers = [make(address, TOPIC) for make in WRITERS]
    for writer in writers:
        writer.start()
    try:
        for number in range(ends):
            progress(writers, proxies, records=records, losses=losses)
            victim = dice.choice(cluster.numbers)
            if number % 2:
                cluster.stop(victim)
            else:
                cluster.kill(victim)
            progress(writers, proxies, records=records, losses=losses)
            cluster.start_brokers(victim)
        progress(writers, proxies, records=records, losses=losses)
    finally:
        for writer in writers:
            writer.stop()
    for writer in writers:
        writer.check()
    check_once(asyncio.run(read_values(address, TOPIC)), writers)


def test_every_record_is_written_once_by_changing_leaders(cluster: ProxiedCluster) -> None:
    run(cluster, ends=1, records=100, losses=5)


@pytest.mark.soak
def test_every_record_is_written_once_by_changing_leaders_for_long(
    cluster: ProxiedCluster,
) -> None:
    run(cluster, ends=24, records=500, losses=20)
