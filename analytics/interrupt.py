"""Edge: Ctrl-C while Spark starts or runs ends what it has started, too.

Spark keeps the signal from its JVM. That ends when its standard input does, but not where it was
still starting: then the file into which it writes its port is gone, and it waits for good.
"""

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, Self

GRACE_S: Final = 1.0
"""How long the JVM may tidy up its temporary files."""
_LOOK_INTERVAL_S: Final = 0.02
_PROCESSES: Final = Path("/proc")


class InterruptGuard:
    """A block that leaves no process behind when it is interrupted; what ran before it goes on.

    The interrupt comes out of the block as KeyboardInterrupt, whatever Spark makes of it. Outside
    the main thread there are no signals, and it does nothing.
    """

    def __init__(self) -> None:
        self._is_interrupted = False
        self._has_signals = threading.current_thread() is threading.main_thread()
        self._previous = signal.getsignal(signal.SIGINT)
        # Who starts it with nohup wants it to go on.
        self._handler = signal.SIG_IGN if self._previous is signal.SIG_IGN else self._on_interrupt
        self._before = _descendants(os.getpid())

    def __enter__(self) -> Self:
        self.renew()
        return self

    def renew(self) -> None:
        """Listen again: once started, Spark listens itself, and asks a JVM that may be busy."""
        if self._has_signals:
            signal.signal(signal.SIGINT, self._handler)

    def __exit__(self, kind: type[BaseException] | None, *_exception: object) -> None:
        if not self._has_signals:
            return
        # Spark's handler raises it, too, between its start and `renew`.
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


def _end(processes: set[int]) -> None:
    _signal(processes, signal.SIGTERM)
    deadline_s = time.monotonic() + GRACE_S
    while (left := {each for each in processes if _lives(each)}) and time.monotonic() < deadline_s:
        time.sleep(_LOOK_INTERVAL_S)
    _signal(left, signal.SIGKILL)


def _signal(processes: set[int], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            continue


def _descendants(process: int) -> set[int]:
    """The processes that `process` started, and theirs; none where there is no /proc."""
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


def _lives(process: int) -> bool:
    stat = _stat(process)
    return stat is not None and stat[0] not in "ZX"


def _stat(process: int) -> list[str] | None:
    """State, parent and so on of a process; None when it is gone. Source: proc(5)."""
    try:
        return (_PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
