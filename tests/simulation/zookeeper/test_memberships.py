"""Members of one group, a coordinator and a faulty network in one simulated loop, for any seed.

The members run the product's membership, claims and commits; only records are counters. Faults:
lost connections, an unreachable coordinator, a crashed one that recovers from the synced part of
its log, members that stop, crash and start, and topics that grow. Rules:

1. At rest each partition has one owner, the one of the formula.
2. A member that hands over records of a partition owns its node in the coordinator, or its session
   ended a moment ago.
3. Offsets never fall.
4. Every record that an offset covers was handed over.
"""

import asyncio
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pytest

from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import consumer_nodes
from clusterstate.znodes.topic import TopicAssignment
from coordination.client import Client, SessionState, ops
from coordination.errors import OperationError
from coordination.protocol.multi import Op
from kafkawire.ids import BrokerId
from ottla.zookeeper import rebalance_events
from ottla.zookeeper.assignment import Slot, Strategy
from ottla.zookeeper.claims import Claims
from ottla.zookeeper.membership import Membership
from ottla.zookeeper.nodes import gathered
from ottla.zookeeper.offset_nodes import OffsetNodes
from ottla.zookeeper.rebalance import RETRY_MS, Phase, Rebalance
from ottla.zookeeper.registration import Layout, Registration
from ottla.zookeeper.view import everybody
from tests.simulation.coordination.test_cluster import ADDRESS, World
from tests.simulation.coordination.virtual_loop import VirtualLoop

ROOT: Final = Path(__file__).parents[3]
TABLE: Final = ROOT / "docs" / "planted-bugs.md"
NODES: Final = Path(__file__).with_name("test_group_nodes.py")
GROUP: Final = "g"
TOPIC: Final = "t"
TIMEOUT_MS: Final = 3000
RUN_S: Final = 40.0
REST_S: Final = 40.0
MEMBERS: Final = 4
STRIKE_PART: Final = 0.1
MUTANT_SEEDS: Final = 150
DEFAULT_SESSION_TIMEOUT_MS: Final = 6000
OUTAGE_S: Final = 7.0
"""Longest delay of a packet: a client counts its session from the arrival of the last one."""


class BrokenRuleError(AssertionError):
    """A rule was broken."""


class Counted:
    """Stands for the reading of one member: a position per partition, which grows."""

    def __init__(self, group: "Group", name: str) -> None:
        self.group = group
        self.name = name
        self.positions: dict[Slot, int] = {}
        self.committed: dict[Slot, int] = {}
        self.starting: set[Slot] = set()
        """Partitions whose offsets are not known yet."""
        self.is_held = False
        self.ended_s: float | None = None
        self.membership: Membership

    async def drain(self, slots: frozenset[Slot]) -> None:
        await asyncio.sleep(self.group.chance.uniform(0, 0.3))
        await self.commit(slots)
        for slot in slots:
            self.positions.pop(slot, None)

    async def start(self, slots: frozenset[Slot]) -> frozenset[Slot]:
        self.starting = set(slots)
        while self.starting:
            try:
                # Sorted, so that a seed repeats itself: hashes of texts differ between processes.
                stored = await self.membership.offsets.read(sorted(slots))
            except OperationError:
                await asyncio.sleep(0.5)
                continue
            for slot in sorted(self.starting):
                held = stored[slot]
                value = held.value if held is not None and held.value is not None else 0
                self.positions[slot] = self.committed[slot] = value
            self.starting.clear()
        return frozenset()

    def lose(self, slots: frozenset[Slot]) -> None:
        self.starting -= slots
        for slot in slots:
            self.positions.pop(slot, None)

    def hold(self) -> None:
        self.is_held = True

    def open(self) -> None:
        self.is_held = False

    def fail(self, _error: Exception) -> None:
        self.group.given_up_count += 1

    async def commit(self, slots: frozenset[Slot]) -> None:
        changed = {
            slot: at
            for slot, at in self.positions.items()
            if slot in slots and self.committed.get(slot) != at
        }
        if not changed:
            return
        try:
            lost = await self.membership.offsets.commit(changed)
        except OperationError:
            return
        self.committed |= changed
        if lost:
            session = self.membership.machine.session
            self.membership.feed(rebalance_events.Lost(session, lost))

    def hand_over(self) -> None:
        if self.is_held:
            return
        for slot in self.positions:
            if self.membership._client.state is SessionState.SUSPECT:
                raise BrokenRuleError(f"{self.name} reads while its session is in doubt")
            self.group.judge_read(self, slot)
            first = self.positions[slot]
            self.positions[slot] += self.group.chance.randrange(3)
            self.group.handed_over.setdefault(slot, set()).update(
                range(first, self.positions[slot])
            )


