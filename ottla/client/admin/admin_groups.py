"""Lists, describes and deletes groups, and sets their offsets (edge)."""

from collections.abc import Iterable, Mapping, Sequence

from kafkawire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, assigned_partitions
from kafkawire.errors import DecodeError, ErrorCode
from kafkawire.ids import BrokerId, TopicPartition, by_topic
from kafkawire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafkawire.messages.group_membership import (
    MEMBERS_SINCE,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kafkawire.messages.group_offsets import (
    GROUPS_SINCE,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from ottla.client.admin.admin_request import (
    ask_all,
    change_parts,
    error_or_none,
    is_certainly_undone,
    raise_first,
    raise_refused,
)
from ottla.client.admin_model import GroupDescription, GroupListing, GroupMember
from ottla.client.argument import require_instance
from ottla.client.errors import OttlaError, UnsupportedVersionError, no_result
from ottla.client.network.cluster import Cluster
from ottla.client.network.coordinator import Coordinator
from ottla.client.network.group_coordinator import group_coordinator
from ottla.client.network.offset_store import OffsetStore, fetch_offsets
from ottla.client.network.partition_lookup import is_unknown_topic, with_patience
from ottla.client.offset import CommittedOffset, Identity, parse_commit
from ottla.client.request_parts import parts
from ottla.client.retry import retry


async def list_groups(cluster: Cluster, timeout_s: float) -> list[GroupListing]:
    """Return the groups of all brokers; each broker knows the groups that it coordinates."""

    async def ask(broker_id: BrokerId) -> list[GroupListing]:
        response = await cluster.request(broker_id, ListGroupsRequest(), ListGroupsResponse)
        raise_first([error_or_none(response.error_code, f"groups of broker {broker_id}")])
        return [
            GroupListing(
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                # Brokers before Kafka 2.6 do not report it.
                state=each.group_state or None,
            )
            for each in response.groups
        ]

    return sorted(await ask_all(cluster, ask, timeout_s), key=lambda group: group.group_id)


async def describe_group(cluster: Cluster, group_id: str, timeout_s: float) -> GroupDescription:
    """Return the state and members of a group; Kafka reports an unknown group as "Dead".

    Raises:
        BrokerError: the coordinator of the group refuses, or is not available in `timeout_s`.
    """
    coordinator = group_coordinator(cluster, group_id)

    async def once() -> DescribedGroup:
        request = DescribeGroupsRequest(groups=[group_id])
        response = await coordinator.request(request, DescribeGroupsResponse)
        if not response.groups:
            raise no_result(coordinator.subject)
        group = response.groups[0]
        if group.error_code != ErrorCode.NONE:
            raise coordinator.refusal(group.error_code)
        return group

    group = await retry(once, cluster.backoff, timeout_s)
    return GroupDescription(
        group_id=group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        members=tuple(_member(group, each) for each in group.members),
    )


async def list_group_offsets(
    cluster: Cluster, group_id: str, timeout_s: float
) -> dict[TopicPartition, CommittedOffset]:
    """Return every offset that the group has committed."""
    coordinator = group_coordinator(cluster, group_id)

    def request(version: int) -> OffsetFetchRequest:
        if version < GROUPS_SINCE:
            return OffsetFetchRequest(group_id=group_id, topics=None)
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])

    found = await retry(lambda: fetch_offsets(coordinator, request), cluster.backoff, timeout_s)
    return {place: held for place, held in found.items() if held is not None}


async def alter_group_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int], timeout_s: float
) -> None:
    """Commit without membership, which a coordinator allows while the group has no members.

    A topic may be newer than the coordinator's knowledge, and so is awaited for a moment.

    Raises:
        ValueError: an offset is negative, or not a whole number.
        UnknownTopicError: a topic does not exist; the offsets of the others were committed.
        CommitFailedError: the group has members.
    """
    wanted = parse_commit(offsets)
    store = OffsetStore(
        group_coordinator(cluster, group_id),
        group_instance_id=None,
        backoff=cluster.backoff,
        timeout_s=timeout_s,
    )

    def may_pass(error: OttlaError) -> bool:
        return is_certainly_undone(error) or is_unknown_topic(error)

    await retry(
        lambda: store.commit_once(wanted, Identity),
        cluster.backoff,
        timeout_s,
        with_patience(may_pass),
    )


