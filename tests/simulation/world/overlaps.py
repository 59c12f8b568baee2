"""Counts how often each operation runs during each kind of fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafkawire.apis import api_of
from kafkawire.exchange import Exchange
from tests.simulation.world.process import PROCESS, Process


class Overlaps:
    """Operations and faults of a world. A pair counts once, however long both run."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """Pairs of a fault and an operation that ran at the same time, by their names."""
        self.operation_counts: Counter[str] = Counter()
        self._last_number = 0
        self._operations: dict[int, tuple[str, Process | None]] = {}
        self._faults: dict[int, str] = {}

    def begin(self, operation: str) -> Callable[[], None]:
        """Note that the running process begins an operation; call the result when it ends."""
        self.operation_counts[operation] += 1
        self.counts.update((fault, operation) for fault in self._faults.values())
        number = self._next_number()
        self._operations[number] = (operation, PROCESS.get())
        return lambda: self._end(number)

    @contextmanager
    def during(self, fault: str) -> Iterator[None]:
        """Count the operations during a fault."""
        self._operations = {
            number: (operation, process)
            for number, (operation, process) in self._operations.items()
            if process is None or not process.is_dead
        }
        self.counts.update((fault, operation) for operation, _ in self._operations.values())
        number = self._next_number()
        self._faults[number] = fault
        try:
            yield
        finally:
            del self._faults[number]

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _end(self, number: int) -> None:
        self._operations.pop(number, None)

    def counted_requests(self) -> Callable[..., Any]:
        """Return a method for `Exchange.request` that counts each request as an operation."""
        real = Exchange.request

        def request(
            exchange: Exchange[Any],
            message: object,
            response_type: type[Any],
            on_response: Callable[[Any], None] | None,
            on_failure: Callable[[Any], None],
            **options: Any,
        ) -> Any:
            end = self.begin(api_of(response_type).name)

            def before(callback: Callable[[Any], None]) -> Callable[[Any], None]:
                def call(result: Any) -> None:
                    end()
                    callback(result)

                return call

            answered = None if on_response is None else before(on_response)
            try:
                parts = real(
                    exchange, message, response_type, answered, before(on_failure), **options
                )
            except BaseException:
                end()
                raise
            if on_response is None:
                end()
            return parts

        return request
