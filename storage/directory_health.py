"""Whether a log dir still works (decision module; the event apart, no I/O).

Three states. *Working*. *Full*: nothing is appended, all else goes on, and so does appending once
there is space again. *Offline*: one other OSError is enough, as a disk that failed once is not
trusted again before a restart; the logs of the dir refuse all work from then on. A want of file
descriptors, or a name that is too long, is not the disk's failure. Other dirs go on in any case.
Source: KIP-112, but for the state in between, which Kafka does not have (ADR 0028).
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

log = structlog.get_logger()

_T = TypeVar("_T")


class DirectoryHealth:
    """The state of one log dir, shared by all logs in it; any thread may change it.

    `on_offline` is called once, `on_full` each time that state begins: in the thread that met the
    failure and within the call that did.
    """

    def __init__(
        self,
        path: Path,
        on_offline: Callable[[Path], None] = lambda _path: None,
        on_full: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self.failure: str | None = None
        """Why the dir is offline; None while it works."""
        self.refusal: str | None = None
        """Why nothing may be appended, as the dir is offline or full; None while one may."""
        self.damage: dict[Path, CorruptLogError] = {}
        """Segments that are damaged, with the first damage that was met in each."""
        self._on_offline = on_offline
        self._on_full = on_full

    @property
    def is_full(self) -> bool:
        """Whether the dir works but for want of space."""
        return self.refusal is not None and self.failure is None

    def check(self) -> None:
        """Do nothing while the dir works, be it full or not.

        Raises:
            LogDirOfflineError: it does not.
        """
        if self.failure is not None:
            raise LogDirOfflineError(self.path, self.failure)

    def check_writable(self) -> None:
        """Do nothing while one may append.

        Raises:
            LogDirOfflineError: the dir does not work.
            LogDirFullError: there is no space.
        """
        self.check()
        if self.refusal is not None:
            raise LogDirFullError(self.path, self.refusal)

    def fail(self, error: OSError) -> StorageError:
        """Draw the consequences of `error`; return what to raise."""
        if error.errno == errno.ENAMETOOLONG:
            return StorageError(str(error))
        if error.errno in OUT_OF_FILES_ERRORS:
            return OutOfFilesError(self.path, str(error))
        if error.errno in FULL_ERRORS and self.failure is None:
            self.note_full(str(error))
            return LogDirFullError(self.path, str(error))
        return self.give_up(str(error))

    def give_up(self, reason: str) -> LogDirOfflineError:
        """Take the dir offline; return what to raise."""
        if self.failure is None:
            self.failure = self.refusal = reason
            log.error("log_dir.offline", path=str(self.path), error=reason)
            self._on_offline(self.path)
        return LogDirOfflineError(self.path, reason)

    def note_full(self, reason: str) -> None:
        """Let nothing be appended until `note_space`."""
        if self.refusal is None:
            self.refusal = reason
            log.error("log_dir.full", path=str(self.path), error=reason)
            self._on_full()

    def note_space(self) -> None:
        """Let logs be appended to again, as there is space."""
        if self.is_full:
            self.refusal = None
            log.warning("log_dir.resumed", path=str(self.path))

    def note_damage(self, error: CorruptLogError) -> None:
        """Name the damage, once per segment however often it is met."""
        if error.path not in self.damage:
            self.damage[error.path] = error
            log.error("log.damaged", path=str(error.path), error=str(error))


@contextmanager
def offline_on_failure(health: DirectoryHealth) -> Iterator[None]:
    """Draw the consequences if the disk fails within, and refuse if it did before."""
    health.check()
    try:
        yield
    except OSError as error:
        raise health.fail(error) from error


def for_each(items: Iterable[_T], work: Callable[[_T], None]) -> None:
    """Do `work` for all of `items`, also when it fails for one of them.

    Raises:
        StorageError: the first failure, when all have had their turn.
    """
    failure: StorageError | None = None
    for each in items:
        try:
            work(each)
        except StorageError as error:
            failure = failure or error
    if failure is not None:
        raise failure
