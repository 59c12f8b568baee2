"""Claims, fences and registrations at a coordinator in memory; each trap by a test."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import consumer_nodes
from clusterstate.znodes.topic import TopicAssignment
from coordination.client import Client, SessionState
from coordination.errors import ErrorCode, MultiError, OperationError
from coordination.protocol.multi import Op
from kafkawire.ids import BrokerId
from ottla.cli.old_groups import Groups, import_old
from ottla.client.errors import ConfigurationError, OttlaError
from ottla.zookeeper import rebalance_events
from ottla.zookeeper.assignment import Slot, Strategy
from ottla.zookeeper.claims import Claims
from ottla.zookeeper.consumer import ZooKeeperConsumer
from ottla.zookeeper.group_admin import GroupAdmin, LiveGroupError, UnknownGroupError
from ottla.zookeeper.membership import Membership, TooManyConflictsError
from ottla.zookeeper.nodes import GroupNodes
from ottla.zookeeper.offset_nodes import OffsetNodes
from ottla.zookeeper.rebalance import Phase, Rebalance
from ottla.zookeeper.registration import Layout, Pattern, Registration
from ottla.zookeeper.view import GroupView
from tests.simulation.coordination.test_cluster import ADDRESS, World
from tests.simulation.coordination.virtual_loop import VirtualLoop

A, B = Slot("t", "0"), Slot("t", "1")
OFFSET = "/consumers/g/offsets/t/0"
OWNER = "/consumers/g/owners/t/0"


class Place:
    """A coordinator in memory, with a topic of two partitions and a broker."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.world = World(loop)
        self.clients: list[Client] = []
        self.changes = 0

    async def begin(self) -> None:
        await self.world.start_server()
        self.root = await self.client()
        for path in ("/brokers", "/brokers/ids", "/brokers/topics"):
            await self.root.create(path)
        await self.root.create("/brokers/ids/1", b"{}")
        await self.root.create("/brokers/topics/t", topic(2))

    async def client(self, timeout_ms: int = 3000) -> Client:
        client = Client(
            ADDRESS,
            session_timeout_ms=timeout_ms,
            has_heartbeat_thread=False,
            random=self.loop.chance,
        )
        await client.connect()
        self.clients.append(client)
        return client

    def on_change(self) -> None:
        self.changes += 1

    async def member(self, name: str, layout: Layout = Layout.KAFKA) -> "Member":
        return Member(self, await self.client(), name, layout)

    async def end(self) -> None:
        for client in self.clients:
            await client.close()
        await self.world.server.stop()


class Member:
    """The nodes of one member."""

    def __init__(self, place: Place, client: Client, name: str, layout: Layout) -> None:
        self.name = name
        self.client = client
        self.nodes = GroupNodes(client, "g", layout, place.on_change)
        self.offsets = OffsetNodes(self.nodes)
        self.claims = Claims(self.nodes, self.offsets, name)

    async def register(self, *sessions: int, former: frozenset[Slot] = frozenset()) -> None:
        data = Registration({"t": 1}).encode(self.nodes.layout, 1)
        await self.nodes.register(self.name, data, frozenset(sessions), former, 1.0)

    async def claim(
        self, *slots: Slot
    ) -> rebalance_events.Claimed | rebalance_events.Refused | rebalance_events.Moved:
        wanted = dict.fromkeys(slots, f"{self.name}-0")
        return await self.claims.claim(self.client.session_id, wanted)


def topic(partitions: int) -> bytes:
    replicas = ReplicaAssignment((BrokerId(1),))
    return TopicAssignment(None, dict.fromkeys(range(partitions), replicas)).encode()


def run(story: Callable[[Place], Awaitable[None]]) -> None:
    loop = VirtualLoop(1)

    async def whole() -> None:
        place = Place(loop)
        await place.begin()
        await story(place)
        await place.end()

    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


