"""Requests of brokers through znodes: topics, configs, notifications and registration."""

from collections.abc import Mapping

import pytest

from clusterstate.broker_registration import (
    Sessions,
    check_endpoints,
    existing_cluster_id,
    login_secret,
    register,
)
from clusterstate.change_notifications import EXPIRY_MS, NO_CHANGE
from clusterstate.config_requests import (
    change_config,
    read_all_topic_configs,
    read_config,
    read_entity_paths,
    take_config_changes,
)
from clusterstate.errors import LostNodesError, RegistrationError
from clusterstate.isr_requests import change_isr
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.notifications import notify_isr_changes, notify_log_dir_failure
from clusterstate.plans import (
    UNREADABLE,
    UNREADABLE_VERSION,
    Answer,
    ListChildren,
    Node,
    Nodes,
    Outcome,
    Outcomes,
    Plan,
    Read,
    Refusal,
    Write,
)
from clusterstate.replica_assignment import ReplicaAssignment, Replicas
from clusterstate.topic_requests import (
    REQUESTS_AT_ONCE,
    Assignments,
    NewTopic,
    create_topic,
    grow_topic,
    request_deletions,
)
from clusterstate.znodes import paths
from clusterstate.znodes.cluster_node import decode_features, encode_cluster_id, encode_features
from clusterstate.znodes.config import decode_config, encode_config_change
from clusterstate.znodes.notification import decode_log_dir_event, decode_partitions
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.registration import Endpoint, Registration
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from tests.plans.driver import Driver, empty_cluster, put_topic

B1, B2 = BrokerId(1), BrokerId(2)


def new_topic(topic_id: int = 1, **configs: str) -> NewTopic:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return NewTopic("orders", TopicId(int=topic_id), {0: (B1,), 1: (B2,)}, named)


def assignment(driver: Driver, name: str = "orders") -> TopicAssignment:
    node = driver.coordinator.read(paths.topic(name))
    assert node is not None
    return decode_topic(node.data)


def config(driver: Driver, name: str = "orders") -> dict[str, str] | None:
    node = driver.coordinator.read(paths.config(f"topics/{name}"))
    return None if node is None else decode_config(node.data)


def refusal(driver: Driver, plan: object) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        driver.run(plan)  # type: ignore[arg-type]
    return caught.value.code


@pytest.mark.parametrize("repeats", [False, True])
def test_a_topic_is_created_with_its_configs(repeats: bool) -> None:
    driver = empty_cluster(1, 2, repeats=repeats)
    driver.run(create_topic(new_topic(retention_ms="5")))
    assert assignment(driver).topic_id == TopicId(int=1)
    assert assignment(driver).partitions[1] == ReplicaAssignment(replicas=(B2,))
    assert config(driver) == {"retention.ms": "5"}


def test_a_new_topic_drops_the_configs_of_a_deleted_one() -> None:
    driver = empty_cluster(1, 2)
    driver.coordinator.put(paths.config("topics/orders"), b'{"version":1,"config":{"a":"b"}}')
    driver.run(create_topic(new_topic()))
    assert config(driver) is None


def test_configs_of_a_deleted_topic_are_replaced() -> None:
    driver = empty_cluster(1, 2)
    driver.coordinator.put(paths.config("topics/orders"), b'{"version":1,"config":{"a":"b"}}')
    driver.run(create_topic(new_topic(retention_ms="5")))
    assert config(driver) == {"retention.ms": "5"}


def test_a_topic_is_created_once() -> None:
    driver = empty_cluster(1, 2)
    driver.run(create_topic(new_topic()))
    code = refusal(driver, create_topic(new_topic(2, retention_ms="5")))
    assert (code, config(driver)) == (ErrorCode.TOPIC_ALREADY_EXISTS, None)


def test_one_of_two_concurrent_creations_of_a_topic_wins() -> None:
    driver = empty_cluster(1, 2)
    other = Driver(driver.coordinator)

    def be_outrun() -> None:
        driver.before_write = lambda: None
        other.run(create_topic(new_topic(2, retention_ms="7")))

    driver.before_write = be_outrun
    code = refusal(driver, create_topic(new_topic(1, retention_ms="5")))
    assert code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert assignment(driver).topic_id == TopicId(int=2)