class Group:
    """State of one run; in a storm, members come and go quickly, and operations are cut."""

    def __init__(self, loop: VirtualLoop, *, is_stormy: bool = False) -> None:
        self.loop = loop
        self.is_stormy = is_stormy
        self.chance = loop.chance
        self.world = World(loop)
        self.partitions = 5
        self.handed_over: dict[Slot, set[int]] = {}
        self.highest: dict[str, int] = {}
        self.members: dict[str, tuple[Client, Counted]] = {}
        self.started_count = self.given_up_count = self.join_count = self.crash_count = 0
        self.strike_count = 0
        self.gone_s: dict[int, float] = {}
        self.is_over = False

    # Rules

    def judge_read(self, member: Counted, slot: Slot) -> None:
        state = self.world.server.service.state
        session = member.membership.machine.session
        node = state.tree.nodes.get(f"/consumers/{GROUP}/owners/{TOPIC}/{slot.name}")
        owner = 0 if node is None else node.stat().ephemeral_owner
        if owner == session:
            return
        if session in state.timeouts_ms:
            raise BrokenRuleError(
                f"{member.name} reads {slot}, which {owner:#x} owns, in its session"
            )
        gone_s = self.gone_s.setdefault(session, self.loop.time())
        if self.loop.time() - gone_s > OUTAGE_S:
            raise BrokenRuleError(f"{member.name} reads {slot} long after its session")

    def judge_offsets(self) -> None:
        for path, node in self.world.server.service.state.tree.nodes.items():
            if path.startswith(f"/consumers/{GROUP}/offsets/{TOPIC}/"):
                value = int(node.data or b"0")
                slot = Slot(TOPIC, path.rpartition("/")[2])
                read = self.handed_over.get(slot, set())
                if not set(range(value)) <= read:
                    raise BrokenRuleError(
                        f"the offset {value} of {slot} covers records that nobody read"
                    )

    def judge_falls(self, client_view: dict[str, int]) -> None:
        for name, value in client_view.items():
            if value < self.highest.get(name, 0):
                raise BrokenRuleError(
                    f"the offset of {name} fell from {self.highest[name]} to {value}"
                )
            self.highest[name] = value

    # Actors

    def client(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS) -> Client:
        """Return a client whose choices follow from the seed."""
        return Client(
            ADDRESS,
            session_timeout_ms=timeout_ms,
            has_heartbeat_thread=False,
            random=self.chance,
        )

    async def begin(self) -> None:
        await self.world.start_server()
        async with self.client() as client:
            for path in ("/brokers", "/brokers/ids", "/brokers/topics"):
                await client.create(path)
            await client.create("/brokers/ids/1", b"{}")
            await client.create(f"/brokers/topics/{TOPIC}", self.topic())

    def topic(self) -> bytes:
        replicas = ReplicaAssignment((BrokerId(1),))
        return TopicAssignment(None, dict.fromkeys(range(self.partitions), replicas)).encode()

    async def join(self) -> None:
        self.join_count += 1
        name = f"{GROUP}_host-{self.join_count}"
        client = self.client(TIMEOUT_MS)
        try:
            await client.connect(timeout_s=60)
        except OperationError:
            return
        member = Counted(self, name)
        machine = Rebalance(max_tries=4, backoff_ms=1000, keep_unmoved=self.chance.random() < 0.7)
        member.membership = Membership(
            client,
            member,
            machine,
            group=GROUP,
            consumer=name,
            registration=Registration({TOPIC: self.chance.randrange(1, 3)}),
            layout=Layout.KAFKA,
            strategy=Strategy.RANGE,
            exclude_internal=True,
            session_timeout_ms=TIMEOUT_MS,
            now_ms=lambda: 1,
        )
        self.members[name] = (client, member)
        member.membership.start()

    async def leave(self, name: str) -> None:
        client, member = self.members.pop(name)
        await member.membership.stop(self.loop.time() + 10)
        member.positions.clear()
        await client.close()

    async def crash(self, name: str) -> None:
        self.crash_count += 1
        client, member = self.members.pop(name)
        await member.membership._tasks.cancel_all()
        member.positions.clear()
        await client.abandon()

    async def live(self) -> None:
        """Read and commit with every member."""
        while not self.is_over:
            await asyncio.sleep(self.chance.uniform(0.01, 0.2))
            for _, member in list(self.members.values()):
                member.hand_over()
            if self.members and self.chance.random() < 0.3:
                _, member = self.chance.choice(list(self.members.values()))
                task = asyncio.create_task(member.commit(frozenset(member.positions)))
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.judge_offsets()

    async def observe(self) -> None:
        """Read the offsets as any client does."""
        while not self.is_over:
            await asyncio.sleep(0.5)
            try:
                async with self.client() as client:
                    parent = f"/consumers/{GROUP}/offsets/{TOPIC}"
                    names = await client.get_children(parent)
                    texts = {name: (await client.get_data(f"{parent}/{name}"))[0] for name in names}
            except OperationError:
                continue
            self.judge_falls({name: int(data or b"0") for name, data in texts.items()})

    async def stir(self) -> None:
        """Start, stop and crash members, and let the topic grow; one more joins in any case."""
        await self.join()
        while not self.world.is_over:
            await asyncio.sleep(self.chance.uniform(0.2, 1.0 if self.is_stormy else 4.0))
            names = list(self.members)
            match self.chance.randrange(6):
                case 0 | 1 if len(names) < MEMBERS:
                    await self.join()
                case 2 if len(names) > 1:
                    await self.leave(self.chance.choice(names))
                case 3 if len(names) > 1:
                    await self.crash(self.chance.choice(names))
                case 4 if self.partitions < 9:
                    self.partitions += 1
                    await self.grow()

    async def strike(self) -> None:
        """Cut all connections while a member claims or releases: it cannot know the outcome."""
        while not self.world.is_over:
            await asyncio.sleep(0.002)
            phases = {each.membership.machine.phase for _, each in self.members.values()}
            if phases & {Phase.CLAIMING, Phase.RELEASING} and self.chance.random() < STRIKE_PART:
                self.strike_count += 1
                self.loop.network.cut_all()

    async def grow(self) -> None:
        try:
            async with self.client() as client:
                await client.set_data(f"/brokers/topics/{TOPIC}", self.topic())
        except OperationError:
            # Perhaps applied; the rest at the end writes it once more.
            return

    async def rest(self) -> None:
        """Check the first rule once nothing disturbs the group."""
        await self.grow()
        await asyncio.sleep(REST_S)
        for _, member in self.members.values():
            if member.membership.machine.phase is Phase.GIVEN_UP:
                member.membership.feed(rebalance_events.Resumed())
        await asyncio.sleep(REST_S)
        phases = {name: each.membership.machine.phase for name, (_, each) in self.members.items()}
        if set(phases.values()) != {Phase.OWNING}:
            raise BrokenRuleError(f"members at rest are {phases}")
        view = next(iter(self.members.values()))[1].membership._view
        assert view is not None
        expected = everybody(view, layout=Layout.KAFKA, strategy=Strategy.RANGE)
        assert len(expected) == self.partitions
        async with self.client() as client:
            parent = f"/consumers/{GROUP}/owners/{TOPIC}"
            owners = {
                Slot(TOPIC, name): (await client.get_data(f"{parent}/{name}"))[0]
                for name in await client.get_children(parent)
            }
        if owners != {slot: thread.encode() for slot, thread in expected.items()}:
            raise BrokenRuleError(f"owners at rest are {owners}, not {expected}")
        held = [slot for _, member in self.members.values() for slot in member.positions]
        if sorted(held) != sorted(expected):
            raise BrokenRuleError(f"at rest {sorted(held)} are read")


