"""Updates of the cluster image by UpdateMetadata: `broker.cluster.metadata_update`."""

import uuid

from broker.cluster.metadata_cache import ClusterImage, Endpoint
from broker.cluster.metadata_update import (
    LEADER_DURING_DELETE,
    deleted_partitions,
    updated,
)
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId
from kafkawire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkawire.update_type import UpdateType

T_ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)


def broker(broker_id: int, rack: str | None = None) -> UpdateMetadataBroker:
    endpoint = UpdateMetadataEndpoint(port=9092, host=f"h{broker_id}", listener="PLAINTEXT")
    return UpdateMetadataBroker(id=broker_id, endpoints=[endpoint], rack=rack)


def topic(
    name: str, *leaders: int, topic_id: uuid.UUID = T_ID, first: int = 0
) -> UpdateMetadataTopicState:
    """Return the states of a topic's partitions from `first` on, one per leader."""
    return UpdateMetadataTopicState(
        topic_name=name,
        topic_id=topic_id,
        partition_states=[
            UpdateMetadataPartitionState(
                topic_name=name,
                partition_index=index,
                leader=leader,
                leader_epoch=5,
                isr=[leader],
                replicas=[1, 2],
                offline_replicas=[2],
            )
            for index, leader in enumerate(leaders, first)
        ],
    )


def after_update(
    image: ClusterImage, *topics: UpdateMetadataTopicState, kind: int = 0, **fields: int
) -> ClusterImage:
    message = UpdateMetadataRequest(
        controller_id=fields.get("controller_id", 1),
        type=kind,
        topic_states=list(topics),
        live_brokers=[broker(1, "r1"), broker(2)],
    )
    return updated(image, message)


def leaders(image: ClusterImage, name: str = "t") -> dict[int, int]:
    found = image.topics.get(name)
    return (
        {index: state.leader_and_isr.leader for index, state in found.partitions.items()}
        if found
        else {}
    )


def test_update_replaces_brokers_and_controller() -> None:
    image = after_update(ClusterImage(), controller_id=2)
    assert (image.controller_id, set(image.brokers)) == (2, {1, 2})
    assert image.endpoint(BrokerId(2), "PLAINTEXT") == Endpoint("h2", 9092)
    assert [each.rack for each in image.brokers.values()] == ["r1", None]
    alone = updated(image, UpdateMetadataRequest(controller_id=-1, live_brokers=[broker(1)]))
    assert (set(alone.brokers), alone.controller_id) == ({1}, -1)


def test_update_of_some_partitions_keeps_the_others() -> None:
    image = after_update(ClusterImage(), topic("t", 1, 1), topic("u", 1, topic_id=OTHER_ID))
    image = after_update(image, topic("t", 2, first=1), topic("t", 2, first=2))
    assert leaders(image) == {0: 1, 1: 2, 2: 2}
    assert leaders(image, "u") == {0: 1}
    assert image.topic_names == {T_ID: "t", OTHER_ID: "u"}
    state = image.topics["t"].partitions[0]
    assert (
        state.leader_and_isr.leader_epoch,
        state.leader_and_isr.isr,
        state.replicas,
        state.offline_replicas,
    ) == (
        5,
        (1,),
        (1, 2),
        (2,),
    )


def test_topic_is_removed_with_its_last_partition() -> None:
    image = after_update(ClusterImage(), topic("t", 1, 1))
    image = after_update(image, topic("t", LEADER_DURING_DELETE))
    assert leaders(image) == {1: 1}
    image = after_update(image, topic("t", LEADER_DURING_DELETE, first=1))
    assert (image.topics, image.topic_names) == ({}, {})
    assert after_update(image, topic("t", LEADER_DURING_DELETE)).topics == {}


def deleted(
    image: ClusterImage,
    *topics: UpdateMetadataTopicState,
    kind: UpdateType = UpdateType.UNKNOWN,
) -> list[tuple[str, int]]:
    """Return the partitions that an update of `image` counts as deleted."""
    message = UpdateMetadataRequest(
        controller_id=1, type=int(kind), topic_states=list(topics), live_brokers=[]
    )
    found = deleted_partitions(image, message, updated(image, message))
    return [(each.topic, each.partition) for each in found]


def test_deleted_partitions_are_listed() -> None:
    found = deleted(
        ClusterImage(), topic("t", 1, LEADER_DURING_DELETE), topic("u", LEADER_DURING_DELETE)
    )
    assert found == [("t", 1), ("u", 0)]


def test_missed_deletions_are_listed() -> None:
    image = after_update(ClusterImage(), topic("t", 1, 1), topic("u", 1, topic_id=OTHER_ID))
    assert deleted(image, topic("u", 2, topic_id=OTHER_ID)) == []
    full = UpdateType.FULL
    assert deleted(image, topic("u", 2, topic_id=OTHER_ID), kind=full) == [("t", 0), ("t", 1)]
    gone = topic("t", LEADER_DURING_DELETE)
    assert deleted(image, gone, topic("u", 2, topic_id=OTHER_ID), kind=full) == [("t", 0)]
    again = topic("t", 1, topic_id=uuid.UUID(int=3))
    assert deleted(image, again) == [], "an old tool may have dropped the id"


def test_recreated_topic_keeps_nothing_of_the_old_one() -> None:
    image = after_update(ClusterImage(), topic("t", 1, 1))
    image = after_update(image, topic("t", 2, topic_id=OTHER_ID))
    assert leaders(image) == {0: 2}
    assert image.topic_names == {OTHER_ID: "t"}


def test_update_without_topic_ids_keeps_them() -> None:
    image = after_update(ClusterImage(), topic("t", 1))
    image = after_update(image, topic("t", 2, topic_id=ZERO_TOPIC_ID))
    assert (leaders(image), image.topic_names) == ({0: 2}, {T_ID: "t"})


def test_full_update_drops_unnamed_topics() -> None:
    image = after_update(ClusterImage(), topic("t", 1), topic("u", 1, topic_id=OTHER_ID))
    assert set(
        after_update(image, topic("u", 2, topic_id=OTHER_ID), kind=UpdateType.FULL).topics
    ) == {"u"}


def test_image_has_topics_after_an_update_that_is_not_incremental() -> None:
    image = after_update(ClusterImage(), topic("t", 1), kind=UpdateType.INCREMENTAL)
    assert (set(image.topics), image.is_complete) == (set(), False)
    assert image.brokers, "the live brokers are complete in every update"
    image = after_update(image, topic("t", 1, 1))
    assert image.is_complete
    assert after_update(image, topic("t", 2), kind=UpdateType.INCREMENTAL).is_complete
    assert after_update(ClusterImage(), kind=UpdateType.FULL).is_complete


def test_incremental_update_shows_no_topic_that_was_not_announced() -> None:
    before = after_update(ClusterImage(), topic("t", 1, 1))
    recreated = topic("t", 2, topic_id=OTHER_ID)
    for unknown in (topic("u", 2, first=1, topic_id=OTHER_ID), topic("t", 2, first=2), recreated):
        after = after_update(before, unknown, kind=UpdateType.INCREMENTAL)
        assert (after.topics, after.topic_names) == (before.topics, before.topic_names)
    elected = after_update(before, topic("t", 2, first=1), kind=UpdateType.INCREMENTAL)
    assert leaders(elected) == {0: 1, 1: 2}


def test_topic_with_an_illegal_name_is_skipped() -> None:
    image = after_update(ClusterImage(), topic("../t", 1), topic("u", 1, topic_id=OTHER_ID))
    assert set(image.topics) == {"u"}
