"""Reports of a supervisor's events (edge): as lines, or as JSON.

The line `ready HOST:PORT,...` goes to standard output and later events go to standard error, so
that a program can read the former alone.
"""

import json
import sys

from ottla.cli.up.events import Event, Ready, to_json


def report_line(event: Event) -> None:
    """Write the event as a sentence."""
    stream = sys.stdout if isinstance(event, Ready) else sys.stderr
    stream.write(f"{event}\n")
    stream.flush()


def report_json(event: Event) -> None:
    """Write the event as one line of JSON to standard output."""
    sys.stdout.write(json.dumps(to_json(event)) + "\n")
    sys.stdout.flush()
