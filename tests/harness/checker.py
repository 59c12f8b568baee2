"""Checks a history against the final logs. Pure: values in, anomalies out.

The classes are the ones of Jepsen's queue checkers that apply to single records: a lost write, a
write at another offset than acknowledged, a record that no producer sent, records of one producer
out of order, and a read that contradicts the log. A producer must keep the order unless it
guarantees none. A duplicate is no anomaly here, but counted: `sequences` checks whether an
idempotent producer may have duplicates.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkawire.ids import TopicPartition
from tests.harness.history import History, Item, Seen, decode

Logs = Mapping[TopicPartition, Sequence[Seen]]


class Kind(enum.Enum):
    """Kinds of anomalies."""

    LOST = "an acknowledged record is not in the log"
    MOVED = "an acknowledged record is not at its acknowledged offset"
    INVENTED = "the log holds a record that no producer sent there"
    DISORDERED = "records of one producer are not in the order of sending"
    UNSTEADY = "offsets of a log do not grow"
    CONTRADICTED = "a consumer has read a record that the log does not hold at that offset"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One violation."""

    kind: Kind
    partition: TopicPartition
    detail: str

    def __str__(self) -> str:
        return f"{self.partition}: {self.kind.value}: {self.detail}"


def check(history: History, logs: Logs) -> list[Anomaly]:
    """Return all anomalies; `logs` are complete logs, from the first record to the end."""
    return [
        *_check_acknowledged(history, logs),
        *(found for where, log in logs.items() for found in _check_log(history, where, log)),
        *_check_readers(history, logs),
    ]


def duplicate_count(logs: Logs) -> int:
    """Return the number of surplus copies of records."""
    return sum(len(log) - len({seen.value for seen in log}) for log in logs.values())


def _check_acknowledged(history: History, logs: Logs) -> Iterator[Anomaly]:
    values = {where: {seen.offset: seen.value for seen in log} for where, log in logs.items()}
    present = {where: set(found.values()) for where, found in values.items()}
    for item, offset in history.acknowledged.items():
        value = item.encode()
        if value not in present.get(item.partition, ()):
            yield Anomaly(Kind.LOST, item.partition, f"{_name(item)}, acknowledged at {offset}")
        elif offset is not None and values[item.partition].get(offset) != value:
            yield Anomaly(Kind.MOVED, item.partition, f"{_name(item)}, acknowledged at {offset}")


def _check_log(history: History, where: TopicPartition, log: Sequence[Seen]) -> Iterator[Anomaly]:
    newest: dict[str, int] = {}
    known: set[bytes] = set()
    previous_offset = -1
    for seen in log:
        if seen.offset <= previous_offset:
            yield Anomaly(Kind.UNSTEADY, where, f"{seen.offset} after {previous_offset}")
        previous_offset = seen.offset
        item = decode(seen.value)
        if item is None or item not in history.sent or item.partition != where:
            yield Anomaly(Kind.INVENTED, where, f"{seen.value[:40]!r} at {seen.offset}")
            continue
        # A repeated batch appears again later; only first appearances determine the order.
        if seen.value in known:
            continue
        known.add(seen.value)
        is_late = item.number < newest.get(item.producer, -1)
        if is_late and item.producer not in history.unordered:
            detail = f"{_name(item)} at {seen.offset} after number {newest[item.producer]}"
            yield Anomaly(Kind.DISORDERED, where, detail)
        newest[item.producer] = max(item.number, newest.get(item.producer, -1))


def _check_readers(history: History, logs: Logs) -> Iterator[Anomaly]:
    for where, read in history.read.items():
        values = {seen.offset: seen.value for seen in logs.get(where, ())}
        for seen in read:
            if values.get(seen.offset) != seen.value:
                detail = f"{seen.value[:40]!r} at {seen.offset}"
                yield Anomaly(Kind.CONTRADICTED, where, detail)


def _name(item: Item) -> str:
    return f"number {item.number} of {item.producer}"
