"""An executor without threads, so that calls have an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class InTurn:
    """Executor that runs each call at once; replaces `ThreadPoolExecutor` where that has `map`."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
        return list(map(work, things))
