"""Finds the coordinator of a group and sends requests to it (edge).

`judge` maps an error to the next step.
Invariant: after a broker did not respond, or is not the coordinator, the coordinator is looked up
again before the next request.
"""

import enum
from typing import Final, Protocol, TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.find_coordinator import (
    KEYS_SINCE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.client.argument import require_text
from ottla.client.client_config import Address
from ottla.client.errors import BrokerError, OttlaError, broker_error
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection_pool import Purpose

GROUP_KEY_TYPE: Final = 0

R = TypeVar("R")


class Response(Protocol):
    """A response with one error code for the whole request."""

    error_code: int


A = TypeVar("A", bound=Response)


class GroupCoordinator:
    """The coordinator of one group."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        require_text("a group's id", group_id)
        self.group_id = group_id
        self._cluster = cluster
        self._node: tuple[BrokerId, Address] | None = None

    def forget(self) -> None:
        """Look up the coordinator again before the next request."""
        self._node = None

    async def ask(
        self,
        message: object,
        response_type: type[A],
        *,
        purpose: Purpose = Purpose.CONTROL,
        timeout_s: float | None = None,
    ) -> A:
        """Send a request and return the response, unless its error code refuses the request.

        Raises:
            OttlaError: the coordinator cannot be found or reached, or refuses.
        """
        response = await self.request(message, response_type, purpose=purpose, timeout_s=timeout_s)
        if response.error_code != ErrorCode.NONE:
            raise self.refusal(response.error_code)
        return response

    async def request(
        self,
        message: object,
        response_type: type[R],
        *,
        purpose: Purpose = Purpose.CONTROL,
        timeout_s: float | None = None,
    ) -> R:
        """Send a request and return the response, including any error codes; see `refusal`.

        Raises:
            OttlaError: the coordinator cannot be found or reached.
        """
        broker_id, address = self._node or await self._find()
        try:
            return await self._cluster.request_at(
                broker_id, address, message, response_type, purpose=purpose, timeout_s=timeout_s
            )
        except OttlaError as error:
            if judge(error) is Verdict.FIND:
                self._node = None
            raise

    def refusal(self, code: int) -> OttlaError:
        """Return the error for a wire `code`; forget the coordinator if it is another broker."""
        error = broker_error(code, f"group {self.group_id}")
        if judge(error) is Verdict.FIND:
            self._node = None
        return error

    async def _find(self) -> tuple[BrokerId, Address]:
        def request(version: int) -> FindCoordinatorRequest:
            if version < KEYS_SINCE:
                return FindCoordinatorRequest(key=self.group_id, key_type=GROUP_KEY_TYPE)
            return FindCoordinatorRequest(coordinator_keys=[self.group_id], key_type=GROUP_KEY_TYPE)

        response = await self._cluster.request_any(request, FindCoordinatorResponse)
        # From version 4 on the response has one row per key.
        found: Coordinator | FindCoordinatorResponse
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code != ErrorCode.NONE:
            raise broker_error(
                found.error_code, f"coordinator of group {self.group_id}", found.error_message
            )
        self._node = (BrokerId(found.node_id), Address(found.host, found.port))
        return self._node


class Verdict(enum.Enum):
    """The next step after an error."""

    RETRY = "back off, then retry"
    FIND = "look up the coordinator, then retry"
    REJOIN = "join again: the group is rebalancing"
    LOST = "join as a new member: the group has removed this one"
    FATAL = "give up, and raise the error in the next read"


_VERDICTS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: Verdict.RETRY,
    ErrorCode.MEMBER_ID_REQUIRED: Verdict.REJOIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.FIND,
    ErrorCode.NOT_COORDINATOR: Verdict.FIND,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.LOST,
    ErrorCode.ILLEGAL_GENERATION: Verdict.LOST,
}


def judge(error: OttlaError) -> Verdict:
    """Return the next step of a member after `error`."""
    if not isinstance(error, BrokerError):
        # The connection failed; a new one will show whether the coordinator did, too.
        return Verdict.FIND if error.retriable else Verdict.FATAL
    verdict = _VERDICTS.get(error.code)
    if verdict is not None:
        return verdict
    return Verdict.RETRY if error.retriable else Verdict.FATAL