async def run(group: Group) -> None:
    await group.begin()
    await group.join()
    await group.join()
    tasks = [asyncio.create_task(group.live()), asyncio.create_task(group.observe())]
    torment = asyncio.create_task(group.world.torment())
    stir = asyncio.create_task(group.stir())
    strike = asyncio.create_task(group.strike() if group.is_stormy else asyncio.sleep(0))
    try:
        await over(tasks, asyncio.sleep(RUN_S))
        group.world.is_over = True
        await over(tasks, torment)
        await over(tasks, stir)
        await over(tasks, strike)
        await over(tasks, group.rest())
        group.is_over = True
        await asyncio.gather(*tasks)
        for name in list(group.members):
            await group.leave(name)
        await group.world.server.stop()
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def over(watched: list[asyncio.Task[None]], work: Any) -> None:
    """Await `work`, and fail as soon as a watched task does."""
    main = asyncio.ensure_future(work)
    await asyncio.wait([main, *watched], return_when=asyncio.FIRST_COMPLETED)
    for task in watched:
        if task.done():
            task.result()
    await main


def survive(seed: int, *, is_stormy: bool = False) -> Group:
    loop = VirtualLoop(seed)
    group = Group(loop, is_stormy=is_stormy)
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))
    try:
        loop.run_until_complete(run(group))
    finally:
        loop.close()
    assert errors == []
    return group