def test_nodes_have_the_kinds_and_data_of_kafkas() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.register()
        assert await member.claim(A) == rebalance_events.Claimed(member.client.session_id)
        assert await member.offsets.commit({A: 12}) == set()
        session = member.client.session_id
        for path, data, owner in (
            ("/consumers", None, 0),
            ("/consumers/g", b"", 0),
            ("/consumers/g/ids", b"", 0),
            ("/consumers/g/owners", None, 0),
            ("/consumers/g/owners/t", None, 0),
            (OWNER, b"c-0", session),
            ("/consumers/g/offsets", None, 0),
            ("/consumers/g/offsets/t", None, 0),
            (OFFSET, b"12", 0),
        ):
            found, stat = await place.root.get_data(path)
            assert (found, stat.ephemeral_owner) == (data, owner), path
            acl, _ = await place.root.get_acl(path)
            assert [(each.perms, each.scheme, each.id) for each in acl] == [(31, "world", "anyone")]
        _, stat = await place.root.get_data("/consumers/g/ids/c")
        assert stat.ephemeral_owner == session

    run(story)


def test_a_claim_is_all_or_nothing_and_names_the_owner() -> None:
    async def story(place: Place) -> None:
        first, second = await place.member("c"), await place.member("d")
        await first.register()
        await second.register()
        await first.claim(B)
        assert await second.claim(A, B) == rebalance_events.Refused(
            second.client.session_id, B, "c-0", is_live=True
        )
        assert await place.root.exists(OWNER) is None
        await place.root.delete("/consumers/g/ids/c")
        refused = await second.claim(A, B)
        assert isinstance(refused, rebalance_events.Refused)
        assert not refused.is_live

    run(story)


def test_a_claim_in_several_transactions_is_undone_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.zookeeper.claims.CLAIM_SLOTS", 1)

    async def story(place: Place) -> None:
        first, second = await place.member("c"), await place.member("d")
        await first.register()
        await first.claim(B)
        assert isinstance(await second.claim(A, B), rebalance_events.Refused)
        assert await place.root.exists(OWNER) is None

    run(story)


def test_a_claim_that_this_session_has_already_is_a_success() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        assert await member.claim(A, B) == rebalance_events.Claimed(member.client.session_id)

    run(story)


def test_a_claim_for_another_stream_of_this_session_is_replaced() -> None:
    """An operation of unknown outcome may have claimed the partition for that stream."""

    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        claimed = rebalance_events.Claimed(member.client.session_id)
        assert await member.claims.claim(member.client.session_id, {A: "c-1", B: "c-1"}) == claimed
        data, stat = await place.root.get_data(OWNER)
        # A commit checks that nobody has set the owner since its creation.
        assert (data, stat.version) == (b"c-1", 0)
        assert await member.offsets.commit({A: 1}) == set()

    run(story)


def test_the_same_text_of_another_session_is_not_ours() -> None:
    """Java takes it for its own, and loses it when that session ends (KAFKA-992, 1387)."""

    async def story(place: Place) -> None:
        older, member = await place.member("c"), await place.member("c")
        await older.register()
        await older.claim(A)
        refused = await member.claim(A)
        assert isinstance(refused, rebalance_events.Refused)
        assert not refused.is_live

    run(story)


def test_an_older_session_of_ours_is_replaced_with_its_claims() -> None:
    async def story(place: Place) -> None:
        older, member = await place.member("c"), await place.member("c")
        await older.register()
        await older.claim(A)
        await member.register(older.client.session_id, former=frozenset({A, B}))
        assert await place.root.exists(OWNER) is None
        _, stat = await place.root.get_data("/consumers/g/ids/c")
        assert stat.ephemeral_owner == member.client.session_id
        # Once more, in the same session.
        await member.register(older.client.session_id)

    run(story)


def test_another_member_with_our_id_is_awaited_and_then_refused() -> None:
    async def story(place: Place) -> None:
        older, member = await place.member("c"), await place.member("c")
        await older.register()
        with pytest.raises(ConfigurationError, match="another member 'c'"):
            await member.register()
        asyncio.get_running_loop().call_later(
            0.5, lambda: asyncio.ensure_future(older.client.close())
        )
        await member.register()

    run(story)


def test_a_release_deletes_claims_of_its_own_session_only() -> None:
    async def story(place: Place) -> None:
        first, second = await place.member("c"), await place.member("d")
        await first.claim(A)
        await second.claim(B)
        await second.claims.release([A, B])
        assert await place.root.exists(OWNER) is not None
        assert await place.root.exists("/consumers/g/owners/t/1") is None

    run(story)


