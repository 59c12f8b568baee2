"""Sends parsed lines with our producer (composition).

It combines input, client and transfer statistics.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.cli.command_config import ClusterAccess
from ottla.cli.failure import CommandError
from ottla.cli.input_record import InputError, InputRecord, LineSplitter, ParseLine
from ottla.cli.record_source import read_chunks
from ottla.cli.transfer import Transfer
from ottla.client.client_config import Acks
from ottla.client.producer.producer import Producer
from ottla.client.producer.producer_batch import Delivery

Send = Callable[[InputRecord], Awaitable[Delivery]]
"""Accepts one record; raises InputError for a record that this producer cannot send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """Destination of the records and settings of the producer."""

    topic: str
    partition: int | None
    acks: Acks
    compression: str
    linger_ms: float
    batch_size_bytes: int


async def produce_lines(
    path: Path | None,
    parse: ParseLine,
    access: ClusterAccess,
    options: ProduceOptions,
    transfer: Transfer,
) -> None:
    """Send every line of `path` (standard input if None); return once all are acknowledged.

    Raises:
        CommandError: a line cannot be parsed, and the preceding lines were sent; or there is no
            line, and the chosen partition does not exist.
        OttlaError: a record was rejected.
    """
    async with Producer(
        access.bootstrap,
        acks=options.acks,
        compression=options.compression,
        linger_ms=options.linger_ms,
        batch_size_bytes=options.batch_size_bytes,
        **access.security,
    ) as producer:

        def send(record: InputRecord) -> Awaitable[Delivery]:
            return producer.send(
                options.topic,
                record.value,
                key=record.key,
                partition=options.partition if record.partition is None else record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )

        await send_lines(path, parse, send, producer.flush, transfer)
        if options.partition is not None and transfer.record_count == 0:
            # No record was refused because of it.
            await _require_partition(producer, TopicPartition(options.topic, options.partition))


async def _require_partition(producer: Producer, place: TopicPartition) -> None:
    existing = await producer.partitions(place.topic)
    if place.partition not in existing:
        raise CommandError(
            f"{place} does not exist: {place.topic} has {len(existing)} partitions, numbered "
            "from 0."
        )


async def send_lines(
    path: Path | None,
    parse: ParseLine,
    send: Send,
    flush: Callable[[], Awaitable[None]],
    transfer: Transfer,
) -> None:
    """Send every line of `path` (standard input if None), then flush.

    Raises:
        CommandError: a line cannot be parsed or sent; the preceding lines were sent.
        OttlaError: a record was rejected.
    """
    sending = _Sending(send, parse, transfer)
    splitter = LineSplitter()
    # Closes the input at once, even if an invalid line ends the loop.
    async with aclosing(read_chunks(path)) as chunks:
        async for chunk in chunks:
            await sending.send_lines(sending.lines_of(splitter, chunk))
            transfer.advance(len(chunk))
    await sending.send_lines(list(splitter.finish()))
    await flush()
    sending.raise_failure()


MIN_OPEN: Final = 1_000
"""Number of deliveries to hold before the first look for outcomes among them."""


class _Sending:
    """Sends line by line; keeps the deliveries without an outcome and the first failure."""

    def __init__(self, send: Send, parse: ParseLine, transfer: Transfer) -> None:
        self._send = send
        self._parse = parse
        self._transfer = transfer
        self._failure: BaseException | None = None
        self._line_number = 0
        self._open: list[Delivery] = []
        self._max_open = MIN_OPEN

    def lines_of(self, splitter: LineSplitter, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes."""
        try:
            return splitter.feed(chunk)
        except InputError as error:
            raise CommandError(f"line {self._line_number + 1}: {error}.") from None

    async def send_lines(self, lines: list[bytes]) -> None:
        size_bytes = 0
        for line in lines:
            self._line_number += 1
            try:
                record = self._parse(line)
                self._open.append(await self._send(record))
            except InputError as error:
                raise CommandError(f"line {self._line_number}: {error}.") from None
            if len(self._open) >= self._max_open:
                self._drop_settled()
            size_bytes += len(record.key or b"") + len(record.value or b"")
        self._transfer.add(len(lines), size_bytes)
        self.raise_failure()

    def _drop_settled(self) -> None:
        # Not by callbacks: the loop would take longer to call them than to send the records.
        still_open = []
        for delivery in self._open:
            if not delivery.done():
                still_open.append(delivery)
            elif self._failure is None and not delivery.cancelled():
                self._failure = delivery.exception()
        self._open, self._max_open = still_open, MIN_OPEN + 2 * len(still_open)

    def raise_failure(self) -> None:
        """Raise the error of the first failed delivery, if any."""
        self._drop_settled()
        if self._failure is not None:
            raise self._failure
