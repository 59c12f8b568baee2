"""A group against a naive model of it, over generated sequences of events.

The model follows the guarantees in Kafka's documentation, and is independent of the group's data
structures: it has sets of ids, a generation, and the members that have joined and synced. Besides,
invariants must hold after every event. Deadlines pass only by explicit rules.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from broker.groups.group_effects import JoinResult, SyncResult
from broker.groups.members import NEW_MEMBER_TIMEOUT_MS
from broker.groups.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from kafkawire.errors import ErrorCode
from tests.unit.broker.groups.group_driver import DELAY_MS, RANGE, REBALANCE_MS, SESSION_MS, World

NONE = ErrorCode.NONE
PROTOCOLS = (RANGE, (("sticky", b"s"), *RANGE), (*RANGE, ("sticky", b"s")))
MAX_MEMBERS = 5
ANYBODY = st.integers(0, MAX_MEMBERS + 1)
STRANGER = "stranger"


class Model:
    """The guarantees for members."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.pending: set[str] = set()
        self.joined: set[str] = set()
        self.generation = 0
        self.phase = "empty"
        """empty, gathering (for the first time), joining, assigning or stable"""
        self.leader: str | None = None
        self.assigned: dict[str, bytes] = {}

    def begin_join(self) -> None:
        """Require all members to rejoin, unless a rebalance is in progress."""
        if self.phase == "empty":
            self.phase = "gathering"
        elif self.phase != "gathering":
            if self.phase in ("assigning", "stable"):
                self.joined = set()
            self.phase = "joining"
        self.end_join_if_complete()

    def end_join_if_complete(self) -> None:
        if self.phase == "joining" and self.joined == self.members and not self.pending:
            self.begin_generation()

    def begin_generation(self) -> None:
        self.members &= self.joined
        self.generation += 1
        self.phase = "assigning" if self.members else "empty"
        self.assigned = {}
        if self.leader not in self.members:
            self.leader = None

    def drop(self, member_id: str) -> None:
        self.members.discard(member_id)
        self.joined.discard(member_id)
        if self.phase in ("assigning", "stable"):
            self.begin_join()
        self.end_join_if_complete()

    def member_error(self, member_id: str, generation: int) -> ErrorCode:
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION


