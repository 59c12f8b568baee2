"""Elections of a broker that may not read the cluster's state (decision).

Such a broker cannot be the controller, and each attempt would disturb the others. Attempts
therefore back off, and the later ones begin with a check that creates no znode.
"""

from typing import Final

from clusterstate.plans import list_children
from clusterstate.znodes import paths
from controller.effects import Enqueue, Note, Plan
from controller.events import ElectionDue

FIRST_BACKOFF_MS: Final = 1_000
MAX_BACKOFF_MS: Final = 60_000


class RefusedElections:
    """The back-off of one broker between its attempts."""

    def __init__(self) -> None:
        self.is_waiting = False
        """Whether an attempt is due later, so that none may be made now."""
        self._backoff_ms = 0

    def on_refusal(self, error: Exception) -> Plan[None]:
        """Note that an attempt failed by `error`, and queue the next one."""
        self._backoff_ms = min(2 * self._backoff_ms or FIRST_BACKOFF_MS, MAX_BACKOFF_MS)
        self.is_waiting = True
        fields = {"error": str(error), "retry_after_ms": self._backoff_ms}
        yield Note("controller.not_elected", fields, is_trouble=True)
        yield Enqueue(ElectionDue(), self._backoff_ms)

    def on_due(self) -> None:
        """Allow the next attempt: its time has come, or its event was dropped."""
        self.is_waiting = False

    def on_success(self) -> None:
        """Begin the next back-off with its first value."""
        self._backoff_ms = 0

    def check(self) -> Plan[None]:
        """Check after a refusal whether this broker may list the brokers and topics.

        Raises:
            NoAuthError: it may not.
        """
        if self._backoff_ms:
            for path in (paths.BROKER_IDS, paths.TOPICS):
                yield from list_children(path)
