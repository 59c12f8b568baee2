"""The machine of a member: the order of its effects, and each rule by a test."""

import itertools
import random

import pytest

from ottla.zookeeper import rebalance_events as r
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.rebalance import QUIET_MS, RETRY_MS, Phase, Rebalance

S = 7
A, B, C = Slot("t", "0"), Slot("t", "1"), Slot("t", "2")


def machine(**options: bool) -> Rebalance:
    return Rebalance(max_tries=4, backoff_ms=2000, **options)


def owning(*slots: Slot, **options: bool) -> Rebalance:
    """Return a machine that owns `slots`."""
    made = machine(**options)
    made.on(r.SessionBegan(S))
    made.on(r.Registered(S))
    made.on(r.Viewed(S, dict.fromkeys(slots, "c-0")))
    if slots:
        made.on(r.Claimed(S))
        made.on(r.Started(S))
    assert made.phase is Phase.OWNING
    return made


def look_again(made: Rebalance) -> None:
    assert made.on(r.Changed()) == [r.Wait(S, QUIET_MS)]
    assert made.on(r.Due(S)) == [r.View(S)]


def test_a_member_registers_looks_claims_and_starts() -> None:
    made = machine()
    assert made.on(r.SessionBegan(S)) == [r.Register(S, frozenset())]
    assert made.on(r.Registered(S)) == [r.View(S)]
    assert made.on(r.Viewed(S, {A: "c-0"})) == [r.Claim(S, {A: "c-0"})]
    assert made.on(r.Claimed(S)) == [r.Start(S, frozenset({A}))]
    assert made.on(r.Started(S)) == []
    assert made.held == {A: "c-0"}
    assert made.phase is Phase.OWNING


def test_partitions_move_in_the_order_drain_release_claim_start() -> None:
    made = owning(A, B)
    look_again(made)
    assert made.on(r.Viewed(S, {B: "c-0", C: "c-0"})) == [r.Drain(S, frozenset({A}))]
    assert made.on(r.Drained(S)) == [r.Release(S, frozenset({A}))]
    assert made.on(r.Released(S)) == [r.Claim(S, {C: "c-0"})]
    assert made.on(r.Claimed(S)) == [r.Start(S, frozenset({C}))]
    assert set(made.held) == {B, C}


def test_a_partition_that_only_moves_to_another_stream_is_claimed_for_it() -> None:
    made = owning(A)
    look_again(made)
    assert made.on(r.Viewed(S, {A: "c-1"})) == [r.Drain(S, frozenset({A}))]
    made.on(r.Drained(S))
    assert made.on(r.Released(S)) == [r.Claim(S, {A: "c-1"})]


def test_without_keep_unmoved_everything_is_released_first() -> None:
    made = owning(A, B, keep_unmoved=False)
    look_again(made)
    assert made.on(r.Viewed(S, {B: "c-0"})) == [r.Drain(S, frozenset({A, B}))]
    made.on(r.Drained(S))
    assert made.on(r.Released(S)) == [r.Claim(S, {B: "c-0"})]


@pytest.mark.parametrize("keep_unmoved", [True, False])
def test_a_view_that_moves_nothing_ends_the_attempt(keep_unmoved: bool) -> None:
    made = owning(A, keep_unmoved=keep_unmoved)
    look_again(made)
    assert made.on(r.Viewed(S, {A: "c-0"})) == []
    assert made.phase is Phase.OWNING


def test_a_change_during_an_attempt_is_looked_at_afterwards() -> None:
    made = owning(A)
    look_again(made)
    assert made.on(r.Changed()) == []
    assert made.on(r.Changed()) == []
    assert made.on(r.Viewed(S, {A: "c-0"})) == [r.Wait(S, QUIET_MS)]
    made.on(r.Due(S))
    assert made.on(r.Viewed(S, {A: "c-0"})) == []


def test_a_change_before_the_view_costs_no_further_one() -> None:
    made = owning()
    made.on(r.Changed())
    made.on(r.Changed())
    made.on(r.Due(S))
    assert made.on(r.Viewed(S, {})) == []


def test_without_brokers_the_member_waits_for_a_change() -> None:
    made = machine()
    made.on(r.SessionBegan(S))
    made.on(r.Registered(S))
    assert made.on(r.Viewed(S, {}, has_brokers=False)) == []
    look_again(made)