def test_names_that_metrics_confuse_are_refused_before_any_metadata_has_them() -> None:
    driver = empty_cluster(1, 2)
    first = new_topic()._replace(name="a.b_c")
    assert driver.run(create_topic(first))
    # The response to the first creation may have been lost.
    assert driver.run(create_topic(first))
    for name in ("a_b.c", "a.b.c", "a_b_c"):
        code = refusal(driver, create_topic(new_topic(2)._replace(name=name)))
        assert (name, code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert driver.run(create_topic(new_topic(2)._replace(name="abc")))


def test_a_topic_does_not_clash_with_itself_when_another_broker_creates_it_meanwhile() -> None:
    driver = empty_cluster(1, 2)
    ours, theirs = (new_topic(each)._replace(name="user_events") for each in (1, 2))

    def overtaken() -> Plan[bool]:
        plan = create_topic(ours)
        effect = plan.send((yield next(plan)))
        driver.run(create_topic(theirs))
        while True:
            effect = plan.send((yield effect))

    assert refusal(driver, overtaken()) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_topic_waits_until_the_last_znode_of_a_deleted_one_is_gone() -> None:
    driver = empty_cluster(1, 2)
    put_topic(driver.coordinator, (1,))
    driver.run(request_deletions(["orders"]))
    assert not driver.run(create_topic(new_topic(2, retention_ms="5")))
    driver.coordinator.remove(paths.topic("orders"))
    # Its configs and the request go next, and would take the configs of a new topic along.
    assert not driver.run(create_topic(new_topic(2, retention_ms="5")))
    assert config(driver) is None
    driver.coordinator.remove(paths.topic_deletion("orders"))
    assert driver.run(create_topic(new_topic(2, retention_ms="5")))
    assert config(driver) == {"retention.ms": "5"}


def test_configs_deleted_during_the_creation_of_a_topic_are_written() -> None:
    driver = empty_cluster(1, 2)
    path = paths.config("topics/orders")
    driver.coordinator.put(path, b'{"version":1,"config":{"a":"b"}}')

    def remove_leftover() -> None:
        driver.before_write = lambda: None
        driver.coordinator.remove(path)

    driver.before_write = remove_leftover
    assert driver.run(create_topic(new_topic(retention_ms="5")))
    assert config(driver) == {"retention.ms": "5"}


def test_create_topic_gives_up_on_constantly_changing_configs() -> None:
    driver = empty_cluster(1, 2)
    path = paths.config("topics/orders")
    driver.coordinator.put(path, b'{"version":1,"config":{}}')
    driver.before_write = lambda: driver.coordinator.put(path, b'{"version":1,"config":{}}')
    assert refusal(driver, create_topic(new_topic())) is ErrorCode.REQUEST_TIMED_OUT


def test_a_malformed_topic_exists_already() -> None:
    driver = empty_cluster(1, 2)
    driver.coordinator.put(paths.topic("orders"), b"{oops")
    assert refusal(driver, create_topic(new_topic())) is ErrorCode.TOPIC_ALREADY_EXISTS


def make_narrow(driver: Driver) -> None:
    """Make the coordinator refuse transactions that write more than 300 bytes to a znode."""
    perform = driver.coordinator.perform

    def narrow(session: int, effect: Read | ListChildren | Write) -> Answer:
        if not isinstance(effect, Write):
            return perform(session, effect)
        large = Outcome((), Refusal.TOO_LARGE, 0)
        if any(
            len(getattr(op, "data", b"") or b"") > 300 for ops in effect.transactions for op in ops
        ):
            return Outcomes((large,) * len(effect.transactions))
        return perform(session, effect)

    driver.coordinator.perform = narrow  # type: ignore[method-assign]


def test_configs_and_partitions_too_large_for_a_znode_are_refused() -> None:
    driver = empty_cluster(1, 2)
    make_narrow(driver)
    long = {"retention.ms": "5" * 9_000}
    large = NewTopic("large", TopicId(int=1), dict.fromkeys(range(30), (B1, B2)), {})
    put_topic(driver.coordinator, (1,))
    for plan, code in (
        (change_config("topics/orders", lambda _current: long), ErrorCode.INVALID_CONFIG),
        (create_topic(large._replace(configs=long)), ErrorCode.INVALID_CONFIG),
        (create_topic(large), ErrorCode.INVALID_PARTITIONS),
        (
            grow_topic("orders", lambda _existing: dict.fromkeys(range(1, 40), (B1,))),
            ErrorCode.INVALID_PARTITIONS,
        ),
    ):
        assert refusal(driver, plan) is code
    assert driver.coordinator.read(paths.topic("large")) is None
    assert config(driver) is None


def add_one(existing: Assignments) -> Mapping[int, Replicas]:
    return {len(existing): (B2,)}


def grow_to_three(existing: Assignments) -> Mapping[int, Replicas]:
    if len(existing) >= 3:
        # As in a CreatePartitions with the number that the topic has.
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "the topic has 3 partitions")
    return dict.fromkeys(range(len(existing), 3), (B1,))


