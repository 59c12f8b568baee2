"""Declares DeleteTopics (decision)."""

import uuid
from collections.abc import Sequence
from typing import Final

from kafkawire.schema import INT16, INT32, STRING, UUID, array, field, message, since, struct


@struct
class DeleteTopicState:
    name: str | None = field(STRING, nullable=6, default=None)
    topic_id: uuid.UUID = field(UUID)


@message(versions=(0, 6), flexible=4)
class DeleteTopicsRequest:
    """Request to delete topics, by name or, from version 6 on, by id."""

    topics: Sequence[DeleteTopicState] = field(array(DeleteTopicState), since=6)
    topic_names: Sequence[str] = field(array(STRING), until=5, ignorable=True)
    timeout_ms: int = field(INT32)


TOPICS_SINCE: Final = since(DeleteTopicsRequest, "topics")
DELETION_DISABLED_SINCE: Final = 3
"""First version whose clients know TOPIC_DELETION_DISABLED."""


@struct
class DeletableTopicResult:
    name: str | None = field(STRING, nullable=6)
    topic_id: uuid.UUID = field(UUID, since=6, ignorable=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=5, nullable=5, default=None, ignorable=True)


@message(versions=(0, 6), flexible=4)
class DeleteTopicsResponse:
    """The result for each topic."""

    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    responses: Sequence[DeletableTopicResult] = field(array(DeletableTopicResult))
