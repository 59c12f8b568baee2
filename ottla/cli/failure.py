"""Failures of commands and their exit codes (edge).

0  success                  1  failure; one sentence on standard error names the remedy
2  wrong usage              3  a check found an inconsistency
130                         interrupted by Ctrl-C
141                         broken pipe: the reader of standard output has exited
143                         terminated by SIGTERM; 129: by SIGHUP
"""

import functools
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import Final, NoReturn, ParamSpec, TypeVar

import typer

from ottla.cli.termination import Terminated, run_until_signal
from ottla.cli.text import shown

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_FOUND: Final = 3
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141

P = ParamSpec("P")
T = TypeVar("T")


class CommandError(Exception):
    """The command cannot continue; the message is one sentence that names the remedy.

    A note is the sentence for another part of the command, such as another topic.
    """

    def __init__(
        self, message: str, exit_code: int = EXIT_FAILED, notes: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.notes = tuple(notes)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Return `command` with its expected failures turned into one sentence and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except CommandError as error:
            for sentence in (str(error), *error.notes):
                complain(sentence)
            raise typer.Exit(error.exit_code) from None
        except Terminated as end:
            raise typer.Exit(end.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            raise typer.Exit(EXIT_BROKEN_PIPE) from None
        except OSError as error:
            complain(_os_error_text(error))
            raise typer.Exit(EXIT_FAILED) from None

    return run


def run_client(work: Coroutine[object, object, T]) -> T:
    """Run client work in an event loop of its own and return its result.

    Raises:
        CommandError: the client failed; the message is the client's.
        KeyboardInterrupt: Ctrl-C has cancelled the work, or SIGTERM or SIGHUP.
    """
    import logging

    from ottla.client.errors import ConfigurationError, OttlaError

    # Silences the client's log messages: the final error reports the failure to the user.
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    try:
        return run_until_signal(work)
    except ConfigurationError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    except OttlaError as error:
        raise CommandError(str(error), notes=getattr(error, "__notes__", ())) from error


def usage_error(message: str) -> NoReturn:
    """End the command because its arguments contradict each other."""
    raise CommandError(message, EXIT_USAGE)


def complain(message: str) -> None:
    """Write one sentence to standard error."""
    # The message may quote untrusted text: a topic's name, or a broker's error.
    sys.stderr.write(f"ottla: {shown(message)}\n")
    sys.stderr.flush()


def _os_error_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
