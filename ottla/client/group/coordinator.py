"""Finds the broker that coordinates a group, and asks it. Edge: asks brokers.

Invariant: a coordinator that did not answer, or said that it is none, is looked for again before
the next request.
"""

from typing import Final, Protocol, TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.client.argument import require_text
from ottla.client.cluster import Cluster
from ottla.client.config import Address
from ottla.client.connection_pool import Purpose
from ottla.client.errors import OttlaError, broker_error
from ottla.client.group.member import Verdict, judge

GROUP_KEY_TYPE: Final = 0
FIRST_VERSION_WITH_KEYS: Final = 4

R = TypeVar("R")


class Answer(Protocol):
    """A response with one error for all of it."""

    error_code: int


A = TypeVar("A", bound=Answer)


class GroupCoordinator:
    """The coordinator of one group."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        require_text("a group's id", group_id)
        self.group_id = group_id
        self._cluster = cluster
        self._node: tuple[BrokerId, Address] | None = None

    def forget(self) -> None:
        """Look for the coordinator before the next request."""
        self._node = None

    async def ask(
        self,
        message: object,
        response_type: type[A],
        *,
        purpose: Purpose = Purpose.CONTROL,
        timeout_s: float | None = None,
    ) -> A:
        """Return the coordinator's answer, if it is no refusal of the whole request.

        Raises:
            OttlaError: the coordinator cannot be found or asked, or refuses.
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
        """Return the coordinator's answer, whatever errors are in it; see `refusal`.

        Raises:
            OttlaError: the coordinator cannot be found or asked.
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
        """Return the error for a wire `code` of an answer, and act on what it says of the node."""
        error = broker_error(code, f"group {self.group_id}")
        if judge(error) is Verdict.FIND:
            self._node = None
        return error

    async def _find(self) -> tuple[BrokerId, Address]:
        def question(version: int) -> FindCoordinatorRequest:
            if version < FIRST_VERSION_WITH_KEYS:
                return FindCoordinatorRequest(key=self.group_id, key_type=GROUP_KEY_TYPE)
            return FindCoordinatorRequest(coordinator_keys=[self.group_id], key_type=GROUP_KEY_TYPE)

        answer = await self._cluster.request_any(question, FindCoordinatorResponse)
        # From version 4 on there is one row per key.
        found: Coordinator | FindCoordinatorResponse
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code != ErrorCode.NONE:
            raise broker_error(
                found.error_code, f"coordinator of group {self.group_id}", found.error_message
            )
        self._node = (BrokerId(found.node_id), Address(found.host, found.port))
        return self._node
