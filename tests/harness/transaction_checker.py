"""Checks a history of transactions for anomalies, as Elle does. Pure: values in, anomalies out.

The offsets of a partition are the order of its versions, so the checker needs no search.
Dependencies between transactions follow from it: ww from an append to the next one of the same key,
wr from an append to a read of it.

Kafka promises less than serializability: sends of concurrent transactions interleave, which is G0,
and a reader sees each partition by itself, so that cycles with antidependencies (G2) are legal.
Illegal are G1a (an aborted record is read), G1b (a transaction is visible in part), G1c over wr
edges alone (information flows in a circle), lost and duplicated records, and diverging reads.

Source: Adya, Liskov and O'Neil (2000); Kingsbury and Alvaro, Elle (2020); Jepsen's tests.kafka.
"""

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tests.harness.transaction_history import (
    Key,
    Outcome,
    Read,
    Transaction,
    TransactionHistory,
    TransactionId,
    Value,
)


class Kind(enum.Enum):
    """Kinds of anomalies."""

    G0 = "transactions overwrite each other in a circle"
    G1A = "a record of an aborted transaction was read"
    G1B = "a committed transaction is visible only in part"
    G1C = "transactions have read each other's records in a circle"
    OWN_READ = "a transaction has read its own record before it was committed"
    LOST = "a record of a committed transaction is not in the final read"
    DUPLICATE = "a record occurs twice"
    MOVED = "a record is at another offset than acknowledged"
    INVENTED = "a record was read that no transaction has sent"
    DIVERGED = "two reads found different records at one offset"
    SKIPPED = "a reader skipped a visible record"
    DISORDERED = "a reader did not read in the order of offsets"


LEGAL = {Kind.G0}
"""Anomalies that Kafka allows."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One violation."""

    kind: Kind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.detail}"


def check(history: TransactionHistory) -> list[Anomaly]:
    """Return all anomalies, including legal ones; `violations` leaves those out."""
    index = _Index(history)
    return [
        *index.problems,
        *_check_final(history),
        *_check_reads(history, index),
        *_check_cycles(history, index),
    ]


def violations(history: TransactionHistory) -> list[Anomaly]:
    """Return the anomalies that Kafka does not allow."""
    return [each for each in check(history) if each.kind not in LEGAL]


class _Index:
    """The records of a history, by value and by place."""

    def __init__(self, history: TransactionHistory) -> None:
        self.problems: list[Anomaly] = []
        self.sender: dict[Value, Transaction] = {}
        self.acknowledged: dict[Value, int] = {}
        self.by_place: dict[tuple[Key, int], Value] = {}
        self.offsets: dict[Value, int] = {}
        for each in history.transactions:
            for append in each.appends:
                self.sender[append.value] = each
                if append.offset is not None:
                    self.acknowledged[append.value] = append.offset
        reads = [read for each in history.transactions for read in each.reads]
        for read in (*reads, *(read for final in history.final.values() for read in final)):
            self._add(read)

    def _add(self, read: Read) -> None:
        known = self.by_place.setdefault((read.key, read.offset), read.value)
        if known != read.value:
            detail = f"{read.key} offset {read.offset}: {known!r} and {read.value!r}"
            self.problems.append(Anomaly(Kind.DIVERGED, detail))
        before = self.offsets.setdefault(read.value, read.offset)
        if before != read.offset:
            detail = f"{read.value!r} at {before} and {read.offset} of {read.key}"
            self.problems.append(Anomaly(Kind.DUPLICATE, detail))
        told = self.acknowledged.get(read.value)
        if told is not None and told != read.offset:
            detail = f"{read.value!r} at {read.offset} of {read.key}, acknowledged at {told}"
            self.problems.append(Anomaly(Kind.MOVED, detail))


def _check_final(history: TransactionHistory) -> Iterator[Anomaly]:
    seen = {read.value for final in history.final.values() for read in final}
    for each in history.transactions:
        values = [append.value for append in each.appends]
        found = [value for value in values if value in seen]
        missing = [value for value in values if value not in seen]
        if each.outcome is Outcome.COMMITTED:
            for value in missing:
                yield Anomaly(Kind.LOST, f"{value!r} of transaction {each.number}")
        elif each.outcome is Outcome.UNKNOWN and found and missing:
            yield Anomaly(Kind.G1B, f"transaction {each.number}: {found} without {missing}")
    for key, final in history.final.items():
        yield from _check_order(final, f"the final read of {key}")