def test_conflicts_with_live_owners_are_tries_and_the_last_gives_up() -> None:
    made = owning(B)
    look_again(made)
    refused = r.Refused(S, A, "d-0", is_live=True)
    for _ in range(3):
        made.on(r.Viewed(S, {A: "c-0", B: "c-0"}))
        assert made.on(refused) == [r.Wait(S, 2000, A)]
        assert made.on(r.Due(S)) == [r.View(S)]
    made.on(r.Viewed(S, {A: "c-0", B: "c-0"}))
    assert made.on(refused) == [r.GiveUp(S, frozenset({B}), refused)]
    assert made.phase is Phase.GIVEN_UP
    assert made.on(r.Changed()) == []
    assert made.on(r.GaveUp(S)) == []
    assert made.on(r.Resumed()) == [r.Register(S, frozenset())]
    assert made.on(r.Registered(S)) == [r.View(S)]


def given_up() -> Rebalance:
    """Return a machine that owned a partition when it gave up."""
    made = owning(A)
    look_again(made)
    assert made.on(r.Impossible(S)) == [r.GiveUp(S, frozenset({A}))]
    return made


def test_giving_up_is_repeated_until_the_claims_are_released() -> None:
    made = given_up()
    for _ in range(2):
        assert made.on(r.Failed(S)) == [r.Wait(S, RETRY_MS)]
        assert made.on(r.Due(S)) == [r.GiveUp(S, frozenset({A}))]
    assert made.on(r.GaveUp(S)) == []
    assert made.on(r.Closing()) == [r.Leave(S, frozenset())]


def test_claims_that_giving_up_has_not_released_are_released_after_a_resumption() -> None:
    made = given_up()
    made.on(r.Failed(S))
    assert made.on(r.Resumed()) == [r.Register(S, frozenset())]
    assert made.on(r.Due(S)) == []
    assert made.on(r.Registered(S)) == [r.View(S)]
    assert made.on(r.Viewed(S, {})) == [r.Drain(S, frozenset({A}))]


def test_a_member_may_resume_before_its_claims_are_released() -> None:
    made = given_up()
    assert made.on(r.Resumed()) == [r.Register(S, frozenset())]
    assert made.on(r.GaveUp(S)) == []
    made.on(r.Registered(S))
    assert made.on(r.Viewed(S, {})) == []


def test_a_conflict_that_ends_during_the_back_off_costs_no_try() -> None:
    made = owning()
    look_again(made)
    for turn in range(10):
        made.on(r.Viewed(S, {A: "c-0"}))
        refused = r.Refused(S, A, f"d{turn}-0", is_live=True)
        assert made.on(refused) == [r.Wait(S, 2000, A)]
        assert made.on(r.Due(S, is_early=True)) == [r.View(S)]
    assert made.try_count == 0


def test_a_retry_after_a_conflict_costs_no_try_of_its_own() -> None:
    made = owning()
    look_again(made)
    made.on(r.Viewed(S, {A: "c-0"}))
    made.on(r.Refused(S, A, "d-0", is_live=True))
    # The claim of the other member could not be watched.
    assert made.on(r.Failed(S)) == [r.Wait(S, RETRY_MS)]
    made.on(r.Due(S))
    assert made.try_count == 0


def test_the_claim_of_a_dead_owner_costs_no_try() -> None:
    made = owning()
    look_again(made)
    for _ in range(10):
        made.on(r.Viewed(S, {A: "c-0"}))
        assert made.on(r.Refused(S, A, "d-0", is_live=False)) == [r.Wait(S, 2000, A)]
        made.on(r.Due(S))
    assert made.try_count == 0


def test_a_node_that_moved_costs_no_try() -> None:
    made = owning()
    look_again(made)
    made.on(r.Viewed(S, {A: "c-0"}))
    assert made.on(r.Moved(S)) == [r.Wait(S, QUIET_MS)]
    assert made.try_count == 0


def test_a_claim_of_unknown_outcome_is_released_if_it_is_no_longer_wanted() -> None:
    made = owning()
    look_again(made)
    made.on(r.Viewed(S, {A: "c-0"}))
    assert made.on(r.Failed(S)) == [r.Wait(S, RETRY_MS)]
    made.on(r.Due(S))
    assert made.on(r.Viewed(S, {})) == [r.Drain(S, frozenset({A}))]
    made.on(r.Drained(S))
    assert made.on(r.Released(S)) == []
    look_again(made)
    assert made.on(r.Viewed(S, {})) == []


def test_a_claim_of_unknown_outcome_is_claimed_again_if_wanted() -> None:
    made = owning()
    look_again(made)
    made.on(r.Viewed(S, {A: "c-0"}))
    made.on(r.Failed(S))
    made.on(r.Due(S))
    assert made.on(r.Viewed(S, {A: "c-0"})) == [r.Claim(S, {A: "c-0"})]
    made.on(r.Claimed(S))
    made.on(r.Started(S))
    look_again(made)
    assert made.on(r.Viewed(S, {A: "c-0"})) == []