@pytest.mark.fresh_seeds(1)
def test_each_partition_has_one_reader(seed: int) -> None:
    group = survive(seed)
    # The run was not vacuous.
    assert group.join_count > 2
    assert sum(map(len, group.handed_over.values())) > 100
    assert group.highest


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100), ids=lambda seed: f"seed{seed}")
def test_each_partition_has_one_reader_in_many_histories(seed: int) -> None:
    survive(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(50), ids=lambda seed: f"seed{seed}")
def test_each_partition_has_one_reader_after_a_storm(seed: int) -> None:
    group = survive(seed, is_stormy=True)
    assert group.strike_count > 0


# Mutants: each breaks a rule of the product, and the simulation has to notice.


async def _claim_by_force(
    _self: Claims, _session: int, slot: Slot, _wanted: str, ours: set[Slot]
) -> rebalance_events.Refused | None:
    """Take any owner for our own."""
    ours.add(slot)
    return None


def _never_held(_self: Counted) -> None:
    return None


async def _keep_partial_claims(
    self: Claims, session: int, wanted: Any
) -> rebalance_events.Claimed | rebalance_events.Refused | rebalance_events.Moved:
    for slot in sorted(wanted):
        outcome = await self._claim_chunk(session, {slot: wanted[slot]})
        if outcome is not None:
            return outcome
    return rebalance_events.Claimed(session)


def _settle_clearing_late(self: Rebalance) -> list[rebalance_events.Effect]:
    self.try_count = 0
    self._has_changed = False
    self.phase = Phase.OWNING
    return []


async def _release_all(self: Claims, slots: Collection[Slot]) -> None:
    """Delete the claims of every session."""
    self._offsets.forget(slots)
    await gathered(self._client.delete(self._owner(slot)) for slot in sorted(slots))


def _write_always(self: OffsetNodes, slot: Slot, value: int) -> Op:
    data = consumer_nodes.encode_offset(value)
    if self.versions[slot] is None:
        return ops.create(self._path(slot), data)
    return ops.set_data(self._path(slot), data)


def _forget_doubt(self: Rebalance) -> list[rebalance_events.Effect]:
    self._take = {}
    return self._wait(RETRY_MS)


MUTANTS: Final[dict[str, list[tuple[Any, str, Any]]]] = {
    "claim by force": [(Claims, "_refused", _claim_by_force)],
    "no gate": [(Counted, "hold", _never_held)],
    "partial claims kept": [(Claims, "claim", _keep_partial_claims)],
    "flag cleared after the reads": [(Rebalance, "_settle", _settle_clearing_late)],
    "claims of others released": [(Claims, "release", _release_all)],
    "commits without a version": [(OffsetNodes, "_write", _write_always)],
    "doubtful claims forgotten": [(Rebalance, "_failed", _forget_doubt)],
}


STORMY: Final = ("doubtful claims forgotten",)
"""Planted bugs that only storms show: one in thirty, while calm histories show none."""
BY_TEST: Final = (
    "claims of others released",
    "commits without a version",
    "partial claims kept",
)
"""Planted bugs that 150 histories show rarely or never.

The coordinator refuses operations of old sessions, and a member's later attempts complete the
claims that it kept. The tests of the nodes find all three.
"""


def found_at(name: str) -> int | None:
    """Return the first seed that shows the planted bug; None if there is none."""
    for seed in range(MUTANT_SEEDS):
        try:
            survive(seed, is_stormy=name in STORMY)
        except BrokenRuleError:
            return seed
    return None


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - set(BY_TEST)))
def test_the_simulation_detects_each_planted_bug(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, attribute, substitute in MUTANTS[name]:
        monkeypatch.setattr(owner, attribute, substitute)
    assert found_at(name) is not None, f"{name} survived {MUTANT_SEEDS} seeds"


@pytest.mark.soak
@pytest.mark.parametrize("name", BY_TEST)
def test_a_test_of_the_nodes_detects_each_planted_bug_that_histories_rarely_show(name: str) -> None:
    program = (
        "import sys, pytest\n"
        "from tests.simulation.zookeeper.test_memberships import MUTANTS\n"
        f"for owner, attribute, bug in MUTANTS[{name!r}]:\n"
        "    setattr(owner, attribute, bug)\n"
        f"sys.exit(pytest.main(['-qx', '-Wignore', '-pno:cacheprovider', {str(NODES)!r}]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED


def test_the_page_names_each_planted_bug() -> None:
    rows = TABLE.read_text(encoding="utf-8").partition("## Members of groups on znodes")[2]
    named = [line.split("|")[1].strip() for line in rows.splitlines() if line.startswith("| ")]
    assert sorted(named[2:]) == sorted(MUTANTS)