def test_a_commit_of_a_former_owner_is_refused_even_before_the_first_commit_of_the_next() -> None:
    async def story(place: Place) -> None:
        first, second = await place.member("c"), await place.member("d")
        await first.claim(A)
        await first.offsets.commit({A: 5})
        versions = dict(first.offsets.versions)
        await first.claims.release([A])
        await second.claim(A)
        first.offsets.versions.update(versions)
        assert await first.offsets.commit({A: 9}) == {A}
        assert (await place.root.get_data(OFFSET))[0] == b"5"
        assert await second.offsets.commit({A: 6}) == set()
        await second.claims.release([A])
        assert await second.offsets.commit({A: 7}) == {A}
        assert (await place.root.get_data(OFFSET))[0] == b"6"

    run(story)


def test_an_own_offset_whose_answer_was_lost_is_replaced_by_a_smaller_one() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        await member.offsets.commit({A: 5})
        client = member.offsets._client
        real = client.multi

        async def lose_answer(operations: Sequence[Op]) -> None:
            if sent == 50:
                await real(operations)
            raise OperationError.of(ErrorCode.CONNECTION_LOSS)

        client.multi = lose_answer  # type: ignore[method-assign, assignment]
        for sent in (50, 60):
            with pytest.raises(OperationError):
                await member.offsets.commit({A: sent})
        client.multi = real  # type: ignore[method-assign]
        assert await member.offsets.commit({A: 12}) == set()
        assert (await place.root.get_data(OFFSET))[0] == b"12"

    run(story)


def test_an_offset_that_another_client_moved_forward_stays() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        await member.offsets.commit({A: 5})
        await place.root.set_data(OFFSET, b"50")
        for ours in (9, 10):
            assert await member.offsets.commit({A: ours}) == set()
            assert (await place.root.get_data(OFFSET))[0] == b"50"
        await place.root.set_data(OFFSET, b"3")
        assert await member.offsets.commit({A: 9}) == set()
        assert (await place.root.get_data(OFFSET))[0] == b"9"
        await place.root.delete(OFFSET)
        assert await member.offsets.commit({A: 10}) == set()
        assert (await place.root.get_data(OFFSET))[0] == b"10"

    run(story)


def test_a_larger_offset_that_another_client_created_first_stays() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        for parent in ("/consumers/g/offsets", "/consumers/g/offsets/t"):
            await place.root.create(parent)
        await place.root.create(OFFSET, b"50")
        for ours in (9, 10):
            assert await member.offsets.commit({A: ours}) == set()
            assert (await place.root.get_data(OFFSET))[0] == b"50"
        assert await member.offsets.commit({A: 51}) == set()
        assert (await place.root.get_data(OFFSET))[0] == b"51"

    run(story)


def test_an_offset_that_another_client_created_is_noticed() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        for parent in ("/consumers/g/offsets", "/consumers/g/offsets/t"):
            await place.root.create(parent)
        await place.root.create(OFFSET, b"7")
        assert await member.offsets.commit({A: 9}) == set()
        assert (await place.root.get_data(OFFSET))[0] == b"9"

    run(story)


MANY = [Slot(f"many-{number}", "0") for number in range(12)]
"""Partitions of more topics than there are attempts at a commit."""


async def written(place: Place, *slots: Slot) -> list[bytes | None]:
    paths = [consumer_nodes.offset("g", *slot) for slot in slots]
    return [(await place.root.get_data(path))[0] for path in paths]


def test_the_first_commit_of_a_group_covers_many_topics() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(*MANY)
        assert await member.offsets.commit(dict.fromkeys(MANY, 7)) == set()
        assert await written(place, *MANY) == [b"7"] * len(MANY)

    run(story)


def test_a_commit_notices_all_offsets_that_another_client_changed() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A, *MANY)
        await member.offsets.commit(dict.fromkeys([A, *MANY], 7))
        for slot in MANY:
            await place.root.set_data(consumer_nodes.offset("g", *slot), b"3")
        # The smaller offset of A is this member's wish, as after a seek: nobody changed its node.
        assert await member.offsets.commit({A: 5} | dict.fromkeys(MANY, 9)) == set()
        assert await written(place, A, *MANY) == [b"5", *[b"9"] * len(MANY)]

    run(story)


