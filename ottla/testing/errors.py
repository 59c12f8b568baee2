"""Errors of `ottla.testing` (decision).

ServerError(Exception)          a server of a test did not do as requested
+-- StartError                  it did not start: the message has the end of its log
+-- StateError                  the call does not fit its state, such as a pause of a dead one
"""


class ServerError(Exception):
    """A server of a test did not do as requested."""


class StartError(ServerError):
    """A server did not start. The message has the last lines of its log."""


class StateError(ServerError):
    """The call does not fit the state of the server: change the order of the calls."""
