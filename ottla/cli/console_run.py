"""Runs the console in this process until a signal stops it (edge)."""

import asyncio
import os
import signal
import sys
import webbrowser
from typing import Final

from ottla.cli.failure import EXIT_USAGE, CommandError
from ottla.client.errors import ConfigurationError
from ottla.console.web.serving import ConsoleOptions, check_options, listen_on, serve, url_of

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_console(options: ConsoleOptions, *, opens_browser: bool, or_any_port: bool) -> None:
    """Serve the console; return after SIGINT or SIGTERM.

    Raises:
        CommandError: the address is in use, or an option of the connection is not valid.
    """
    try:
        check_options(options)
        listening = listen_on(options.listen, or_any_port=or_any_port)
    except ConfigurationError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    except OSError as error:
        # Not the text of the error, to which `socket` adds the address.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CommandError(f"{options.listen} cannot be used: {reason}.") from error
    url = url_of(listening, options.token)

    def ready() -> None:
        sys.stdout.write(f"console {url}\n")
        sys.stdout.flush()
        if opens_browser:
            asyncio.get_running_loop().run_in_executor(None, webbrowser.open, url)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        serving = asyncio.ensure_future(serve(options, listening, ready))
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, serving.cancel)
        await asyncio.wait((serving,))
        if not serving.cancelled() and (error := serving.exception()) is not None:
            raise error

    asyncio.run(run())