def test_a_commit_notices_all_claims_that_are_gone() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A, *MANY)
        for slot in MANY:
            await place.root.delete(consumer_nodes.owner("g", *slot))
        assert await member.offsets.commit(dict.fromkeys([A, *MANY], 7)) == set(MANY)
        assert await written(place, A) == [b"7"]

    run(story)


def test_a_commit_that_is_refused_at_every_attempt_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.zookeeper.offset_nodes.COMMIT_TRIES", 1)

    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        with pytest.raises(MultiError):
            await member.offsets.commit({A: 7})

    run(story)


@pytest.mark.parametrize("data", [b"", b"x", b"-1", None])
def test_a_node_that_holds_no_offset_counts_as_none(data: bytes | None) -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        await member.offsets.commit({A: 5})
        await place.root.set_data(OFFSET, data)
        stored = await member.offsets.read([A, B])
        node = stored[A]
        assert node is not None
        assert node.value is None
        assert stored[B] is None

    run(story)


def test_the_offset_of_a_former_topic_is_ignored_and_removed_by_the_claim() -> None:
    async def story(place: Place) -> None:
        first, second = await place.member("c"), await place.member("d")
        await first.claim(A)
        await first.offsets.commit({A: 500})
        await first.claims.release([A])
        await place.root.delete("/brokers/topics/t")
        await place.root.create("/brokers/topics/t", topic(2))
        view = await second.nodes.read_view(
            Registration({"t": 1}), Strategy.RANGE, exclude_internal=True
        )
        second.offsets.created = view.created
        stored = await second.offsets.read([A])
        node = stored[A]
        assert node is not None
        assert node.is_former
        assert await second.claim(A) == rebalance_events.Claimed(second.client.session_id)
        assert await place.root.exists(OFFSET) is None
        assert await second.offsets.commit({A: 1}) == set()
        assert (await place.root.get_data(OFFSET))[0] == b"1"

    run(story)


async def view_of(member: Member, registration: Registration, **options: object) -> GroupView:
    return await member.nodes.read_view(
        registration,
        options.get("strategy", Strategy.RANGE),  # type: ignore[arg-type]
        exclude_internal=True,
    )


def test_every_change_that_matters_is_watched() -> None:
    async def story(place: Place) -> None:
        member, other = await place.member("c"), await place.member("d")
        await member.register()

        async def changes(registration: Registration) -> int:
            place.changes = 0
            assert (await view_of(member, registration)).members
            await asyncio.sleep(0.1)
            return place.changes

        async def noticed() -> bool:
            await asyncio.sleep(0.1)
            return place.changes > 0

        assert await changes(Registration({"t": 1, "later": 1})) == 0
        await place.root.create("/brokers/topics/later", b"")
        assert await noticed()
        # Its creation is not complete: it has no partitions yet.
        assert await changes(Registration({"t": 1, "later": 1})) == 0
        await place.root.set_data("/brokers/topics/later", topic(1))
        assert await noticed()
        assert await changes(Registration({".*": 1}, Pattern.WHITE_LIST)) == 0
        await place.root.create("/brokers/topics/third", topic(1))
        assert await noticed()
        assert await changes(Registration({"t": 1})) == 0
        await other.register()
        assert await noticed()
        await place.root.delete("/brokers/ids/1")
        assert await changes(Registration({"t": 1})) == 0
        await place.root.create("/brokers/ids/2", b"{}")
        assert await noticed()

    run(story)


def test_a_malformed_registration_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.register()
        await place.root.create("/consumers/g/ids/pykafka:1", b"t")
        for _ in range(2):
            view = await member.nodes.read_view(
                Registration({"t": 1}), Strategy.ROUNDROBIN, exclude_internal=True
            )
            assert view.malformed == ["pykafka:1"]
            assert list(view.members) == ["c"]
        assert await GroupAdmin(place.root).verify("g") == [
            "the registration of pykafka:1 cannot be read",
            "t-0 has no owner",
            "t-1 has no owner",
        ]

    run(story)
    assert caplog.text.count("group.malformed_registration") == 1