def add_one_to_b1(existing: Assignments) -> Mapping[int, Replicas]:
    return {len(existing): (B1,)}


@pytest.mark.parametrize("repeats", [False, True], ids=["once", "answer lost"])
def test_a_topic_grows(repeats: bool) -> None:
    driver = empty_cluster(1, 2, repeats=repeats)
    put_topic(driver.coordinator, (1,))
    assert driver.run(grow_topic("orders", add_one)) == 2
    assert assignment(driver).partitions[1].replicas == (B2,)
    assert driver.run(grow_topic("orders", lambda _existing: {})) == 2
    assert driver.run(grow_topic("orders", grow_to_three)) == 3
    assert len(assignment(driver).partitions) == 3
    assert refusal(driver, grow_topic("orders", grow_to_three)) is ErrorCode.INVALID_PARTITIONS


def test_a_topic_grows_from_its_concurrently_changed_assignment() -> None:
    driver = empty_cluster(1, 2)
    put_topic(driver.coordinator, (1,))
    other = Driver(driver.coordinator)

    def be_outrun() -> None:
        driver.before_write = lambda: None
        other.run(grow_topic("orders", add_one_to_b1))

    driver.before_write = be_outrun
    assert driver.run(grow_topic("orders", add_one)) == 3


def test_grow_topic_gives_up_on_a_constantly_changing_topic() -> None:
    driver = empty_cluster(1, 2)
    put_topic(driver.coordinator, (1,))

    def be_outrun() -> None:
        Driver(driver.coordinator).run(grow_topic("orders", add_one_to_b1))

    driver.before_write = be_outrun
    assert refusal(driver, grow_topic("orders", add_one)) is ErrorCode.REQUEST_TIMED_OUT


def test_missing_moving_and_deleted_topics_cannot_grow() -> None:
    driver = empty_cluster(1, 2)
    code = refusal(driver, grow_topic("orders", add_one))
    assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    moving = ReplicaAssignment(replicas=(B1, B2), adding=(B2,))
    data = TopicAssignment(TopicId(int=1), {0: moving}).encode()
    driver.coordinator.put(paths.topic("orders"), data)
    code = refusal(driver, grow_topic("orders", add_one))
    assert code is ErrorCode.REASSIGNMENT_IN_PROGRESS
    driver.run(request_deletions(["orders"]))
    code = refusal(driver, grow_topic("orders", add_one))
    assert code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_repeated_deletion_request_has_no_effect() -> None:
    driver = empty_cluster(1)
    put_topic(driver.coordinator, (1,))
    driver.run(request_deletions(["orders"]))
    driver.run(request_deletions(["orders"]))
    assert driver.coordinator.children(paths.DELETE_TOPICS) == ["orders"]
    assert driver.run(request_deletions(["nothing"])) == {"nothing"}


def test_deletions_are_requested_in_one_transaction_beside_a_repeated_one() -> None:
    driver = empty_cluster(1)
    names = [f"t{number}" for number in range(REQUESTS_AT_ONCE + 1)]
    for name in names:
        put_topic(driver.coordinator, (1,), name=name)
    driver.run(request_deletions(names[-1:]))
    assert driver.run(request_deletions([*names, "nothing"])) == {"nothing"}
    assert sorted(driver.coordinator.children(paths.DELETE_TOPICS)) == sorted(names)
    writes = [one for one in driver.requests if isinstance(one, Write)]
    # The first request, the first hundred together, and the repeated one twice.
    assert [len(one.transactions[0]) for one in writes[-4:]] == [1, REQUESTS_AT_ONCE, 1, 1]