def _check_reads(history: TransactionHistory, index: _Index) -> Iterator[Anomaly]:
    finals = [("the final read", None, read) for each in history.final.values() for read in each]
    reads = [
        (f"transaction {each.number}", each, read)
        for each in history.transactions
        for read in each.reads
    ]
    reported: set[Value] = set()
    for reader, transaction, read in (*reads, *finals):
        sender = index.sender.get(read.value)
        if sender is None:
            yield Anomaly(Kind.INVENTED, f"{read.value!r} at {read.offset} of {read.key}")
        elif sender is transaction:
            yield Anomaly(Kind.OWN_READ, f"{reader} has read {read.value!r}")
        elif sender.outcome is Outcome.ABORTED and read.value not in reported:
            reported.add(read.value)
            yield Anomaly(Kind.G1A, f"{reader} has read {read.value!r} of {sender.number}")
    for each in history.transactions:
        yield from _check_range(each, history)


def _check_range(reader: Transaction, history: TransactionHistory) -> Iterator[Anomaly]:
    """Check that a reader has read every record between its two positions, in order."""
    by_key: dict[Key, list[Read]] = defaultdict(list)
    for read in reader.reads:
        by_key[read.key].append(read)
    for reads in by_key.values():
        yield from _check_order(reads, f"transaction {reader.number}")
    for key, end in reader.read_to.items():
        start = reader.read_from.get(key, 0)
        seen = {read.value for read in by_key[key]}
        for read in history.final.get(key, ()):
            if start <= read.offset < end and read.value not in seen:
                detail = f"transaction {reader.number} read {key} from {start} to {end} without "
                yield Anomaly(Kind.SKIPPED, f"{detail}{read.value!r} at {read.offset}")


def _check_order(reads: Iterable[Read], reader: str) -> Iterator[Anomaly]:
    previous = -1
    for read in reads:
        if read.offset <= previous:
            detail = f"{reader}: {read.offset} after {previous} of {read.key}"
            yield Anomaly(Kind.DISORDERED, detail)
        previous = read.offset


def _check_cycles(history: TransactionHistory, index: _Index) -> Iterator[Anomaly]:
    ww: dict[TransactionId, set[TransactionId]] = defaultdict(set)
    wr: dict[TransactionId, set[TransactionId]] = defaultdict(set)
    for final in history.final.values():
        writers = [index.sender[read.value] for read in final if read.value in index.sender]
        for first, second in pairwise(writers):
            if first is not second:
                ww[first.number].add(second.number)
    for each in history.transactions:
        # The reads of an aborted transaction had no effect that others could see.
        if each.outcome is Outcome.ABORTED:
            continue
        for read in each.reads:
            sender = index.sender.get(read.value)
            if sender is not None and sender is not each:
                wr[sender.number].add(each.number)
    for cycle in _cycles(wr):
        yield Anomaly(Kind.G1C, " -> ".join(map(str, cycle)))
    for cycle in _cycles(ww):
        yield Anomaly(Kind.G0, " -> ".join(map(str, cycle)))


def _cycles(
    edges: Mapping[TransactionId, set[TransactionId]],
) -> Iterator[list[TransactionId]]:
    """Yield the members of each strongly connected component with more than one (Tarjan)."""
    order: dict[TransactionId, int] = {}
    low: dict[TransactionId, int] = {}
    path: list[TransactionId] = []
    on_path: set[TransactionId] = set()
    for root in sorted(edges):
        if root in order:
            continue
        # By hand: a long run has chains far beyond Python's limit of recursion.
        work = [(root, iter(sorted(edges.get(root, ()))))]
        order[root] = low[root] = len(order)
        path.append(root)
        on_path.add(root)
        while work:
            node, left = work[-1]
            following = next(left, None)
            if following is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    component = path[path.index(node) :]
                    del path[-len(component) :]
                    on_path -= set(component)
                    if len(component) > 1:
                        yield component
            elif following not in order:
                order[following] = low[following] = len(order)
                path.append(following)
                on_path.add(following)
                work.append((following, iter(sorted(edges.get(following, ())))))
            elif following in on_path:
                low[node] = min(low[node], order[following])