def test_the_partitions_of_jafka_are_counted_per_broker() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c", Layout.JAFKA)
        await place.root.create("/brokers/topics/j")
        for broker, count in (("1", b"2"), ("0", b"1"), ("9", b"x")):
            await place.root.create(f"/brokers/topics/j/{broker}", count)
        await member.register()
        view = await member.nodes.read_view(
            Registration({"j": 1, "missing": 1}), Strategy.RANGE, exclude_internal=True
        )
        assert sorted(view.names["j"]) == ["0-0", "1-0", "1-1"]
        assert "missing" not in view.names
        assert (await place.root.get_data("/consumers/g/ids/c"))[0] == b'{"t":1}'

    run(story)


def test_groups_are_listed_changed_exported_and_deleted() -> None:
    async def story(place: Place) -> None:
        admin = GroupAdmin(place.root)
        member = await place.member("c")
        await member.register()
        await member.claim(A, B)
        await member.offsets.commit({A: 5})
        assert await admin.list_groups() == {"g": 1}
        held = await admin.describe("g")
        assert held.owners == {A: "c-0", B: "c-0"}
        assert held.offsets == {A: 5}
        assert await admin.verify("g") == []
        for change in (
            admin.delete("g"),
            admin.set_offsets("g", {A: 1}),
            admin.import_offsets([f"{OFFSET}:7"]),
            admin.require_empty("g"),
        ):
            with pytest.raises(LiveGroupError, match="1 members"):
                await change
        await member.client.close()
        assert await admin.export_offsets([]) == [f"{OFFSET}:5"]
        assert await admin.import_offsets([f"{OFFSET}:7\n", "", "nonsense"]) == {"g": 1}
        await admin.set_offsets("h", {B: 3})
        assert await admin.export_offsets(["h", "g"]) == [
            "/consumers/h/offsets/t/1:3",
            f"{OFFSET}:7",
        ]
        await admin.delete("h", "t")
        assert (await admin.describe("h")).offsets == {}
        await admin.delete("h")
        with pytest.raises(UnknownGroupError):
            await admin.describe("h")
        with pytest.raises(ConfigurationError, match="not the name of a topic"):
            await admin.delete("g", "../ids")
        with pytest.raises(ConfigurationError, match="no partition"):
            await admin.set_offsets("g", {Slot("t", "0-0"): 1})
        with pytest.raises(ConfigurationError, match="not the name of a group"):
            await admin.describe("../brokers")

    run(story)


def test_an_import_warns_of_topics_whose_creation_would_drop_the_offsets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = "/consumers/g/offsets/late/0:7"

    async def story(place: Place) -> None:
        groups = Groups(GroupAdmin(place.root), place.root, Layout.KAFKA, {})
        assert await import_old(groups, [f"{OFFSET}:7"]) == {"g": 1}
        assert "do not exist" not in capsys.readouterr().err
        assert await import_old(groups, [f"{OFFSET}:7", late]) == {"g": 2}
        warning = "1 of the topics do not exist yet, such as late: members drop these offsets"
        assert warning in capsys.readouterr().err
        await place.root.create("/brokers/topics/late", topic(1))
        member = await place.member("c")
        slot = Slot("late", "0")
        for expected in (None, 7):
            view = await view_of(member, Registration({"late": 1}))
            member.offsets.created = view.created
            node = (await member.offsets.read([slot]))[slot]
            assert node is not None
            assert node.value == expected
            assert await import_old(groups, [late]) == {"g": 1}
        assert "do not exist" not in capsys.readouterr().err
        jafka = Groups(GroupAdmin(place.root, Layout.JAFKA), place.root, Layout.JAFKA, {})
        await import_old(jafka, ["/consumers/g/offsets/later/0-0:7"])
        assert "do not exist" not in capsys.readouterr().err

    run(story)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "/consumers/g/offsets/t/0",
        "/consumers/g/offsets/t/0:-1",
        "/consumers/g/offsets/t/0:9999999999999999999",
        "/consumers/../offsets/t/0:1",
        "/consumers/g/offsets/t/0-0:1",
        "/brokers/ids/1:5",
        "/consumers/g/owners/t/0:1",
        "x" * 5000,
    ],
)
def test_a_file_with_an_odd_line_changes_nothing(line: str) -> None:
    async def story(place: Place) -> None:
        with pytest.raises(ConfigurationError, match="line 2"):
            await GroupAdmin(place.root).import_offsets([f"{OFFSET}:1", line])
        assert await place.root.exists("/consumers/g") is None

    run(story)


