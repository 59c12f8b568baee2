"""Shared parts of the tests for duplicates: wait for progress, read all records, check them.

The check: every record is in the log once, and the records of one writer are in order.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import ottla
from tests.interop.duplicates.lossy_proxy import LossyProxy
from tests.interop.duplicates.writers import Writer

PATIENCE_S: Final = 90.0
LOOK_S: Final = 0.01
READ_TIMEOUT_S: Final = 60.0

Values = dict[int, list[bytes]]
"""Values by partition, without their padding."""


def wait_until(condition: Callable[[], bool], writers: Sequence[Writer]) -> None:
    """Wait until `condition` holds.

    Raises:
        AssertionError: a writer has failed, or the wait takes too long.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert not any(writer.errors for writer in writers), [each.errors[:3] for each in writers]
        counts = {each.name: (each.sent, each.acknowledged) for each in writers}
        assert time.monotonic() < deadline, f"sent and acknowledged: {counts}"
        time.sleep(LOOK_S)


def progress(
    writers: Sequence[Writer], proxies: Sequence[LossyProxy], *, records: int, losses: int
) -> None:
    """Wait until each writer has `records` more acknowledgements and `losses` more were lost."""
    before = {writer: writer.acknowledged for writer in writers}
    lost_before = sum(proxy.lost_count for proxy in proxies)
    wait_until(
        lambda: (
            sum(proxy.lost_count for proxy in proxies) >= lost_before + losses
            and all(writer.acknowledged >= count + records for writer, count in before.items())
        ),
        writers,
    )


async def read_values(address: str, topic: str) -> Values:
    """Return all values in `topic`, by partition."""
    values: defaultdict[int, list[bytes]] = defaultdict(list)
    async with (
        ottla.Consumer(address, auto_offset_reset="earliest") as consumer,
        asyncio.timeout(READ_TIMEOUT_S),
    ):
        ends = await consumer.end_offsets(await consumer.assign_topics(topic))
        left = {partition for partition, end in ends.items() if end > 0}
        while left:
            for partition, records in (await consumer.fetch_by_partition()).items():
                for record in records:
                    text, _, _ = (record.value or b"").rpartition(b":")
                    values[partition.partition].append(text)
                if records[-1].offset + 1 >= ends[partition]:
                    left.discard(partition)
    return values


def check_once(values: Values, writers: Sequence[Writer]) -> None:
    """Check that all records of the writers are there once, and in order."""
    counts = Counter(value for each in values.values() for value in each)
    sent = {b"%s:%d" % (w.name.encode(), n) for w in writers for n in range(w.sent)}
    assert sent, "no record was sent, so this proves nothing"
    missing = sent - set(counts)
    assert not missing, f"{len(missing)} of {len(sent)} records are missing: {sorted(missing)[:3]}"
    twice = sorted(value for value, count in counts.items() if count > 1)
    assert not twice, f"{len(twice)} records are duplicated: {twice[:3]}"
    assert set(counts) == sent
    for partition, each in values.items():
        numbers: defaultdict[bytes, list[int]] = defaultdict(list)
        for value in each:
            name, _, number = value.partition(b":")
            numbers[name].append(int(number))
        for name, found in numbers.items():
            assert found == sorted(found), f"{name!r} is out of order in partition {partition}"
