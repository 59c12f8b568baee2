"""Whether a log dir still works (decision module; the event apart, no I/O).

One OSError is enough: a disk that failed once is not trusted again before a restart. The logs of
the dir refuse all work from then on, those of other dirs go on. Source: KIP-112.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from storage.errors import LogDirOfflineError

log = structlog.get_logger()


class DirectoryHealth:
    """The state of one log dir, shared by all logs in it.

    `on_offline` is called once, in the thread that met the failure and within the call that did.
    """

    def __init__(self, path: Path, on_offline: Callable[[Path], None] = lambda _path: None) -> None:
        self.path = path
        self.failure: str | None = None
        """Why the dir is offline; None while it works."""
        self._on_offline = on_offline

    def check(self) -> None:
        """Do nothing while the dir works.

        Raises:
            LogDirOfflineError: it does not.
        """
        if self.failure is not None:
            raise LogDirOfflineError(self.path, self.failure)

    def fail(self, error: OSError) -> LogDirOfflineError:
        """Take the dir offline because of `error`; return what to raise."""
        if self.failure is None:
            self.failure = str(error)
            log.error("log_dir.offline", path=str(self.path), error=str(error))
            self._on_offline(self.path)
        return LogDirOfflineError(self.path, str(error))


@contextmanager
def offline_on_failure(health: DirectoryHealth) -> Iterator[None]:
    """Take the log dir offline if the disk fails within, and refuse if it did before."""
    health.check()
    try:
        yield
    except OSError as error:
        raise health.fail(error) from error
