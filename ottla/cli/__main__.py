"""Entry point of the `ottla` command (composition).

Ctrl-C during startup must not print a stack trace. Importing this module therefore loads nothing:
`main` loads the commands after it has installed its signal handler.
"""

import atexit
import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

# The exit code that shells report for a process killed by SIGINT.
EXIT_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command that `sys.argv` names and end the process with its exit code."""
    # Python sets `sys.stdout` to None if its descriptor is closed (`>&-`), so no print can work.
    if sys.stdout is None:
        sys.exit("ottla: standard output is closed: redirect it to /dev/null to discard it.")
    _occupy_standard_descriptors()
    # A locale without UTF-8 has no bytes for some names: they are escaped, as on standard error.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = signal.getsignal(signal.SIGINT)
    # An ignored signal stays ignored, as nohup and background jobs expect.
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    import speedups.import_path

    speedups.import_path.prefer_our_packages()
    from monitoring.log_lines import discard_unwritable
    from ottla.cli.app import make_app

    atexit.register(discard_unwritable)
    app = make_app()
    try:
        # Within this block: an interrupt that came during the call takes effect at its end.
        signal.signal(signal.SIGINT, handler)
        _run(app)
    except KeyboardInterrupt:
        # The interrupt preceded the command, which would have handled it.
        _leave()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            _leave()
        raise
    finally:
        # Nor must Ctrl-C print a stack trace while the interpreter ends.
        if handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, _leave)


def _run(app: Callable[..., object]) -> None:
    """Run the application; its commands handle errors of output, but a help page does not."""
    from ottla.cli.failure import EXIT_BROKEN_PIPE

    try:
        app(prog_name="ottla")
    except SystemExit as end:
        # typer has silenced the output, but has chosen the exit code of a failure.
        if isinstance(end.__context__, BrokenPipeError):
            sys.exit(EXIT_BROKEN_PIPE)
        raise
    except OSError as error:
        sys.exit(f"ottla: {error.strerror or error}")


def _occupy_standard_descriptors() -> None:
    """Put the null device where the parent closed standard input or standard error.

    A segment file or a socket would get that descriptor otherwise, and with it the last words of
    the interpreter or of a C library. Without standard error, messages would go to standard output.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is this one. Standard input is None then, and reads fail.
            os.set_inheritable(os.open(os.devnull, os.O_WRONLY), True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding=sys.stdout.encoding, errors="backslashreplace")


def _leave(*_: object) -> NoReturn:
    # `sys.exit` does not suffice. Python remembers an interrupt that hit code generated from text,
    # such as a dataclass's, and then dies of the signal at exit, ignoring the exit code.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
