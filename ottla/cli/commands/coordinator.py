"""`ottla coordinator`: the embedded coordinator, in this process. Composition.

Its options are the daemon's own; they are handed through, help included.
"""

from typing import Final

import typer

from ottla.cli.failure import guarded
from ottla.cli.terminal import print_line

CONTEXT: Final = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
EXAMPLE: Final = """
Example:
  ottla coordinator --listen 127.0.0.1:2181 --data-dir /tmp/ottla-coordinator"""


@guarded
def run_coordinator(context: typer.Context) -> None:
    """Run the coordinator until Ctrl-C or SIGTERM."""
    from coordination.__main__ import main, parser

    if {"-h", "--help"} & set(context.args):
        print_line(parser().format_help().rstrip() + "\n" + EXAMPLE)
        return
    raise typer.Exit(main(context.args))