def test_a_changed_config_is_announced_to_all() -> None:
    driver = empty_cluster(1)
    taken = driver.run(take_config_changes(NO_CHANGE, now_ms=0))
    assert (taken.announced, taken.last_number) == ((), NO_CHANGE)
    driver.run(change_config("topics/orders", lambda found: {**found, "a": "1"}))
    driver.run(change_config("topics/orders", lambda found: {**found, "b": "2"}))
    driver.run(change_config("topics/other", lambda _found: {"c": "3"}))
    assert driver.run(read_config("topics/orders")) == {"a": "1", "b": "2"}
    assert driver.run(read_config("topics/unset")) == {}
    assert driver.run(read_all_topic_configs()).found == {
        "orders": {"a": "1", "b": "2"},
        "other": {"c": "3"},
    }
    taken = driver.run(take_config_changes(NO_CHANGE, now_ms=0))
    assert taken.announced == ("topics/orders", "topics/other")
    assert driver.run(take_config_changes(taken.last_number, now_ms=0)).announced == ()


@pytest.mark.parametrize("repeats", [False, True], ids=["once", "answer lost"])
def test_a_change_of_a_config_is_written_and_announced_once(repeats: bool) -> None:
    driver = empty_cluster(1, repeats=repeats)

    def append(found: Mapping[str, str]) -> dict[str, str]:
        return {"a": found.get("a", "") + "1"}

    def delete(found: Mapping[str, str]) -> dict[str, str]:
        if not found:
            # As the deletion of a credential that does not exist.
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "gone")
        return {}

    last_number, path = NO_CHANGE, "users/alice/clients/app"
    for change, changed in ((append, {"a": "1"}), (append, {"a": "11"}), (delete, {})):
        assert driver.run(change_config(path, change)) == changed
        assert driver.run(read_config(path)) == changed
        taken = driver.run(take_config_changes(last_number, now_ms=0))
        assert taken.announced == (path,)
        last_number = taken.last_number
    assert len(driver.coordinator.children(paths.CONFIG_CHANGES)) == 3


def test_a_change_of_a_config_and_its_notification_are_one_transaction() -> None:
    driver = empty_cluster(1)
    driver.run(change_config("users/alice", lambda _found: {"a": "1"}))
    write = [one for one in driver.requests if isinstance(one, Write)][-1]
    [(change, notification)] = write.transactions
    assert change.path == paths.config("users/alice")
    assert notification.path == paths.CONFIG_CHANGE_PREFIX


def test_a_concurrent_change_of_a_config_is_kept() -> None:
    driver = empty_cluster(1)
    other = Driver(driver.coordinator)

    def be_outrun() -> None:
        driver.before_write = lambda: None
        other.run(change_config("topics/orders", lambda found: {**found, "a": "1"}))

    driver.before_write = be_outrun
    driver.run(change_config("topics/orders", lambda found: {**found, "b": "2"}))
    assert config(driver) == {"a": "1", "b": "2"}


def refuse_writes(driver: Driver) -> list[Write]:
    """Make the coordinator refuse each write, as it refuses names beyond its limit."""
    perform, refused = driver.coordinator.perform, list[Write]()

    def refuse(session: int, effect: Read | ListChildren | Write) -> Answer:
        if not isinstance(effect, Write):
            return perform(session, effect)
        refused.append(effect)
        return Outcomes((Outcome((), Refusal.OTHER, 0),) * len(effect.transactions))

    driver.coordinator.perform = refuse  # type: ignore[method-assign]
    return refused


def test_a_config_whose_znode_is_refused_is_not_taken_for_a_conflict() -> None:
    driver = empty_cluster(1)
    refused = refuse_writes(driver)
    plan = change_config("users/" + "x" * 5_000, lambda _current: {"a": "1"})
    assert refusal(driver, plan) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(refused) == 1, "the same write is refused each time"


def test_change_config_gives_up_on_a_constantly_changing_config() -> None:
    driver = empty_cluster(1)
    path = paths.config("topics/orders")
    driver.coordinator.put(path, b'{"version":1,"config":{}}')
    driver.before_write = lambda: driver.coordinator.put(path, b'{"version":1,"config":{}}')
    plan = change_config("topics/orders", lambda found: {**found, "a": "1"})
    assert refusal(driver, plan) is ErrorCode.REQUEST_TIMED_OUT


def test_a_config_below_a_missing_znode_is_refused() -> None:
    plan = change_config("strangers/orders", lambda found: found)
    assert refusal(empty_cluster(1), plan) is ErrorCode.REQUEST_TIMED_OUT


