"""The handlers of the group APIs (composition), imported when first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.cluster.metadata_cache import MetadataCache
from broker.groups.coordinator import GroupCoordinator
from broker.network.router import Handler
from kafkawire.apis import ApiKey

if TYPE_CHECKING:
    from broker.handlers.group_admin import GroupAdminHandler
    from broker.handlers.group_membership import GroupMembershipHandler
    from broker.handlers.offset_commit import OffsetCommitHandler


def group_makers(
    groups: GroupCoordinator, metadata: MetadataCache, now_ms: Callable[[], int]
) -> Mapping[ApiKey, Callable[[], Handler]]:
    """Return the factory of the handler of each group API."""

    def membership() -> GroupMembershipHandler:
        from broker.handlers.group_membership import GroupMembershipHandler

        return GroupMembershipHandler(groups)

    def commits() -> OffsetCommitHandler:
        from broker.handlers.offset_commit import OffsetCommitHandler

        return OffsetCommitHandler(groups.commits, metadata, now_ms)

    def offset_fetch() -> Handler:
        from broker.handlers.offset_fetch import OffsetFetchHandler

        return OffsetFetchHandler(groups.commits).handle

    def admin() -> GroupAdminHandler:
        from broker.handlers.group_admin import GroupAdminHandler

        return GroupAdminHandler(groups.registry, groups.commits)

    return {
        ApiKey.JOIN_GROUP: lambda: membership().join,
        ApiKey.SYNC_GROUP: lambda: membership().sync,
        ApiKey.HEARTBEAT: lambda: membership().heartbeat,
        ApiKey.LEAVE_GROUP: lambda: membership().leave,
        ApiKey.OFFSET_COMMIT: lambda: commits().commit,
        ApiKey.OFFSET_DELETE: lambda: commits().delete,
        ApiKey.OFFSET_FETCH: offset_fetch,
        ApiKey.DESCRIBE_GROUPS: lambda: admin().describe,
        ApiKey.LIST_GROUPS: lambda: admin().list,
        ApiKey.DELETE_GROUPS: lambda: admin().delete,
    }