def test_verify_names_partitions_of_owners_that_are_no_members() -> None:
    async def story(place: Place) -> None:
        member, other = await place.member("c"), await place.member("d")
        await member.register()
        await other.claim(A, B)
        assert await GroupAdmin(place.root).verify("g") == [
            "the owner of t-0 is no member: d-0",
            "the owner of t-1 is no member: d-0",
        ]

    run(story)


def test_an_operation_in_a_session_that_ended_fails_and_is_not_repeated() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        await member.claim(A)
        await member.client.abandon()
        with pytest.raises(OperationError):
            await member.claims.release([A])

    run(story)


class Holder:
    """A consumer that reads nothing, and remembers its errors."""

    def __init__(self) -> None:
        self.errors: list[OttlaError] = []
        self.unknown: frozenset[Slot] = frozenset()
        """Partitions of which no broker knows yet."""
        self.started: list[frozenset[Slot]] = []

    async def drain(self, slots: frozenset[Slot]) -> None: ...

    async def start(self, slots: frozenset[Slot]) -> frozenset[Slot]:
        self.started.append(slots)
        return slots & self.unknown

    def lose(self, slots: frozenset[Slot]) -> None: ...

    def hold(self) -> None: ...

    def open(self) -> None: ...

    def fail(self, error: OttlaError) -> None:
        self.errors.append(error)


async def joined(
    place: Place,
    holder: Holder,
    consumer: str,
    backoff_ms: int,
    client: Client | None = None,
) -> Membership:
    membership = Membership(
        client or await place.client(),
        holder,
        Rebalance(max_tries=4, backoff_ms=backoff_ms),
        group="g",
        consumer=consumer,
        registration=Registration({"t": 1}),
        layout=Layout.KAFKA,
        strategy=Strategy.RANGE,
        exclude_internal=True,
        session_timeout_ms=3000,
        now_ms=lambda: 1,
    )
    membership.start()
    return membership


def test_a_formula_that_differs_is_named_and_the_member_gives_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(place: Place) -> None:
        stubborn = await place.member("d")
        await stubborn.register()
        await stubborn.claim(A, B)
        holder = Holder()
        membership = await joined(place, holder, "c", 1_000)
        await asyncio.sleep(20)
        assert [type(each) for each in holder.errors] == [TooManyConflictsError]
        assert membership.conflict_count == 4
        assert membership.machine.phase is Phase.GIVEN_UP
        assert await place.root.get_children("/consumers/g/ids") == ["d"]
        await stubborn.claims.release([A, B])
        membership.feed(rebalance_events.Resumed())
        await asyncio.sleep(5)
        assert list(membership.machine.held) == [A]
        await membership.stop(place.loop.time() + 10)
        assert await place.root.exists(OWNER) is None

    run(story)
    assert caplog.text.count("group.formulas_differ") == 1


