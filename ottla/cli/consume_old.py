"""Reads a topic as a member of a group in the coordinator, for `ottla consume` (composition)."""

import sys
from dataclasses import dataclass
from typing import Final

from ottla.cli.old_groups import GroupsAccess
from ottla.cli.output_record import WriteRecord, record_size_bytes
from ottla.cli.transfer import Transfer
from ottla.zookeeper.consumer import ZooKeeperConsumer
from ottla.zookeeper.settings import ResetWord

BATCH_RECORDS: Final = 5_000
POLL_TIMEOUT_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OldConsumeOptions:
    """Topics to read, or a regular expression that matches their names, and the group."""

    access: GroupsAccess
    topics: list[str]
    regex: str | None
    group: str
    reset: ResetWord
    max_records: int | None


async def consume_old(options: OldConsumeOptions, write: WriteRecord, transfer: Transfer) -> None:
    """Write records to standard output up to the limit, if there is one."""
    async with ZooKeeperConsumer(
        options.access.coordinator,
        group_id=options.group,
        layout=options.access.layout,
        coordinator_login=options.access.login_file,
        auto_offset_reset=options.reset,
        **options.access.security,
    ) as consumer:
        if options.regex is None:
            consumer.subscribe(options.topics)
        else:
            consumer.subscribe_matching(options.regex)
        left = options.max_records
        while left is None or left > 0:
            wanted = BATCH_RECORDS if left is None else min(BATCH_RECORDS, left)
            records = await consumer.fetch_batch(wanted, POLL_TIMEOUT_MS)
            sys.stdout.buffer.write(b"".join(map(write, records)))
            sys.stdout.buffer.flush()
            transfer.add(len(records), sum(map(record_size_bytes, records)))
            left = None if left is None else left - len(records)
