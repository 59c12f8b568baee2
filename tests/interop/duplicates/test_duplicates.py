"""Every record is in the log exactly once, despite lost responses, for three kinds of producers.

A proxy loses responses after the broker has written, and the broker is killed with -9 and
restarted in the meantime. It must detect the duplicates, both at run time and after a restart.
"""

import asyncio
from collections.abc import Iterator

import pytest

from kafkawire.errors import ErrorCode
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire
from tests.interop.duplicates.lossy_proxy import LossyProxy
from tests.interop.duplicates.once import check_once, progress, read_values
from tests.interop.duplicates.writers import PARTITIONS, WRITERS

TOPIC = "once"
LOSS_SHARE = 0.15

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def proxy() -> Iterator[LossyProxy]:
    made = LossyProxy(seed=1, loss_share=LOSS_SHARE)
    made.start()
    yield made
    made.stop()


def start_behind(
    proxy: LossyProxy, start_broker: StartBroker, before: BrokerProcess | None = None
) -> BrokerProcess:
    """Start a broker, with the data of `before` if given, that clients reach through the proxy."""
    overrides = {
        # The controller connects to the broker without the proxy.
        "listeners": "CLIENTS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "advertised.listeners": f"CLIENTS://127.0.0.1:{proxy.port},PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        # Small segments: the producer state has to survive rolls, too.
        "log.segment.bytes": "65536",
    }
    broker = start_broker(before.data_dir if before else None, overrides)
    proxy.target_port = broker.port
    return broker


def run(
    proxy: LossyProxy, start_broker: StartBroker, *, ends: int, records: int, losses: int
) -> None:
    """Write while the broker ends `ends` times, alternately killed and shut down."""
    broker = start_behind(proxy, start_broker)
    with Wire(broker.port) as wire:
        assert wire.create_topic(TOPIC, partitions=PARTITIONS).error_code == ErrorCode.NONE
    address = f"127.0.0.1:{proxy.port}"
    writers = [make(address, TOPIC) for make in WRITERS]
    for writer in writers:
        writer.start()
    try:
        for number in range(ends):
            progress(writers, [proxy], records=records, losses=losses)
            if number % 2:
                broker.stop()
            else:
                broker.kill()
            broker = start_behind(proxy, start_broker, broker)
        progress(writers, [proxy], records=records, losses=losses)
    finally:
        for writer in writers:
            writer.stop()
    for writer in writers:
        writer.check()
    assert proxy.lost_count >= losses * (ends + 1)
    check_once(asyncio.run(read_values(address, TOPIC)), writers)


def test_every_record_is_written_once(proxy: LossyProxy, start_broker: StartBroker) -> None:
    run(proxy, start_broker, ends=1, records=200, losses=8)


@pytest.mark.soak
def test_every_record_is_written_once_for_long(
    proxy: LossyProxy, start_broker: StartBroker
) -> None:
    run(proxy, start_broker, ends=40, records=1_000, losses=30)