@pytest.mark.parametrize("is_drained", [True, False])
def test_a_release_of_unknown_outcome_does_not_count_as_owned(is_drained: bool) -> None:
    made = owning(A)
    look_again(made)
    made.on(r.Viewed(S, {}))
    if is_drained:
        made.on(r.Drained(S))
    made.on(r.Failed(S))
    assert made.held == {}
    made.on(r.Due(S))
    assert made.on(r.Viewed(S, {A: "c-0"})) == [r.Claim(S, {A: "c-0"})]


def test_a_claimed_partition_that_is_unknown_to_the_brokers_is_started_again() -> None:
    made = owning()
    look_again(made)
    made.on(r.Viewed(S, {A: "c-0", B: "c-0"}))
    made.on(r.Claimed(S))
    assert made.on(r.Started(S, frozenset({B, C}))) == [r.Wait(S, RETRY_MS)]
    assert made.held == {A: "c-0"}
    made.on(r.Due(S))
    assert made.on(r.Viewed(S, {A: "c-0", B: "c-0"})) == [r.Claim(S, {B: "c-0"})]
    assert made.on(r.Claimed(S)) == [r.Start(S, frozenset({B}))]
    made.on(r.Started(S, frozenset({B})))
    made.on(r.Due(S))
    # It moves away in the meantime.
    assert made.on(r.Viewed(S, {A: "c-0"})) == [r.Drain(S, frozenset({B}))]
    made.on(r.Drained(S))
    assert made.on(r.Released(S)) == []


def test_without_keep_unmoved_an_unknown_partition_is_started_again_by_itself() -> None:
    made = owning(A, keep_unmoved=False)
    look_again(made)
    assert made.on(r.Viewed(S, {A: "c-0", B: "c-0"})) == [r.Drain(S, frozenset({A}))]
    made.on(r.Drained(S))
    made.on(r.Released(S))
    made.on(r.Claimed(S))
    for _ in range(2):
        made.on(r.Started(S, frozenset({B})))
        made.on(r.Due(S))
        assert made.on(r.Viewed(S, {A: "c-0", B: "c-0"})) == [r.Claim(S, {B: "c-0"})]
        assert made.on(r.Claimed(S)) == [r.Start(S, frozenset({B}))]
    made.on(r.Started(S, frozenset({B})))
    made.on(r.Due(S))
    # It moves away in the meantime, which is a rebalance.
    assert made.on(r.Viewed(S, {A: "c-0"})) == [r.Drain(S, frozenset({A, B}))]


def test_a_registration_of_unknown_outcome_is_repeated() -> None:
    made = machine()
    made.on(r.SessionBegan(S))
    assert made.on(r.Failed(S)) == [r.Wait(S, RETRY_MS)]
    assert made.on(r.Due(S)) == [r.Register(S, frozenset())]


def test_a_deleted_registration_is_made_again() -> None:
    made = owning(A)
    look_again(made)
    assert made.on(r.Missing(S)) == [r.Register(S, frozenset())]
    made.on(r.Registered(S))
    assert made.on(r.Viewed(S, {A: "c-0"})) == []


def test_a_group_that_cannot_be_joined_is_left() -> None:
    made = owning(A)
    look_again(made)
    assert made.on(r.Impossible(S)) == [r.GiveUp(S, frozenset({A}))]


def test_the_end_of_the_session_takes_everything_and_deletes_nothing() -> None:
    made = owning(A)
    assert made.on(r.Expired()) == [r.Lose(frozenset({A}))]
    assert made.phase is Phase.OUT
    assert made.on(r.Changed()) == []
    assert made.on(r.SessionBegan(8)) == [r.Register(8, frozenset({A}))]
    assert made.on(r.Registered(8)) == [r.View(8)]
    # The older session is no longer concerned.
    assert made.on(r.Expired()) == []
    assert made.on(r.SessionBegan(9)) == [r.Register(9, frozenset())]


def test_claims_under_way_at_the_end_of_a_session_may_be_its_own() -> None:
    made = owning(A)
    look_again(made)
    made.on(r.Viewed(S, {A: "c-0", B: "c-0"}))
    made.on(r.Expired())
    assert made.on(r.SessionBegan(8)) == [r.Register(8, frozenset({A, B}))]


