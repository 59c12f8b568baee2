"""The way into the `ottla` command. Composition: runs the command that was typed.

Who types Ctrl-C before there is a command wants silence, not a stack trace: so importing this
module loads nothing, and `main` loads the commands when it is ready for that.
"""

import contextlib
import os
import signal
import sys
from typing import NoReturn

# As every shell counts it.
EXIT_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command that `sys.argv` names; ends the process with its exit code."""
    # Python has none where the descriptor was closed (`>&-`); what is printed must go somewhere.
    if sys.stdout is None:
        sys.exit("ottla: standard output is closed: send it to /dev/null if it is not wanted.")
    handler = signal.getsignal(signal.SIGINT)
    # Who starts it with nohup wants it to go on.
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
        # Before the command began: it would have made something of it.
        _leave()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            _leave()
        raise


def _leave(*_: object) -> NoReturn:
    # Not by sys.exit: Python remembers an interrupt that hit the code of a dataclass in the making,
    # and at its end dies of the signal, whatever the exit code was to be.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