async def delete_group(cluster: Cluster, group_id: str, timeout_s: float) -> None:
    """Delete a group and its committed offsets.

    Raises:
        BrokerError: there is no such group, or it has members.
    """
    coordinator = group_coordinator(cluster, group_id)

    async def once() -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response = await coordinator.request(request, DeleteGroupsResponse)
        if not response.results:
            raise no_result(coordinator.subject)
        result = response.results[0]
        if result.error_code != ErrorCode.NONE:
            raise coordinator.refusal(result.error_code)

    await retry(once, cluster.backoff, timeout_s, is_certainly_undone)


async def delete_group_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition], timeout_s: float
) -> None:
    """Delete the committed offsets of partitions that no member is subscribed to.

    Raises:
        BrokerError: a partition's topic has subscribers, or there is no such group.
    """
    coordinator = group_coordinator(cluster, group_id)

    async def delete(part: list[TopicPartition]) -> None:
        await _delete_some_offsets(cluster, coordinator, part, timeout_s)

    await change_parts(parts(sorted(partitions)), delete)


async def _delete_some_offsets(
    cluster: Cluster, coordinator: Coordinator, places: list[TopicPartition], timeout_s: float
) -> None:
    group_id = coordinator.key
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for topic, indexes in by_topic(places).items()
        ],
    )

    async def once() -> None:
        response = await coordinator.ask(request, OffsetDeleteResponse)
        raise_refused(
            (f"group {group_id}, {place}" for place in places),
            (
                (f"group {group_id}, {topic.name}-{part.partition_index}", part.error_code, None)
                for topic in response.topics
                for part in topic.partitions
            ),
        )

    await retry(once, cluster.backoff, timeout_s, is_certainly_undone)


async def remove_members(
    cluster: Cluster, group_id: str, members: Sequence[GroupMember], timeout_s: float
) -> None:
    """Remove members from a group, which then rebalances.

    Raises:
        BrokerError: one of them is not a member.
    """
    coordinator = group_coordinator(cluster, group_id)
    for each in members:
        require_instance("a member", GroupMember, each)
    # A member that was removed already would be refused.
    members = list({_shown(each.instance_id, each.member_id): each for each in members}.values())

    def request(version: int) -> LeaveGroupRequest:
        if version < MEMBERS_SINCE:
            raise UnsupportedVersionError("the broker is too old to remove members of a group")
        return LeaveGroupRequest(
            group_id=group_id,
            members=[
                MemberIdentity(
                    # A static member is known by its name alone.
                    member_id="" if each.instance_id is not None else each.member_id,
                    group_instance_id=each.instance_id,
                    reason="an administrator removed it",
                )
                for each in members
            ],
        )

    async def once() -> None:
        response = await coordinator.ask(request, LeaveGroupResponse)
        raise_refused(
            (_shown(each.instance_id, each.member_id) for each in members),
            (
                (_shown(each.group_instance_id, each.member_id), each.error_code, None)
                for each in response.members
            ),
        )

    await retry(once, cluster.backoff, timeout_s, is_certainly_undone)


def _shown(instance_id: str | None, member_id: str) -> str:
    # A static member is known by its name alone.
    return f"member {instance_id or member_id}"


def _member(group: DescribedGroup, member: DescribedGroupMember) -> GroupMember:
    partitions: list[TopicPartition] | None = None
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        try:
            partitions = assigned_partitions(member.member_assignment)
        except DecodeError:
            # The assignment belongs to the members; the client only displays it.
            partitions = None
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        partitions=None if partitions is None else tuple(sorted(partitions)),
    )