class GroupMachine(RuleBasedStateMachine):
    """Applies the same events to group and model, and compares the responses."""

    @initialize()
    def begin(self) -> None:
        self.world, self.model = World(max_size=MAX_MEMBERS), Model()
        self.joins: dict[str, list[JoinResult]] = {}
        self.syncs: dict[str, list[SyncResult]] = {}
        self.told: dict[tuple[int, str], bytes] = {}

    def pick(self, number: int) -> str:
        """Return a member, an assigned id, or an unknown id."""
        ids = [*sorted(self.model.members), *sorted(self.model.pending), STRANGER]
        return ids[number % len(ids)]

    # Actions of members

    @rule(protocols=st.sampled_from(PROTOCOLS))
    def join_as_new_member(self, protocols: tuple[tuple[str, bytes], ...]) -> None:
        model, waits_before = self.model, set(self.world.group.members.joining)
        joined_count = len(model.joined) if model.phase in ("joining", "gathering") else None
        is_full = model.phase != "empty" and (
            (len(model.members) if joined_count is None else joined_count) >= MAX_MEMBERS
        )
        answers = self.world.join(protocols=protocols)
        if is_full:
            assert answers[0].error is ErrorCode.GROUP_MAX_SIZE_REACHED
            return
        new = set(self.world.group.members.joining) - waits_before
        member_id = new.pop() if new else answers[0].member_id
        if model.phase in ("assigning", "stable"):
            model.joined = set()
        model.members.add(member_id)
        model.joined.add(member_id)
        joined = set(model.joined)
        self.joins[member_id] = answers
        if model.phase in ("assigning", "stable"):
            model.phase = "joining"
            model.joined = joined
            model.end_join_if_complete()
        else:
            model.begin_join()

    @rule()
    def ask_for_an_id(self) -> None:
        model = self.model
        counted = model.joined if model.phase in ("joining", "gathering") else model.members
        [answer] = self.world.join(requires_known_id=True)
        if model.phase != "empty" and len(counted) >= MAX_MEMBERS:
            assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
            return
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
        self.model.pending.add(answer.member_id)

    @rule(number=ANYBODY)
    def heartbeat(self, number: int) -> None:
        member_id = self.pick(number)
        expected = self.model.member_error(member_id, self.model.generation)
        if expected is NONE and self.model.phase in ("joining", "gathering"):
            expected = ErrorCode.REBALANCE_IN_PROGRESS
        assert self.world.heartbeat(member_id, self.model.generation) is expected

    @rule(number=ANYBODY, back=st.integers(-1, 2))
    def commit(self, number: int, back: int) -> None:
        member_id = self.pick(number)
        generation = self.model.generation - back
        expected = self.model.member_error(member_id, generation)
        if self.model.phase == "empty" and generation < 0:
            expected = NONE
        elif expected is NONE and self.model.phase == "assigning":
            expected = ErrorCode.REBALANCE_IN_PROGRESS
        assert self.world.commit(member_id, generation) is expected

    @rule(number=ANYBODY)
    def leave(self, number: int) -> None:
        member_id = self.pick(number)
        if member_id in self.model.pending:
            expected = NONE
            self.model.pending.discard(member_id)
            self.model.end_join_if_complete()
        elif member_id in self.model.members:
            expected = NONE
            self.model.drop(member_id)
        else:
            expected = ErrorCode.UNKNOWN_MEMBER_ID
        assert self.world.leave(member_id) is expected

    @rule(number=ANYBODY)
    def awaited_member_leaves(self, number: int) -> None:
        missing = sorted(self.model.members - self.model.joined)
        if self.model.phase == "joining" and missing:
            self.leave(sorted(self.model.members).index(missing[number % len(missing)]))

    @rule(number=ANYBODY)
    def join_again(self, number: int) -> None:
        """Rejoin with unchanged metadata."""
        member_id = self.pick(number)
        model, group = self.model, self.world.group
        if member_id not in model.members:
            return
        old_phase = model.phase
        is_leader = group.members.leader_id == member_id
        counted = len(model.joined) if old_phase in ("joining", "gathering") else 0
        if (
            old_phase in ("joining", "gathering")
            and member_id not in model.joined
            and (counted >= MAX_MEMBERS)
        ):
            return
        answers = self.world.join(member_id, protocols=group.members[member_id].protocols)
        if old_phase == "assigning" or (old_phase == "stable" and not is_leader):
            assert answers[0].error is NONE
            assert answers[0].generation_id == model.generation
            return
        self.joins[member_id] = answers
        if old_phase == "stable":
            model.joined = {member_id}
            model.phase = "joining"
        model.joined.add(member_id)
        model.end_join_if_complete()

    @rule(number=ANYBODY, back=st.integers(0, 1))
    def sync(self, number: int, back: int) -> None:
        member_id = self.pick(number)
        model, group = self.model, self.world.group
        generation = model.generation - back
        expected = model.member_error(member_id, generation)
        if expected is NONE and model.phase in ("joining", "gathering"):
            expected = ErrorCode.REBALANCE_IN_PROGRESS
        shares = {each: f"{generation}:{each}".encode() for each in model.members}
        is_leader = group.members.leader_id == member_id
        answers = self.world.sync(member_id, shares if is_leader else {}, generation_id=generation)
        if expected is not NONE:
            assert answers[0].error is expected
            return
        if model.phase == "assigning" and not is_leader:
            assert answers == []
            self.syncs[member_id] = answers
            return
        if model.phase == "assigning":
            model.phase, model.assigned = "stable", shares
        assert answers[0].assignment == model.assigned[member_id]

    @rule()
    def settle_down(self) -> None:
        """Let all members do the expected steps."""
        self.let_the_first_wait_end()
        for number in range(len(self.model.members)):
            if self.model.phase == "joining" and self.pick(number) not in self.model.joined:
                self.join_again(number)
        leader = self.world.group.members.leader_id
        if self.model.phase == "assigning" and leader is not None:
            self.sync(sorted(self.model.members).index(leader), 0)

    # Passing of time

    @rule()
    def let_the_first_wait_end(self) -> None:
        if self.model.phase != "gathering":
            return
        for member_id in self.model.members - self.model.joined:
            self.world.heartbeat(member_id)
        # Each new member may prolong the delay; no session expires that soon.
        for _ in range(REBALANCE_MS // DELAY_MS):
            if self.world.group.state is PREPARING:
                self.world.pass_time(DELAY_MS)
        self.model.pending &= self.world.group.members.pending
        self.model.begin_generation()

    @rule()
    def let_the_rebalance_time_out(self) -> None:
        """Complete a rebalance without members that are alive but do not rejoin."""
        model, group = self.model, self.world.group
        if model.phase != "joining":
            return
        for _ in range(2 * REBALANCE_MS // SESSION_MS):
            if group.state is PREPARING:
                for member_id in model.members - model.joined:
                    self.world.heartbeat(member_id)
                self.world.pass_time(SESSION_MS // 2)
        # The number of the remaining ones depends on the times of their requests.
        model.pending &= group.members.pending
        model.begin_generation()

    @rule(whether=st.integers(0, 9))
    def let_everybody_fall_silent(self, whether: int) -> None:
        if whether:
            return
        self.world.pass_time(2 * REBALANCE_MS + NEW_MEMBER_TIMEOUT_MS + SESSION_MS)
        self.model.pending.clear()
        self.model.members.clear()
        self.model.joined.clear()
        self.model.phase = "empty"
        self.model.generation = self.world.group.generation_id

    # Invariants

    @invariant()
    def agrees_on_the_phase(self) -> None:
        names = {
            "empty": EMPTY,
            "gathering": PREPARING,
            "joining": PREPARING,
            "assigning": COMPLETING,
            "stable": STABLE,
        }
        group, model = self.world.group, self.model
        assert group.state is names[model.phase], (group.state, model.phase)
        assert group.generation_id == model.generation
        assert {member.member_id for member in group.members} == model.members
        assert group.members.pending == model.pending
        assert group.state is not DEAD

    @invariant()
    def has_a_leader_among_its_members(self) -> None:
        members = self.world.group.members
        assert (members.leader_id is None) == (len(members) == 0)
        assert members.leader_id is None or members.leader_id in members

    @invariant()
    def answers_nobody_twice_and_nobody_wrongly(self) -> None:
        for member_id, answers in self.joins.items():
            assert len(answers) <= 1, (member_id, answers)
            for answer in answers:
                if answer.error is NONE:
                    assert answer.member_id == member_id
                    assert (answer.leader_id == member_id) == bool(answer.members)
        for answers_to_sync in self.syncs.values():
            assert len(answers_to_sync) <= 1

    @invariant()
    def keeps_nobody_waiting_for_nothing(self) -> None:
        group = self.world.group
        if group.state in (EMPTY, STABLE):
            assert not group.members.joining
            assert not group.members.syncing
        if group.state in (PREPARING, COMPLETING):
            assert group.deadlines.next_ms is not None, "somebody may never come"

    @invariant()
    def gives_one_assignment_per_member_and_generation(self) -> None:
        group = self.world.group
        if group.state is not STABLE:
            return
        for member in group.members:
            key = (group.generation_id, member.member_id)
            assert self.told.setdefault(key, member.assignment) == member.assignment


GroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestGroup = GroupMachine.TestCase
