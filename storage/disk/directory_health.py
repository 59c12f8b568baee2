"""The health of a log dir (decision).

A log dir is in one of three states. *Working*. *Full*: appends are refused until there is space
again, everything else continues. *Offline*: a single other OSError is enough, because a disk that
failed once is not trusted again before a restart; the logs of the dir refuse all work from then on.
A lack of file descriptors, or a name that is too long, is not a failure of the disk. Other log dirs
are never affected. Source: KIP-112, except for the full state, which Kafka lacks (ADR 0028).
"""

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import structlog

from storage.errors import (
    CorruptLogError,
    LogDirFullError,
    LogDirOfflineError,
    OutOfFilesError,
    StorageError,
)

FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
OUT_OF_FILES_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
PASSING_ERRORS: Final = FULL_ERRORS | OUT_OF_FILES_ERRORS

log = structlog.get_logger(__name__)

_T = TypeVar("_T")


class DirectoryHealth:
    """The state of one log dir, shared by all logs in it; any thread may change it.

    `on_offline` is called once, and before it `on_broken` if the disk failed; `on_full` is called
    each time the dir becomes full. All run synchronously in the thread that met the failure.
    """

    def __init__(
        self,
        path: Path,
        on_offline: Callable[[Path], None] = lambda _path: None,
        on_full: Callable[[], None] = lambda: None,
        on_broken: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self.failure: str | None = None
        """Reason why the dir is offline; None while it works."""
        self.refusal: str | None = None
        """Reason why appends are refused (offline or full); None while they are accepted."""
        self.damage: dict[Path, CorruptLogError] = {}
        """Damaged segments, each with the first damage found in it."""
        self._on_offline = on_offline
        self._on_full = on_full
        self._on_broken = on_broken

    @property
    def is_full(self) -> bool:
        """Whether the dir is full and not offline."""
        return self.refusal is not None and self.failure is None

    def check(self) -> None:
        """Check that the dir is not offline; it may be full.

        Raises:
            LogDirOfflineError: the dir is offline.
        """
        if self.failure is not None:
            raise LogDirOfflineError(self.path, self.failure)

    def check_writable(self) -> None:
        """Check that the dir accepts appends.

        Raises:
            LogDirOfflineError: the dir is offline.
            LogDirFullError: there is no space.
        """
        self.check()
        if self.refusal is not None:
            raise LogDirFullError(self.path, self.refusal)

    def fail(self, error: OSError) -> StorageError:
        """Update the state after `error`; return the error to raise."""
        if error.errno == errno.ENAMETOOLONG:
            return StorageError(str(error))
        if error.errno in OUT_OF_FILES_ERRORS:
            return OutOfFilesError(self.path, str(error))
        if error.errno in FULL_ERRORS and self.failure is None:
            self.note_full(str(error))
            return LogDirFullError(self.path, str(error))
        return self.give_up(str(error), is_broken=True)

    def give_up(self, reason: str, *, is_broken: bool = False) -> LogDirOfflineError:
        """Take the dir offline; return the error to raise.

        `is_broken` means that the disk failed, so that earlier writes may be lost.
        """
        if self.failure is None:
            self.failure = self.refusal = reason
            log.error("log_dir.offline", path=str(self.path), error=reason)
            if is_broken:
                self._on_broken()
            self._on_offline(self.path)
        return LogDirOfflineError(self.path, reason)

    def note_full(self, reason: str) -> None:
        """Refuse appends until `note_space`."""
        if self.refusal is None:
            self.refusal = reason
            log.error("log_dir.full", path=str(self.path), error=reason)
            self._on_full()

    def note_space(self) -> None:
        """Accept appends again after the dir was full."""
        if self.is_full:
            self.refusal = None
            # Another thread may have taken the dir offline meanwhile.
            self.refusal = self.failure
            log.warning("log_dir.resumed", path=str(self.path))

    def note_damage(self, error: CorruptLogError) -> None:
        """Record and log the damage, once per segment."""
        if error.path not in self.damage:
            self.damage[error.path] = error
            log.error("log.damaged", path=str(error.path), error=str(error))


@contextmanager
def offline_on_failure(health: DirectoryHealth) -> Iterator[None]:
    """Translate an OSError of the body to a StorageError; raise at once if the dir is offline."""
    health.check()
    try:
        yield
    except OSError as error:
        raise health.fail(error) from error


def for_each(items: Iterable[_T], work: Callable[[_T], None]) -> None:
    """Call `work` for each of `items`, even if a call fails.

    Raises:
        StorageError: the first failure, raised after all calls.
    """
    failure: StorageError | None = None
    for each in items:
        try:
            work(each)
        except StorageError as error:
            failure = failure or error
    if failure is not None:
        raise failure
