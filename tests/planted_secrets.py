"""Edge: searches the whole test run for the passwords that its tests plant.

Tests plant passwords, keys and tokens that contain `MARK`. It must not appear in

- the output of our processes: logs, error messages and results on standard output and error,
- the arguments of processes, which other users of a machine can list,
- answers to DescribeConfigs,
- errors that tests expect by `pytest.raises`, and the captured output of tests.

`tests/watched/sitecustomize.py` starts the search in each Python process of the run. A process
writes its findings to a file of its own, in the folder that the environment names. If there is such
a file at the end of the run, the run fails.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

MARK: Final = "s3cret"
FOLDER: Final = "OTTLA_TEST_SECRETS"
FOREIGN: Final = frozenset({"java", "keytool", "openssl", "sslyze"})
"""Programs of others, which take passwords as arguments only."""
STARTS: Final = {"subprocess.Popen": 1, "os.exec": 1, "os.posix_spawn": 1}
"""Audit events of a started process, and the place of its arguments."""
_SHOWN: Final = 300


def report(place: str, text: str) -> None:
    """Write a file that lets the run fail."""
    import traceback  # Here, because each process of the run would import it.

    at = text.find(MARK)
    shown = text[max(at - _SHOWN, 0) : at + _SHOWN]
    stack = "".join(traceback.format_stack(limit=12)[:-1])
    with Path(os.environ[FOLDER], f"{os.getpid()}.found").open("a", encoding="utf-8") as file:
        file.write(f"{place} of {sys.argv[:4]}: {shown}\n{stack}\n")


def check(place: str, *values: object) -> None:
    """Report the first of some values whose text contains the mark."""
    for value in values:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        text = value if isinstance(value, str) else repr(value)
        if MARK in text:
            report(place, text)
            return


class WatchedStream(io.TextIOWrapper):
    """A standard stream of a process. It searches across the bounds of writes."""

    _last = ""

    def write(self, text: str) -> int:
        seen = self._last + text
        if MARK in seen:
            report(self.name, seen)
        self._last = seen[1 - len(MARK) :]
        return super().write(text)


def _watched(stream: Any) -> WatchedStream:
    return WatchedStream(
        stream.detach(),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    place = STARTS.get(event)
    if place is None:
        return
    words = arguments[place]
    program = words if isinstance(words, str | bytes | os.PathLike) else next(iter(words), "")
    if Path(os.fsdecode(program)).name not in FOREIGN:
        check("arguments", words)


def watch_streams() -> None:
    """Search the standard output and error of this process."""
    for name in ("stdout", "stderr"):
        # Python has no object for a stream that the parent closed.
        if (stream := getattr(sys, name)) is not None:
            setattr(sys, name, _watched(stream))
    vars(sys).update(__stdout__=sys.stdout, __stderr__=sys.stderr)
    note_process()


def note_process() -> None:
    """Count this process as one whose output is searched."""
    if FOLDER in os.environ:
        Path(os.environ[FOLDER], f"{os.getpid()}.watched").touch()


def watch_arguments() -> None:
    """Search the arguments of the processes that this process starts."""
    sys.addaudithook(_audit)


def watch_configs() -> None:
    """Search the configs that this process sends or receives in answers to DescribeConfigs."""
    from kafkawire.messages import describe_configs

    for kind in (
        describe_configs.DescribeConfigsResourceResult,
        describe_configs.DescribeConfigsSynonym,
        describe_configs.DescribeConfigsResult,
    ):
        _after_init(kind, lambda made: check("DescribeConfigs", made))


def watch_expected_errors() -> None:
    """Search the exceptions that tests expect, with their causes."""
    import pytest

    plain = pytest.RaisesExc.__exit__

    def search(self: Any, kind: Any, error: BaseException | None, trace: Any) -> bool:
        seen = error
        # An error may be the context of its own cause.
        searched: set[int] = set()
        while seen is not None and id(seen) not in searched:
            check("error", str(seen), repr(seen))
            searched.add(id(seen))
            # As a traceback shows them.
            shown = None if seen.__suppress_context__ else seen.__context__
            seen = seen.__cause__ or shown
        return plain(self, kind, error, trace)

    pytest.RaisesExc.__exit__ = search  # type: ignore[method-assign]


def _after_init(kind: Any, then: Callable[[object], None]) -> None:
    plain = kind.__init__

    def init(self: object, *args: object, **fields: object) -> None:
        plain(self, *args, **fields)
        then(self)

    kind.__init__ = init


def watch_tests() -> None:
    """Search everything but the streams in a process that runs tests."""
    if "_planted_secrets" not in sys.modules:
        watch_arguments()
    watch_configs()
    watch_expected_errors()


def begin() -> None:
    """Name a new folder in the environment, unless a process above has done so."""
    import tempfile

    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix=_own_prefix())
    folder = str(Path(__file__).with_name("watched"))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *paths]))


def end() -> None:
    """Remove the folder, in the process that made it."""
    import shutil

    folder = Path(os.environ[FOLDER])
    if folder.name.startswith(_own_prefix()):
        shutil.rmtree(folder)


def _own_prefix() -> str:
    return f"ottla-secrets-{os.getpid()}-"


def findings() -> list[str]:
    """Return the findings, one text per process."""
    return [path.read_text() for path in sorted(Path(os.environ[FOLDER]).glob("*.found"))]


def watched_count() -> int:
    """Return the number of processes whose output was searched."""
    return sum(1 for _ in Path(os.environ[FOLDER]).glob("*.watched"))