def test_expired_and_malformed_notifications_are_deleted() -> None:
    driver = empty_cluster(1)
    coordinator = driver.coordinator
    notification = encode_config_change("topics/old")
    coordinator.put(f"{paths.CONFIG_CHANGE_PREFIX}0000000001", notification)
    coordinator.put(f"{paths.CONFIG_CHANGE_PREFIX}0000000002", b"broken")
    coordinator.put(f"{paths.CONFIG_CHANGES}/something", b"else")
    coordinator.put(paths.config("topics/broken"), b"broken")
    read = driver.run(read_all_topic_configs())
    assert (read.found, list(read.malformed)) == ({}, ["broken"])
    taken = driver.run(take_config_changes(NO_CHANGE, now_ms=EXPIRY_MS))
    assert (taken.announced, taken.last_number) == (("topics/old",), 2)
    assert len(coordinator.children(paths.CONFIG_CHANGES)) == 3
    coordinator.now_ms = EXPIRY_MS + 1
    coordinator.put(f"{paths.CONFIG_CHANGE_PREFIX}0000000003", notification)
    driver.run(take_config_changes(taken.last_number, now_ms=EXPIRY_MS))
    assert len(coordinator.children(paths.CONFIG_CHANGES)) == 4
    driver.run(take_config_changes(taken.last_number, now_ms=EXPIRY_MS + 1))
    assert coordinator.children(paths.CONFIG_CHANGES) == [
        "config_change_0000000003",
        "something",
    ]


def test_a_broker_whose_clock_is_ahead_deletes_no_new_notification() -> None:
    driver = empty_cluster(1)
    coordinator = driver.coordinator
    coordinator.put(f"{paths.CONFIG_CHANGE_PREFIX}0000000001", encode_config_change("topics/t"))
    driver.run(take_config_changes(NO_CHANGE, now_ms=100 * EXPIRY_MS))
    taken = driver.run(take_config_changes(NO_CHANGE, now_ms=0))
    assert taken.announced == ("topics/t",), "a broker has lost a change that it had not read"


def test_notifications_that_this_broker_may_not_read_are_left_to_the_others() -> None:
    driver = empty_cluster(1)
    coordinator = driver.coordinator
    hidden = f"{paths.CONFIG_CHANGE_PREFIX}0000000001"
    coordinator.now_ms = 2 * EXPIRY_MS
    coordinator.put(hidden, encode_config_change("topics/t"))
    coordinator.put(f"{paths.CONFIG_CHANGE_PREFIX}0000000002", encode_config_change("topics/u"))
    coordinator.unreadable.add(hidden)
    taken = driver.run(take_config_changes(NO_CHANGE, now_ms=2 * EXPIRY_MS))
    assert (taken.announced, taken.last_number) == (("topics/u",), 2)
    assert hidden in coordinator.nodes


def test_a_notification_deleted_during_the_read_is_skipped() -> None:
    driver = empty_cluster(1)
    path = f"{paths.CONFIG_CHANGE_PREFIX}0000000001"
    driver.coordinator.put(path, encode_config_change("topics/t"))
    plan = take_config_changes(NO_CHANGE, now_ms=0)
    listing = next(plan)
    names = driver.coordinator.perform(driver.session, listing)
    driver.coordinator.remove(path)
    reading = plan.send(names)
    with pytest.raises(StopIteration) as stop:
        plan.send(driver.coordinator.perform(driver.session, reading))
    assert stop.value.value.announced == ()


def test_brokers_notify_the_controller_of_failures_and_in_sync_sets() -> None:
    driver = empty_cluster(1)
    driver.run(notify_log_dir_failure(B1))
    driver.run(notify_isr_changes([TopicPartition("orders", 0)]))
    [event] = driver.coordinator.children(paths.LOG_DIR_EVENTS)
    [change] = driver.coordinator.children(paths.ISR_CHANGES)
    found = driver.coordinator.nodes
    assert decode_log_dir_event(found[f"{paths.LOG_DIR_EVENTS}/{event}"].data) == 1
    partitions = decode_partitions(found[f"{paths.ISR_CHANGES}/{change}"].data)
    assert partitions == (TopicPartition("orders", 0),)


def isr_change(version: int, *isr: BrokerId) -> Plan[LeaderAndIsr | None]:
    return change_isr(TopicPartition("orders", 0), state_of(version, *isr))


def state_of(version: int, *isr: BrokerId) -> LeaderAndIsr:
    return LeaderAndIsr(
        leader=B1,
        isr=isr,
        controller_epoch=1,
        leader_epoch=LeaderEpoch(2),
        partition_epoch=version,
    )


