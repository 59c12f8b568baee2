"""Search and live tail of records (edge)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from kafkawire.units import MIB
from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import OttlaError
from ottla.client.record import ConsumerRecord
from ottla.console.pages.live_pages import topic_of
from ottla.console.pages.page import MissingError, Page
from ottla.console.records.found_record import Excerpt, FoundRecord, found_record
from ottla.console.records.payload import Form, Payload, payload_of, shown_bytes_of
from ottla.console.records.query import LIMITS, RecordQuery, Start, parse_record_query
from ottla.console.records.reader import BusyError, SearchResult, partitions_of
from ottla.console.web.console import Console
from ottla.console.web.event_stream import KEEP_ALIVE, Events, event

TAIL_INTERVAL_S: Final = 0.25
TAIL_BATCH_RECORDS: Final = 5_000
TAIL_BATCH_BYTES: Final = 2 * MIB
"""Number of records, and their size, per interval.

A topic that is faster twice in a row loses the others from view. The consumer returns
more than this size at once, so that a larger batch shows a faster topic.
"""
MAX_TAIL_ROWS: Final = 50
"""Number of records that one event shows; the page counts the others."""
TAIL_QUIET_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """A record as a page shows it."""

    record: FoundRecord
    key: Payload
    value: Payload
    headers: tuple[tuple[str, Payload], ...]


def record_routes(console: Console) -> list[BaseRoute]:
    """Return the routes of the search and of the tail."""
    return [Route("/records", _Records(console).respond), Route("/tail", _Tail(console))]


def record_rows(records: Sequence[FoundRecord], form: Form) -> list[RecordRow]:
    """Return records with their bytes in a readable form, as far as a page has room."""
    max_bytes = shown_bytes_of(
        [each.size_bytes for record in records for each in record.excerpts()]
    )

    def shown(excerpt: Excerpt) -> Payload:
        return payload_of(excerpt.data, form, max_bytes, excerpt.size_bytes)

    return [
        RecordRow(
            record=record,
            key=shown(record.key),
            value=shown(record.value),
            headers=tuple((name, shown(value)) for name, value in record.headers),
        )
        for record in records
    ]


class TailPace:
    """Decides when a tail skips records: not for a burst that the next interval catches up with."""

    def __init__(self) -> None:
        self._was_behind = False

    def has_to_skip(self, consumer: Consumer, batch: Sequence[ConsumerRecord]) -> bool:
        """Whether a tail that has read `batch` in this interval has to skip records to keep up."""
        was_behind = self._was_behind
        self._was_behind = _is_behind(consumer, batch)
        return was_behind and self._was_behind


def _is_behind(consumer: Consumer, batch: Sequence[ConsumerRecord]) -> bool:
    if len(batch) == TAIL_BATCH_RECORDS:
        return True
    size_bytes = sum(len(record.key or b"") + len(record.value or b"") for record in batch)
    return size_bytes >= TAIL_BATCH_BYTES and any(
        consumer.lag(each) for each in consumer.assignment()
    )


class _Records:
    def __init__(self, console: Console) -> None:
        self._console = console

    async def respond(self, request: Request) -> Response:
        parameters = dict(request.query_params)
        topic = topic_of(await self._console.observed(), parameters.get("topic", ""))
        problem, result, form = "", SearchResult(), Form.AUTO
        is_tail = parameters.get("mode") == "tail"
        try:
            query = parse_record_query(topic.name, parameters)
            form = query.form
            if not is_tail:
                result = await self._console.readers.search(await self._console.admin(), query)
        except (ValueError, OttlaError, BusyError) as error:
            problem = str(error)
        page = Page(
            title=topic.name,
            section="topics",
            template="records.html",
            values={
                "topic": topic,
                "parameters": parameters,
                "result": result,
                "rows": record_rows(result.records, form),
                "problem": problem,
                "is_tail": is_tail and not problem,
                "starts": list(Start),
                "forms": list(Form),
                "limits": LIMITS,
                "query_string": request.url.query,
            },
        )
        return self._console.respond(request, page)


class _Tail:
    """New records of a topic, in events of rows for the table."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parameters = dict(Request(scope).query_params)
        stream = self._console.streams.answer(lambda: self._events(parameters))
        await stream(scope, receive, send)

    async def _events(self, parameters: Mapping[str, str]) -> Events:
        try:
            topic = topic_of(await self._console.observed(), parameters.get("topic", ""))
            query = parse_record_query(topic.name, parameters)
            async with self._console.readers.open() as consumer:
                consumer.assign(await partitions_of(consumer, query))
                await consumer.seek_to_end()
                yield event("begun", "")
                pace = TailPace()
                while True:
                    batch = await consumer.fetch_batch(TAIL_BATCH_RECORDS, TAIL_QUIET_MS)
                    is_skipping = pace.has_to_skip(consumer, batch)
                    yield self._rows(batch, query, is_skipping) if batch else KEEP_ALIVE
                    # Large records would otherwise stay in memory until the next ones arrive.
                    del batch
                    if is_skipping:
                        await consumer.seek_to_end()
                    self._console.collector.show()
                    # The pause bounds the number of events; records collect meanwhile.
                    await asyncio.sleep(TAIL_INTERVAL_S)
        except (ValueError, OttlaError, BusyError, MissingError) as error:
            yield event("failed", str(error))

    def _rows(
        self, batch: Sequence[ConsumerRecord], query: RecordQuery, is_skipping: bool
    ) -> bytes:
        found = [record for record in batch if query.matches(record)]
        shown = [found_record(record) for record in found[-MAX_TAIL_ROWS:][::-1]]
        rows = self._console.renderer.render(
            "record_rows.html", {"rows": record_rows(shown, query.form)}
        )
        return event(
            "records",
            {
                "rows": rows,
                "read": len(batch),
                "matched": len(found),
                "is_cut": is_skipping or len(shown) < len(found),
            },
        )