class CutOff(Holder):
    """Loses the coordinator when its member gives up."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.network = place.loop.network

    def fail(self, error: OttlaError) -> None:
        super().fail(error)
        self.network.unreachable.add(ADDRESS)
        self.network.cut_all()


def test_a_member_that_gives_up_without_a_connection_releases_its_claims_later() -> None:
    async def story(place: Place) -> None:
        await place.root.set_data("/brokers/topics/t", topic(1))
        holder = CutOff(place)
        membership = await joined(place, holder, "c", 1_000)
        stubborn = await place.member("d")
        # Its registration moves no partition.
        data = Registration({"u": 1}).encode(Layout.KAFKA, 1)
        await stubborn.nodes.register("d", data, frozenset(), frozenset(), 1.0)
        await stubborn.claim(B)
        # Virtual time for the first partition.
        await asyncio.sleep(1)
        assert list(membership.machine.held) == [A]
        await place.root.set_data("/brokers/topics/t", topic(2))
        while not holder.errors:  # noqa: ASYNC110
            # Virtual time for the conflicts.
            await asyncio.sleep(0.1)
        # Virtual time in which the session survives.
        await asyncio.sleep(1)
        place.loop.network.unreachable.discard(ADDRESS)
        # Virtual time for the next attempt.
        await asyncio.sleep(2)
        assert membership.machine.session == membership._client.session_id
        assert await place.root.exists(OWNER) is None
        assert await place.root.get_children("/consumers/g/ids") == ["d"]
        assert len(holder.errors) == 1
        await membership.stop(place.loop.time() + 10)

    run(story)


def test_a_member_waits_for_many_owners_that_release_one_after_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(place: Place) -> None:
        count = 8
        await place.root.set_data("/brokers/topics/t", topic(count))
        others = [await place.member(f"d{number}") for number in range(count)]
        for number, other in enumerate(others):
            # Members that are about to leave the group: they read another topic already.
            data = Registration({"u": 1}).encode(Layout.KAFKA, 1)
            await other.nodes.register(other.name, data, frozenset(), frozenset(), 1.0)
            await other.claim(Slot("t", str(number)))
        holder = Holder()
        membership = await joined(place, holder, "c", 60_000)
        for number, other in enumerate(others):
            # Virtual time in which an owner drains its records.
            await asyncio.sleep(1)
            await other.claims.release([Slot("t", str(number))])
        # Virtual time for the claim.
        await asyncio.sleep(1)
        assert holder.errors == []
        assert len(membership.machine.held) == count
        await membership.stop(place.loop.time() + 10)

    run(story)
    assert "group.formulas_differ" not in caplog.text


def test_a_partition_of_which_no_broker_knows_yet_is_started_later() -> None:
    async def story(place: Place) -> None:
        holder = Holder()
        holder.unknown = frozenset({B})
        membership = await joined(place, holder, "c", 1_000)
        # Virtual time for some attempts.
        await asyncio.sleep(5)
        assert list(membership.machine.held) == [A]
        holder.unknown = frozenset()
        # Virtual time for one more.
        await asyncio.sleep(2)
        assert sorted(membership.machine.held) == [A, B]
        assert membership.machine.phase is Phase.OWNING
        first, *others = holder.started
        assert (first, set(others)) == (frozenset({A, B}), {frozenset({B})})
        await membership.stop(place.loop.time() + 10)
        assert await place.root.get_children("/consumers/g/owners/t") == []

    run(story)


def test_a_member_that_waits_for_a_claim_leaves_at_once() -> None:
    async def story(place: Place) -> None:
        other = await place.member("d")
        await other.register()
        await other.claim(A, B)
        membership = await joined(place, Holder(), "c", 60_000)
        await asyncio.sleep(5)
        assert membership.machine.phase is Phase.WAITING
        began_s = place.loop.time()
        await membership.stop(began_s + 30)
        assert place.loop.time() - began_s < 1

    run(story)


def test_a_claim_is_made_as_soon_as_the_blocking_one_is_gone() -> None:
    async def story(place: Place) -> None:
        other = await place.member("d")
        await other.claim(A)
        membership = await joined(place, Holder(), "c", 60_000)
        await asyncio.sleep(5)
        assert not membership.machine.held
        await other.client.close()
        await asyncio.sleep(1)
        assert sorted(membership.machine.held) == [A, B]
        await membership.stop(place.loop.time() + 10)

    run(story)


def test_a_member_joins_in_a_new_session_if_the_first_has_ended() -> None:
    async def story(place: Place) -> None:
        client = await place.client()
        place.loop.network.unreachable.add(ADDRESS)
        await asyncio.sleep(10)
        assert client.state is SessionState.EXPIRED
        membership = await joined(place, Holder(), "c", 1_000, client)
        await asyncio.sleep(1)
        place.loop.network.unreachable.discard(ADDRESS)
        await asyncio.sleep(10)
        assert sorted(membership.machine.held) == [A, B]
        place.loop.network.unreachable.add(ADDRESS)
        await asyncio.sleep(10)
        assert not membership.machine.held
        began_s = place.loop.time()
        await membership.stop(began_s + 30)
        assert place.loop.time() - began_s < 1
        place.loop.network.unreachable.discard(ADDRESS)

    run(story)


@pytest.mark.parametrize(("lingers", "rebalances"), [(False, 1), (True, 2)])
def test_a_short_cut_costs_a_member_nothing(lingers: bool, rebalances: int) -> None:
    """The sessions of brokers linger: they end 250 ms after a cut, and would be lost here."""

    async def story(place: Place) -> None:
        client = ZooKeeperConsumer(ADDRESS, group_id="g", session_timeout_ms=3_000)._client
        # The thread would keep time of its own.
        client._has_heartbeat_thread = False
        client.session._has_linger |= lingers
        place.clients.append(client)
        await client.connect()
        session = client.session_id
        membership = await joined(place, Holder(), "c", 1_000, client)
        await asyncio.sleep(1)
        assert sorted(membership.machine.held) == [A, B]
        place.loop.network.unreachable.add(ADDRESS)
        place.loop.network.cut_all()
        await asyncio.sleep(1)
        place.loop.network.unreachable.discard(ADDRESS)
        await asyncio.sleep(5)
        assert sorted(membership.machine.held) == [A, B]
        assert (membership.machine.session == session) is not lingers
        assert membership.rebalance_count == rebalances
        await membership.stop(place.loop.time() + 10)

    run(story)


def test_a_group_that_cannot_be_read_with_certainty_is_left() -> None:
    async def story(place: Place) -> None:
        other = await place.member("d")
        await other.register()
        await place.root.create(
            "/consumers/g/ids/e", b'{"pattern":"white_list","subscription":{"[a&&b]":1}}'
        )
        holder = Holder()
        membership = await joined(place, holder, "c", 1_000)
        await asyncio.sleep(5)
        assert "read differently" in str(holder.errors)
        assert membership.machine.phase is Phase.GIVEN_UP
        assert await place.root.exists("/consumers/g/ids/c") is None
        await membership.stop(place.loop.time() + 10)

    run(story)


def test_a_member_whose_registration_was_overwritten_leaves_and_the_next_read_joins_again() -> None:
    async def story(place: Place) -> None:
        holder = Holder()
        membership = await joined(place, holder, "c", 1_000)
        # Virtual time for the claim.
        await asyncio.sleep(1)
        assert sorted(membership.machine.held) == [A, B]
        await place.root.set_data("/consumers/g/ids/c", b"{}")
        await place.root.set_data("/brokers/topics/t", topic(1))
        # Virtual time in which a member might register again and again.
        await asyncio.sleep(5)
        assert [type(each) for each in holder.errors] == [ConfigurationError]
        assert "registration of 'c' cannot be read" in str(holder.errors[0])
        assert membership.machine.phase is Phase.GIVEN_UP
        assert await place.root.get_children("/consumers/g/ids") == []
        assert await place.root.exists(OWNER) is None
        membership.feed(rebalance_events.Resumed())
        # Virtual time for the next attempt.
        await asyncio.sleep(1)
        assert list(membership.machine.held) == [A]
        assert len(holder.errors) == 1
        await membership.stop(place.loop.time() + 10)

    run(story)


def test_a_member_that_gives_up_leaves_the_registration_of_another_with_its_id() -> None:
    async def story(place: Place) -> None:
        first = await joined(place, Holder(), "c", 1_000)
        # Virtual time for the claim.
        await asyncio.sleep(1)
        holder = Holder()
        second = await joined(place, holder, "c", 1_000)
        # Virtual time for the end of its patience, which is two session timeouts.
        await asyncio.sleep(8)
        assert "another member 'c'" in str(holder.errors)
        assert second.machine.phase is Phase.GIVEN_UP
        assert await place.root.get_children("/consumers/g/ids") == ["c"]
        assert first.rebalance_count == 1
        _, stat = await place.root.get_data("/consumers/g/ids/c")
        assert stat.ephemeral_owner == first.machine.session
        assert stat.czxid < (await place.root.get_data(OWNER))[1].czxid
        await first.stop(place.loop.time() + 10)
        await second.stop(place.loop.time() + 10)

    run(story)


def test_a_deleted_group_has_no_members() -> None:
    async def story(place: Place) -> None:
        member = await place.member("c")
        view = await member.nodes.read_view(
            Registration({"t": 1}), Strategy.RANGE, exclude_internal=True
        )
        assert view.members == {}

    run(story)
