"""Everything that the controller can say went wrong (decision).

The tree:

    ControllerError
    ├── ControllerMovedError      expected: another broker is controller now; resign, retry nothing
    ├── StateChangeFailedError    expected: this partition or replica stays as it is
    ├── MalformedZnodeError       environment: a node holds what Kafka never wrote
    └── InvalidTransition         bug: a move that the table of states forbids
"""


class ControllerError(Exception):
    """Root of the package's exceptions."""


class ControllerMovedError(ControllerError):
    """The controller epoch is another's: every further write of ours would be refused."""


class StateChangeFailedError(ControllerError):
    """A partition or replica cannot move; the message says why."""


class MalformedZnodeError(ControllerError):
    """A node's data cannot be read; the message shows the value."""


class InvalidTransition(ControllerError):  # noqa: N818 - Kafka's word for it
    """The controller asked for a move that the table forbids: a bug, not a fault."""
