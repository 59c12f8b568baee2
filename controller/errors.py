"""Exceptions of the controller (decision).

The tree:

    ControllerError
    ├── ControllerMovedError      expected: another broker is controller; resign, do not retry
    ├── StateChangeFailedError    expected: the partition or replica keeps its state
    └── InvalidTransition         bug: a move that the table of states forbids
"""


class ControllerError(Exception):
    """Root of the package's exceptions."""


class ControllerMovedError(ControllerError):
    """Another broker has a newer controller epoch; all further writes would be refused."""


class StateChangeFailedError(ControllerError):
    """A partition or replica cannot move; the message says why."""


class InvalidTransition(ControllerError):  # noqa: N818 - Kafka's word for it
    """The controller attempted a move that the table of states forbids: a bug."""
