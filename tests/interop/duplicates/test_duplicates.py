"""Every record exactly once in the log, whatever is lost on the way, for producers of three makes.

A proxy loses answers after the broker has written, and the broker is killed with -9 and started
again meanwhile. What producers repeat must be found out, in memory and after a start.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import pytest

from kafkawire.records import iterate_batches, read_records
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire
from tests.interop.duplicates.lossy_proxy import LossyProxy
from tests.interop.duplicates.writers import PARTITIONS, WRITERS, Writer

TOPIC = "once"
PATIENCE_S = 60.0
LOOK_S = 0.01
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
    """Start a broker, again on the data of the one before, that clients reach by the proxy only."""
    overrides = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
        # Rolls every moment: what is known of producers has to get over those, too.
        "log.segment.bytes": "65536",
    }
    broker = start_broker(before.data_dir if before else None, overrides)
    proxy.target_port = broker.port
    return broker


def wait_until(condition: Callable[[], bool], writers: list[Writer]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert not any(writer.errors for writer in writers), [each.errors for each in writers]
        counts = {each.name: (each.sent, each.acknowledged) for each in writers}
        assert time.monotonic() < deadline, f"sent and acknowledged: {counts}"
        time.sleep(LOOK_S)


def progress(writers: list[Writer], proxy: LossyProxy, records: int, losses: int) -> None:
    """Wait until every writer has so many more records acknowledged, and answers were lost."""
    before = {writer: writer.acknowledged for writer in writers}
    lost_before = proxy.lost_count
    wait_until(
        lambda: (
            proxy.lost_count >= lost_before + losses
            and all(writer.acknowledged >= count + records for writer, count in before.items())
        ),
        writers,
    )


def stored(wire: Wire, partition: int) -> list[bytes]:
    values: list[bytes] = []
    offset = 0
    while True:
        records = wire.fetch(TOPIC, offset, partition=partition, max_bytes=1 << 22).records
        if not records:
            return values
        assert isinstance(records, memoryview)
        for header, batch in iterate_batches(records):
            values += [(each.value or b"").rpartition(b":")[0] for each in read_records(batch)]
            offset = header.next_offset


def check(broker: BrokerProcess, writers: list[Writer]) -> None:
    """Every record is there once, and those of a writer in their order."""
    with Wire(broker.port) as wire:
        by_partition = [stored(wire, partition) for partition in range(PARTITIONS)]
    counts = Counter(value for values in by_partition for value in values)
    sent = {b"%s:%d" % (w.name.encode(), n) for w in writers for n in range(w.sent)}
    assert sent - set(counts) == set(), "records are missing"
    assert {value: count for value, count in counts.items() if count > 1} == {}
    assert set(counts) == sent
    for values in by_partition:
        numbers: defaultdict[bytes, list[int]] = defaultdict(list)
        for value in values:
            name, _, number = value.partition(b":")
            numbers[name].append(int(number))
        assert all(each == sorted(each) for each in numbers.values())


def run(
    proxy: LossyProxy, start_broker: StartBroker, *, kills: int, records: int, losses: int
) -> None:
    broker = start_behind(proxy, start_broker)
    with Wire(broker.port) as wire:
        wire.create_topic(TOPIC, partitions=PARTITIONS)
    writers = [make(f"127.0.0.1:{proxy.port}", TOPIC) for make in WRITERS]
    for writer in writers:
        writer.start()
    try:
        for _ in range(kills):
            progress(writers, proxy, records, losses)
            broker.kill()
            broker = start_behind(proxy, start_broker, broker)
        progress(writers, proxy, records, losses)
    finally:
        for writer in writers:
            writer.stop()
    for writer in writers:
        writer.check()
    assert proxy.lost_count >= losses * (kills + 1)
    check(broker, writers)


def test_every_record_is_written_once(proxy: LossyProxy, start_broker: StartBroker) -> None:
    run(proxy, start_broker, kills=2, records=200, losses=8)


@pytest.mark.soak
def test_every_record_is_written_once_for_long(
    proxy: LossyProxy, start_broker: StartBroker
) -> None:
    run(proxy, start_broker, kills=40, records=1_000, losses=30)