def test_events_of_an_older_session_are_dropped() -> None:
    made = owning(A)
    look_again(made)
    made.on(r.Viewed(S, {B: "c-0"}))
    made.on(r.Expired())
    made.on(r.SessionBegan(8))
    for event in (
        r.Drained(S),
        r.Released(S),
        r.Claimed(S),
        r.Failed(S),
        r.Lost(S, {A}),
        r.Due(S),
        r.Registered(S),
    ):
        assert made.on(event) == []
    assert made.phase is Phase.REGISTERING


def test_claims_that_others_deleted_are_lost_and_looked_at() -> None:
    made = owning(A, B)
    assert made.on(r.Lost(S, {A, C})) == [r.Lose(frozenset({A})), r.Wait(S, QUIET_MS)]
    assert made.on(r.Lost(S, {A})) == []
    made.on(r.Due(S))
    assert made.on(r.Viewed(S, {A: "c-0", B: "c-0"})) == [r.Claim(S, {A: "c-0"})]


def test_a_session_in_doubt_holds_the_records() -> None:
    made = owning(A)
    assert made.on(r.Suspected()) == [r.Hold()]
    assert made.on(r.Suspected()) == []
    assert made.on(r.Restored()) == [r.Open()]
    assert made.on(r.Restored()) == []
    made.on(r.Suspected())
    assert made.on(r.Expired()) == [r.Lose(frozenset({A})), r.Open()]


def test_on_request_a_session_in_doubt_holds_nothing() -> None:
    made = owning(A, holds_on_suspect=False)
    assert made.on(r.Suspected()) == []
    assert made.on(r.Restored()) == []


def test_an_event_that_the_phase_does_not_await_has_no_effect() -> None:
    made = owning(A)
    for event in (r.Drained(S), r.Released(S), r.Claimed(S), r.Started(S), r.Viewed(S, {})):
        assert made.on(event) == []
    assert made.on(r.Resumed()) == []
    assert made.held == {A: "c-0"}


def test_closing_is_heard_in_every_phase() -> None:
    made = owning(A)
    look_again(made)
    made.on(r.Viewed(S, {A: "c-0", B: "c-0"}))
    made.on(r.Failed(S))
    assert made.on(r.Closing()) == [r.Leave(S, frozenset({A, B}))]
    for event in (r.Changed(), r.Due(S), r.Expired(), r.SessionBegan(9), r.Closing()):
        assert made.on(event) == []


@pytest.mark.parametrize("seed", range(50))
def test_any_order_of_events_ends_in_the_formula(seed: int) -> None:
    dice = random.Random(seed)
    made = machine(keep_unmoved=dice.random() < 0.5)
    sessions = itertools.count(1)
    wanted = {A: "c-0", B: "c-0"}
    effects = made.on(r.SessionBegan(next(sessions)))
    claims: dict[Slot, int] = {}

    def answer(effect: r.Effect) -> r.Event | None:
        if isinstance(effect, r.Lose | r.Hold | r.Open):
            return None
        session = effect.session
        fails = dice.random() < 0.15
        match effect:
            case r.Release(slots=slots):
                for slot in slots:
                    claims.pop(slot, None)
                return r.Failed(session) if fails else r.Released(session)
            case r.Claim(wanted=some):
                claims.update(dict.fromkeys(some, session))
                return r.Failed(session) if fails else r.Claimed(session)
            case r.GiveUp(slots=slots):
                if fails:
                    return r.Failed(session)
                for slot in slots:
                    claims.pop(slot, None)
                return r.GaveUp(session)
            case r.View():
                return r.Impossible(session) if fails else r.Viewed(session, wanted)
            case r.Register():
                return r.Registered(session)
            case r.Drain():
                return r.Drained(session)
            case r.Start():
                return r.Started(session)
            case _:
                return r.Due(session)

    for step in range(400):
        if step < 300 and dice.random() < 0.2:
            match dice.randrange(5):
                case 0:
                    wanted = {
                        slot: f"c-{dice.randrange(2)}" for slot in (A, B, C) if dice.random() < 0.6
                    }
                    effects += made.on(r.Changed())
                case 1:
                    made.on(r.Expired())
                    claims.clear()
                    effects = made.on(r.SessionBegan(next(sessions)))
                case 2:
                    effects += made.on(r.Suspected())
                case 3:
                    effects += made.on(r.Restored())
                case 4:
                    effects += made.on(r.Resumed())
        elif effects:
            event = answer(effects.pop(0))
            effects += made.on(event) if event is not None else []
        else:
            effects += made.on(r.Resumed())
    assert made.phase is Phase.OWNING
    assert made.held == wanted
    assert set(claims) == set(wanted)
