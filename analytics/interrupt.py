"""Ctrl-C while Spark starts or runs, which must also end the processes that Spark started (edge).

Spark shields its JVM from the signal. A running JVM exits when its standard input ends. A JVM that
is still starting does not: it waits forever for the deleted file into which it writes its port.
"""

import logging
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, Self

GRACE_S: Final = 1.0
"""Time for the JVM to delete its temporary files."""
_POLL_INTERVAL_S: Final = 0.02
_PROCESSES: Final = Path("/proc")


class InterruptGuard:
    """A block that ends its child processes on an interrupt; processes from before it keep running.

    The block then raises KeyboardInterrupt, even if Spark turned the interrupt into another error.
    Outside the main thread there are no signals, and the guard does nothing.
    """

    def __init__(self) -> None:
        self._is_interrupted = False
        self._has_signals = threading.current_thread() is threading.main_thread()
        self._previous = signal.getsignal(signal.SIGINT)
        # An audit under nohup must ignore the signal.
        self._handler = signal.SIG_IGN if self._previous is signal.SIG_IGN else self._on_interrupt
        self._before = _descendants(os.getpid())

    def __enter__(self) -> Self:
        # py4j logs an interrupted call with its traceback, in the root logger.
        logging.getLogger().addFilter(_is_no_interrupt)
        self.renew()
        return self

    def renew(self) -> None:
        """Install the handler again, after Spark has replaced it during its start."""
        # Spark's own handler calls the JVM, which may be busy.
        if self._has_signals:
            signal.signal(signal.SIGINT, self._handler)

    def __exit__(self, kind: type[BaseException] | None, *_exception: object) -> None:
        logging.getLogger().removeFilter(_is_no_interrupt)
        if not self._has_signals:
            return
        # Between Spark's start and `renew`, Spark's handler raises KeyboardInterrupt too.
        is_interrupted = self._is_interrupted or kind is KeyboardInterrupt
        if is_interrupted:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _end(_descendants(os.getpid()) - self._before)
        signal.signal(signal.SIGINT, self._previous)
        if is_interrupted:
            raise KeyboardInterrupt from None

    def _on_interrupt(self, _signal: int, _frame: FrameType | None) -> NoReturn:
        self._is_interrupted = True
        raise KeyboardInterrupt


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.exc_info is None or record.exc_info[0] is not KeyboardInterrupt


def _end(processes: set[int]) -> None:
    _signal(processes, signal.SIGTERM)
    deadline_s = time.monotonic() + GRACE_S
    while (left := set(filter(_is_alive, processes))) and time.monotonic() < deadline_s:
        time.sleep(_POLL_INTERVAL_S)
    _signal(left, signal.SIGKILL)


def _signal(processes: set[int], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue


def _descendants(process: int) -> set[int]:
    """Return all descendants of `process`; none on a system without /proc."""
    children: dict[int, list[int]] = {}
    for entry in _PROCESSES.glob("[0-9]*"):
        if (stat := _stat(int(entry.name))) is not None:
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found: set[int] = set()
    todo = [process]
    while todo:
        new = children.get(todo.pop(), [])
        found.update(new)
        todo += new
    return found


def _is_alive(process: int) -> bool:
    stat = _stat(process)
    return stat is not None and stat[0] not in "ZX"


def _stat(process: int) -> list[str] | None:
    """Return the state, parent and further fields of a process, or None. Source: proc(5)."""
    try:
        return (_PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
