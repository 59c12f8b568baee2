"""Topics without a cluster: `broker.local_topics`, on log dirs of its own."""

import asyncio
import uuid
from pathlib import Path

import pytest

from broker.local_state import read_local_state
from broker.local_topics import LocalTopics
from broker.metadata_cache import LiveBroker, MetadataCache
from broker.purgatory import Purgatory
from broker.topic_plan import TopicDefaults, TopicPlan
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, TopicId, TopicPartition
from storage.config import LogConfig
from storage.directory import Logs
from storage.log import Log
from tests.unit.broker.replicas import batch, make_manager

B1 = BrokerId(1)
NOW_MS = 1_700_000_000_000


class World:
    """A broker's topics on the log dirs of a test; `restart` opens them again."""

    def __init__(self, directory: Path, count: int = 1) -> None:
        self.paths = [directory / f"d{number}" for number in range(count)]
        self.open()

    def open(self) -> None:
        state = read_local_state(self.paths[0])
        self.logs = Logs.open(
            self.paths,
            config_of=lambda name: LogConfig.from_properties(state.configs.get(name, {})),
            now_ms=NOW_MS,
        )
        self.metadata = MetadataCache()
        self.metadata.set_brokers([LiveBroker(broker_id=B1, endpoints={})], B1)
        purgatory: Purgatory[TopicPartition] = Purgatory(asyncio.get_running_loop())
        self.replicas = make_manager(self.logs, self.metadata, purgatory)
        self.topics = LocalTopics(
            B1,
            logs=self.logs,
            metadata=self.metadata,
            replicas=self.replicas,
            defaults=TopicDefaults(partition_count=2, replication_factor=1, log_config=LogConfig()),
            state=state,
            state_directory=self.paths[0],
            now_ms=lambda: NOW_MS,
        )
        self.topics.load()

    def restart(self) -> None:
        self.logs.close()
        self.open()

    async def create(self, name: str, partitions: int = 1, **configs: str) -> TopicId:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        plan = TopicPlan(name=name, assignments=((B1,),) * partitions, configs=named)
        return (await self.topics.create(plan)).topic_id

    def partitions(self, name: str) -> list[int]:
        return list(self.metadata.image.topics[name].partitions)


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_topics_ids_and_configs_survive_a_restart(world: World) -> None:
    topic_id = await world.create("t", partitions=3, retention_ms="5")
    await world.topics.add_partitions("t", [(B1,)])
    world.restart()
    assert world.metadata.image.topics["t"].topic_id == topic_id
    assert world.partitions("t") == [0, 1, 2, 3]
    assert world.topics.configs_of("t") == {"retention.ms": "5"}
    assert world.replicas.leader(("t", 3)).log.config.retention_ms == 5


async def test_leader_epochs_never_go_back_whatever_happens_to_the_records(world: World) -> None:
    await world.create("t")
    partition = TopicPartition("t", 0)
    seen = [world.replicas.leader(partition).leader_epoch]
    for step in ("nothing", "append", "nothing", "delete all", "nothing", "append", "nothing"):
        replica = world.replicas.leader(partition)
        if step == "append":
            replica.append(memoryview(bytearray(batch(b"a"))), 1, NOW_MS)
        elif step == "delete all":
            replica.delete_records(-1)
        world.restart()
        seen.append(world.replicas.leader(partition).leader_epoch)
    assert seen == sorted(set(seen)), "an epoch stands for one leadership"
    assert seen[0] == 0


async def test_a_topic_that_is_asked_for_gets_the_defaults(world: World) -> None:
    await world.topics.auto_create("t")
    assert world.partitions("t") == [0, 1]
    with pytest.raises(ApiError) as caught:
        await world.topics.auto_create("a b")
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_creation_that_fails_half_way_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Logs.create

    def fail_at_2(
        logs: Logs, partition: TopicPartition, config: LogConfig, topic_id: TopicId, *, now_ms: int
    ) -> Log:
        if partition.partition == 2:
            raise OSError("no space left")
        return create(logs, partition, config, topic_id, now_ms=now_ms)

    with monkeypatch.context() as patched:
        patched.setattr(Logs, "create", fail_at_2)
        with pytest.raises(ApiError) as caught:
            await world.create("t", partitions=3)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (len(world.logs), world.replicas.partition_count) == (0, 0)
    assert "t" not in world.metadata.image.topics
    await world.create("t", partitions=3)
    assert world.partitions("t") == [0, 1, 2]


async def test_deleting_a_topic_forgets_its_configs(world: World) -> None:
    await world.create("t", retention_ms="5")
    await world.topics.delete("t")
    world.restart()
    assert world.metadata.image.topics == {}
    assert world.topics.configs_of("t") == {}


async def test_data_of_an_earlier_topic_of_the_same_name_is_set_aside(world: World) -> None:
    topic_id = await world.create("t")
    stray = TopicPartition("t", 1)
    world.logs.create(stray, LogConfig(), uuid.uuid4(), now_ms=NOW_MS)
    world.restart()
    assert world.metadata.image.topics["t"].topic_id == topic_id
    assert world.partitions("t") == [0]
    assert [path.name for path in world.paths[0].iterdir() if path.name.endswith("-stray")]


async def test_a_log_without_a_topic_id_is_given_one(world: World) -> None:
    world.logs.create(TopicPartition("t", 0), LogConfig(), None, now_ms=NOW_MS)
    world.restart()
    topic_id = world.metadata.image.topics["t"].topic_id
    world.restart()
    assert world.metadata.image.topics["t"].topic_id == topic_id


async def test_a_failed_log_dir_takes_its_partitions_off_the_list(tmp_path: Path) -> None:
    world = World(tmp_path, count=2)
    await world.create("t", partitions=2)
    failed = world.logs.directory_of(TopicPartition("t", 0))
    assert failed is not None
    failed.health.fail(OSError("broken"))
    world.topics.on_directory_failed(failed.path)
    states = world.metadata.image.topics["t"].partitions
    assert [(s.leader, s.offline_replicas) for s in states.values()] == [(-1, (B1,)), (B1, ())]
    with pytest.raises(ApiError) as caught:
        world.replicas.leader(("t", 0))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
