"""Entry point of the `ottla` command (composition).

Ctrl-C during startup must not print a stack trace. Importing this module therefore loads nothing:
`main` loads the commands after it has installed its signal handler.
"""

import contextlib
import os
import signal
import sys
from typing import NoReturn

# The exit code that shells report for a process killed by SIGINT.
EXIT_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command that `sys.argv` names and end the process with its exit code."""
    # Python sets `sys.stdout` to None if its descriptor is closed (`>&-`), so no print can work.
    if sys.stdout is None:
        sys.exit("ottla: standard output is closed: redirect it to /dev/null to discard it.")
    handler = signal.getsignal(signal.SIGINT)
    # An ignored signal stays ignored, as nohup and background jobs expect.
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    import speedups.import_path

    speedups.import_path.prefer_our_packages()
    from ottla.cli.app import make_app

    app = make_app()
    signal.signal(signal.SIGINT, handler)
    try:
        app(prog_name="ottla")
    except KeyboardInterrupt:
        # The interrupt preceded the command, which would have handled it.
        _leave()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            _leave()
        raise


def _leave(*_: object) -> NoReturn:
    # `sys.exit` does not suffice. Python remembers an interrupt that hit code generated from text,
    # such as a dataclass's, and then dies of the signal at exit, ignoring the exit code.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