@pytest.mark.parametrize("repeats", [False, True])
def test_a_leader_writes_its_in_sync_set_once(repeats: bool) -> None:
    driver = empty_cluster(1, 2, repeats=repeats)
    path = paths.partition_state(TopicPartition("orders", 0))
    driver.coordinator.put(path, b"anything")
    assert driver.run(isr_change(0, B1, B2)) == state_of(1, B1, B2)
    assert driver.run(isr_change(1, B1)) == state_of(2, B1)
    node = driver.coordinator.read(path)
    assert node is not None
    found = decode_partition_state(node.data, node.version)
    assert (found.leader, found.leader_epoch, found.isr) == (B1, 2, (B1,))


def test_an_outdated_in_sync_set_is_not_written() -> None:
    driver = empty_cluster(1, 2)
    assert driver.run(isr_change(0, B1)) is None
    path = paths.partition_state(TopicPartition("orders", 0))
    driver.coordinator.put(path, b"anything")
    assert driver.run(isr_change(4, B1)) is None
    driver.run(isr_change(0, B1, B2))
    assert driver.run(isr_change(0, B1)) is None


def test_the_existing_cluster_id_is_none_before_it_is_set() -> None:
    driver = empty_cluster()
    assert driver.run(existing_cluster_id()) is None
    driver.coordinator.put(paths.CLUSTER_ID, encode_cluster_id("c"))
    assert driver.run(existing_cluster_id()) == "c"


def test_a_broker_that_may_not_read_the_login_secret_has_its_own() -> None:
    plan = login_secret(b"own")
    next(plan)
    with pytest.raises(StopIteration) as stop:
        plan.send(Nodes((Node(UNREADABLE, UNREADABLE_VERSION, 0),)))
    assert stop.value.value == b"own"


def test_all_brokers_share_the_login_secret_of_the_first() -> None:
    driver = empty_cluster()
    assert driver.run(login_secret(b"first")) == b"first"
    assert driver.run(login_secret(b"second")) == b"first"


def test_two_brokers_cannot_advertise_the_same_endpoint() -> None:
    driver = empty_cluster(1, 2)
    driver.coordinator.put(paths.broker(3), b"{oops")
    driver.coordinator.put(f"{paths.BROKER_IDS}/left-by-a-tool")

    def wanting(port: int) -> Registration:
        return Registration(broker_id=B1, endpoints=(Endpoint("OTHER", "h", port),))

    driver.run(check_endpoints(wanting(9093)))
    with pytest.raises(ApiError, match="broker 2 advertises h:9094 already"):
        driver.run(check_endpoints(wanting(9094)))


def test_a_broker_that_leaves_during_the_endpoint_check_is_ignored() -> None:
    driver = empty_cluster(1, 2)
    wanting = Registration(broker_id=B1, endpoints=(Endpoint("OTHER", "h", 9094),))
    plan = check_endpoints(wanting)
    listing = plan.send(None)
    assert isinstance(listing, ListChildren)
    reading = plan.send(driver.coordinator.perform(driver.session, listing))
    assert isinstance(reading, Read)
    driver.coordinator.remove(paths.broker(2))
    with pytest.raises(StopIteration):
        plan.send(driver.coordinator.perform(driver.session, reading))


def test_features_have_levels_and_an_epoch() -> None:
    found = decode_features(encode_features({"metadata.version": 3}), 5)
    assert (found.levels, found.epoch) == ({"metadata.version": 3}, 5)
    assert decode_features(b'{"features":{"a":{"max_version_level":1}},"status":0}', 1).levels == {}


def test_users_and_their_clients_are_created_and_listed() -> None:
    driver = empty_cluster(1, 2)
    for entity in ("users/bob/clients/b", "users/bob/clients/a", "clients/c"):
        driver.run(change_config(entity, lambda _existing: {"x": "1"}))
    assert driver.run(read_entity_paths(("users", "clients"))) == [
        "users/bob",
        "users/bob/clients/a",
        "users/bob/clients/b",
        "clients/c",
    ]


def test_a_registration_names_the_coordinator_that_lost_its_nodes() -> None:
    plan = register(BrokerId(1), b"{}", Sessions(7, {7}))
    next(plan)
    with pytest.raises(LostNodesError, match="has lost /brokers/ids"):
        plan.send(Outcomes((Outcome((), Refusal.NO_NODE, 0),)))


def test_a_registration_that_the_coordinator_refuses_names_its_node() -> None:
    plan = register(BrokerId(1), b"{}", Sessions(7, {7}))
    next(plan)
    with pytest.raises(RegistrationError, match="does not let this broker write /brokers/ids/1"):
        plan.send(Outcomes((Outcome((), Refusal.OTHER, 0),)))
