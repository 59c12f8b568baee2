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
    stream.write(line_of(event))
    stream.flush()


def report_json(event: Event) -> None:
    """Write the event as one line of JSON to standard output."""
    sys.stdout.write(json_line_of(event))
    sys.stdout.flush()


def line_of(event: Event) -> str:
    """Return the event as a sentence on a line."""
    return f"{event}\n"


def json_line_of(event: Event) -> str:
    """Return the event as one line of JSON."""
    return json.dumps(to_json(event)) + "\n"
