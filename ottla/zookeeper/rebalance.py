"""A member's part in the rebalances of its group (decision): events in, effects out.

One attempt: read the group (which arms the watches), drain and release the partitions that move
away, claim the new ones in one transaction, read them. Partitions that keep their thread are
neither stopped nor released. A change that arrives meanwhile sets one flag, which the end of the
attempt looks at.

Every effect carries the session for which it was meant, and an event of an older session is
dropped: an operation that is repeated in the next session deletes claims of others. Tries count
only conflicts with a live owner that keeps its claim for the whole back-off: a dead owner's claim
ends with its session, and a rebalance has many owners that are about to release their claims.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.rebalance_events import (
    Changed,
    Claim,
    Claimed,
    Closing,
    Drain,
    Drained,
    Due,
    Effect,
    Event,
    Expired,
    Failed,
    GaveUp,
    GiveUp,
    Hold,
    Impossible,
    Leave,
    Lose,
    Lost,
    Missing,
    Moved,
    Open,
    Refused,
    Register,
    Registered,
    Release,
    Released,
    Restored,
    Resumed,
    SessionBegan,
    Start,
    Started,
    Suspected,
    View,
    Viewed,
    Wait,
)

QUIET_MS: Final = 100
"""Delay before an attempt, in which further changes are awaited: each costs every member a view."""
RETRY_MS: Final = 500
"""Delay after an operation whose outcome is unknown."""


class Phase(Enum):
    """State of a member; all but OUT, OWNING, GIVEN_UP and CLOSED wait for the end of an effect."""

    OUT = auto()
    REGISTERING = auto()
    LOOKING = auto()
    DRAINING = auto()
    RELEASING = auto()
    CLAIMING = auto()
    STARTING = auto()
    OWNING = auto()
    WAITING = auto()
    GIVEN_UP = auto()
    CLOSED = auto()


class Rebalance:
    """State of one member."""

    def __init__(
        self,
        *,
        max_tries: int,
        backoff_ms: int,
        keep_unmoved: bool = True,
        holds_on_suspect: bool = True,
    ) -> None:
        """Give up at the last of `max_tries` conflicts, if the others lasted for `backoff_ms` each.

        Without `keep_unmoved` every rebalance releases all partitions first, as Java's members do.
        Without `holds_on_suspect` reading continues while the session may have ended.
        """
        self.phase = Phase.OUT
        self.session = 0
        self.held: dict[Slot, str] = {}
        """The claims of this session, with the thread that owns each."""
        self.try_count = 0
        self._max_tries = max_tries
        self._backoff_ms = backoff_ms
        self._keep_unmoved = keep_unmoved
        self._holds_on_suspect = holds_on_suspect
        self._has_changed = False
        self._is_held = False
        self._is_registered = False
        self._awaits_live_owner = False
        self._give: frozenset[Slot] = frozenset()
        self._take: dict[Slot, str] = {}
        self._doubtful: frozenset[Slot] = frozenset()
        """Claims of this session that may exist: the outcome of an operation is unknown."""
        self._former: frozenset[Slot] = frozenset()
        """Claims that the last session may still have."""

    def on(self, event: Event) -> list[Effect]:
        """Return the effects of an event, in their order."""
        if self.phase is Phase.CLOSED or getattr(event, "session", self.session) != self.session:
            return self._began(event) if isinstance(event, SessionBegan) else []
        match event:
            case Changed():
                return self._changed()
            case Lost(slots=slots):
                return self._lost(frozenset(slots))
            case Suspected() | Restored() | Expired() | Closing() | Resumed():
                return self._whole(event)
        return self._end(event)

    # Events of the whole member

    def _began(self, event: SessionBegan) -> list[Effect]:
        if self.phase is Phase.CLOSED:
            return []
        assert self.phase is Phase.OUT, "a session begins after the end of the last one"
        self.session = event.session
        return self._register()

    def _changed(self) -> list[Effect]:
        if self.phase is Phase.OWNING:
            return self._wait(QUIET_MS)
        self._has_changed = self.phase is not Phase.OUT
        return []

    def _lost(self, slots: frozenset[Slot]) -> list[Effect]:
        gone = slots & self.held.keys()
        if not gone:
            return []
        for slot in gone:
            del self.held[slot]
        return [Lose(gone), *self._changed()]

    def _whole(self, event: Suspected | Restored | Expired | Closing | Resumed) -> list[Effect]:
        match event:
            case Suspected():
                return self._hold()
            case Restored():
                return self._open()
            case Expired():
                return self._expired()
            case Closing():
                self.phase = Phase.CLOSED
                return [Leave(self.session, self._claims())]
            case Resumed():
                return self._register() if self.phase is Phase.GIVEN_UP else []

    def _hold(self) -> list[Effect]:
        if self._is_held or not self._holds_on_suspect:
            return []
        self._is_held = True
        return [Hold()]

    def _open(self) -> list[Effect]:
        if not self._is_held:
            return []
        self._is_held = False
        return [Open()]

    def _expired(self) -> list[Effect]:
        # With the claims that may have been applied: they are as much this member's.
        self._former |= self.held.keys() | self._take.keys() | self._doubtful
        lost = frozenset(self.held)
        self.held = {}
        self._take = {}
        self._doubtful = frozenset()
        self.session = self.try_count = 0
        self.phase = Phase.OUT
        self._has_changed = self._is_registered = False
        return [*([Lose(lost)] if lost else []), *self._open()]

    # The end of an effect

    def _end(self, event: Event) -> list[Effect]:
        match (self.phase, event):
            case (Phase.REGISTERING, Registered()):
                self._is_registered = True
                self._former = frozenset()
                return self._look()
            case (Phase.LOOKING, Viewed(wanted=wanted, has_brokers=has_brokers)):
                return self._viewed(wanted) if has_brokers else self._settle()
            case (Phase.LOOKING, Missing()):
                return self._register()
            case (Phase.DRAINING, Drained()):
                self.phase = Phase.RELEASING
                return [Release(self.session, self._give)]
            case (Phase.RELEASING, Released()):
                self._forget_given()
                self._doubtful -= self._give
                return self._claim()
            case (Phase.CLAIMING, Claimed()):
                self.held |= self._take
                self._doubtful -= self._take.keys()
                self.phase = Phase.STARTING
                slots, self._take = frozenset(self._take), {}
                return [Start(self.session, slots)]
            case (Phase.CLAIMING, Refused() as refused):
                return self._refused(refused)
            case (Phase.CLAIMING, Moved()):
                return self._wait(QUIET_MS)
            case (Phase.STARTING, Started(unknown=unknown)):
                return self._started(unknown & self.held.keys())
            case (Phase.WAITING, Due(is_early=is_early)):
                self.try_count += self._awaits_live_owner and not is_early
                return self._look() if self._is_registered else self._register()
            case (_, Impossible()):
                return self._give_up()
            case (Phase.GIVEN_UP, Failed()):
                return [Wait(self.session, RETRY_MS)]
            case (Phase.GIVEN_UP, Due()):
                # Without the conflict, which was raised already.
                return [GiveUp(self.session, self._doubtful)]
            case (_, GaveUp()):
                # Perhaps the member has resumed since, but has done nothing yet.
                self._doubtful = frozenset()
            case (_, Failed()):
                return self._failed()
        return []

    def _failed(self) -> list[Effect]:
        """Try the attempt again, which claims or releases the claims of unknown fate."""
        if self.phase in (Phase.DRAINING, Phase.RELEASING):
            self._forget_given()
            self._doubtful |= self._give
        elif self.phase is Phase.CLAIMING:
            self._doubtful |= self._take.keys()
        self._take = {}
        return self._wait(RETRY_MS)

    def _started(self, unknown: frozenset[Slot]) -> list[Effect]:
        """Look again soon if partitions are `unknown`: the next claim finds them claimed."""
        if not unknown:
            return self._settle()
        self.held = {slot: self.held[slot] for slot in self.held if slot not in unknown}
        self._doubtful |= unknown
        return self._wait(RETRY_MS)

    def _forget_given(self) -> None:
        self.held = {slot: self.held[slot] for slot in self.held if slot not in self._give}

    def _claims(self) -> frozenset[Slot]:
        return self._doubtful | self.held.keys()

    def _register(self) -> list[Effect]:
        self.phase = Phase.REGISTERING
        self._is_registered = False
        return [Register(self.session, self._former)]

    def _look(self) -> list[Effect]:
        # Cleared before the reads: a change after it may be one that they miss.
        self._has_changed = False
        self.phase = Phase.LOOKING
        return [View(self.session)]

    def _viewed(self, wanted: Mapping[Slot, str]) -> list[Effect]:
        kept = {slot for slot, thread in self.held.items() if wanted.get(slot) == thread}
        is_unmoved = kept == self.held.keys() and self._claims() == wanted.keys()
        if not (self._keep_unmoved or is_unmoved):
            kept = set()
        self._give = frozenset(self.held.keys() - kept) | (self._doubtful - wanted.keys())
        self._take = {slot: wanted[slot] for slot in wanted.keys() - kept}
        if self._give:
            self.phase = Phase.DRAINING
            return [Drain(self.session, self._give)]
        return self._claim()

    def _claim(self) -> list[Effect]:
        if not self._take:
            return self._settle()
        self.phase = Phase.CLAIMING
        return [Claim(self.session, self._take)]

    def _refused(self, refused: Refused) -> list[Effect]:
        if refused.is_live and self.try_count + 1 >= self._max_tries:
            return self._give_up(refused)
        return self._wait(self._backoff_ms, refused)

    def _give_up(self, conflict: Refused | None = None) -> list[Effect]:
        self.phase = Phase.GIVEN_UP
        self._is_registered = False
        self.try_count = 0
        self._doubtful, self.held, self._take = self._claims(), {}, {}
        return [GiveUp(self.session, self._doubtful, conflict)]

    def _settle(self) -> list[Effect]:
        self.try_count = 0
        if self._has_changed:
            return self._wait(QUIET_MS)
        self.phase = Phase.OWNING
        return []

    def _wait(self, delay_ms: int, refused: Refused | None = None) -> list[Effect]:
        self.phase = Phase.WAITING
        self._awaits_live_owner = refused is not None and refused.is_live
        return [Wait(self.session, delay_ms, None if refused is None else refused.slot)]
