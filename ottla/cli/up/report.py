"""Reports of a supervisor's events (edge): as lines, or as JSON.

The line `ready HOST:PORT,...`, and after it the files of a secured cluster, the way for other
machines and the address of the console, go to standard output and other events go to standard
error, so that a program can read the former alone.
"""

import json
import sys

from ottla.cli.up.events import ConsoleStarted, Event, Joinable, Ready, Secured, to_json


def report_line(event: Event) -> None:
    """Write the event as a sentence."""
    stream = (
        sys.stdout if isinstance(event, Ready | Secured | Joinable | ConsoleStarted) else sys.stderr
    )
    stream.write(f"{event}\n")
    stream.flush()


def report_json(event: Event) -> None:
    """Write the event as one line of JSON to standard output."""
    sys.stdout.write(json.dumps(to_json(event)) + "\n")
    sys.stdout.flush()
