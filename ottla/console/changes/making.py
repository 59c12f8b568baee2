"""Carries out changes through the admin client (edge)."""

from typing import assert_never

from ottla.client.admin.admin import Admin
from ottla.client.admin_model import NewTopic
from ottla.console.changes.change import (
    AddPartitions,
    AlterConfig,
    Change,
    CreateTopic,
    DeleteTopic,
)


async def make(admin: Admin, change: Change) -> None:
    """Carry out a change.

    Raises:
        OttlaError: a broker refuses, or does not answer; the message has its reason.
    """
    match change:
        case CreateTopic():
            topic = NewTopic(
                change.topic,
                partitions=change.partitions,
                replication_factor=change.replicas,
                configs=change.configs,
            )
            await admin.create_topics([topic])
        case DeleteTopic():
            await admin.delete_topics([change.topic])
        case AddPartitions():
            await admin.create_partitions({change.topic: change.partitions})
        case AlterConfig():
            await admin.alter_configs(change.kind, change.name, {change.key: change.value})
        case _:
            assert_never(change)
