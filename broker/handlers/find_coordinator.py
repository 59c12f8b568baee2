"""FindCoordinator: nobody coordinates groups or transactions yet, and it says so (decision)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from broker.reply import Reply
from broker.request_channel import Request
from kafkawire.errors import ErrorCode
from kafkawire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_WITH_KEYS: Final = 4
NO_NODE: Final = -1


class KeyType(IntEnum):
    """What a key names."""

    GROUP = 0
    TRANSACTION = 1


class FindCoordinatorHandler:
    """Tells clients that there is no coordinator at the moment, an error that they retry."""

    def handle(self, request: Request, message: FindCoordinatorRequest) -> Reply:
        """Answer COORDINATOR_NOT_AVAILABLE, or INVALID_REQUEST for an unknown type of key."""
        is_known = message.key_type in KeyType.__members__.values()
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_known else ErrorCode.INVALID_REQUEST
        if request.header.api_version < FIRST_VERSION_WITH_KEYS:
            return Reply(
                FindCoordinatorResponse(
                    error_code=code, error_message=_text(code), node_id=NO_NODE, port=NO_NODE
                )
            )
        return Reply(
            FindCoordinatorResponse(
                coordinators=[
                    Coordinator(
                        key=key,
                        node_id=NO_NODE,
                        port=NO_NODE,
                        error_code=code,
                        error_message=_text(code),
                    )
                    for key in message.coordinator_keys
                ]
            )
        )


def _text(code: ErrorCode) -> str:
    if code is ErrorCode.INVALID_REQUEST:
        return "the key type is neither 0 (group) nor 1 (transaction)"
    return "this broker does not coordinate groups or transactions yet"
