"""Sends lines to the brokers that a coordinator lists, for `ottla produce` (composition)."""

from collections.abc import Awaitable
from pathlib import Path

from ottla.cli.input_record import InputError, InputRecord, ParseLine
from ottla.cli.old_groups import GroupsAccess
from ottla.cli.produce_lines import ProduceOptions, send_lines
from ottla.cli.transfer import Transfer
from ottla.client.producer.producer_batch import Delivery
from ottla.zookeeper.producer import ZooKeeperProducer


async def produce_old(
    path: Path | None,
    parse: ParseLine,
    access: GroupsAccess,
    options: ProduceOptions,
    transfer: Transfer,
) -> None:
    """Send every line of `path` (standard input if None); return once all are acknowledged.

    The producer chooses every partition, so `options` names none.

    Raises:
        CommandError: a line cannot be parsed, or names a partition; the preceding lines were sent.
        OttlaError: a record was rejected.
    """
    async with ZooKeeperProducer(
        access.coordinator,
        layout=access.layout,
        coordinator_login=access.login_file,
        acks=options.acks,
        compression=options.compression,
        linger_ms=options.linger_ms,
        batch_size_bytes=options.batch_size_bytes,
        **access.security,
    ) as producer:

        def send(record: InputRecord) -> Awaitable[Delivery]:
            if record.partition is not None:
                raise InputError("with --coordinator the producer chooses the partition")
            return producer.send(
                options.topic,
                record.value,
                key=record.key,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )

        await send_lines(path, parse, send, producer.flush, transfer)
