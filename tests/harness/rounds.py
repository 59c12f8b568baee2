"""Runs the rounds of a nemesis on a cluster. Edge: kills, pauses, repairs."""

import asyncio
import sys
from collections.abc import Callable, Sequence

from tests.harness.cluster import ClusterProcesses
from tests.harness.nemesis import Fault, Round
from tests.harness.observer import Observer
from tests.harness.proof import HEAL_TIMEOUT_S, Scenario


def play(drawn: Sequence[Round], kill_coordinator: Callable[[], None] | None = None) -> Scenario:
    """Return the scenario of these rounds; `kill_coordinator` handles a foreign coordinator."""

    async def scenario(cluster: ClusterProcesses, observer: Observer) -> None:
        player = _Player(cluster, observer, kill_coordinator or cluster.restart_coordinator)
        for number, each in enumerate(drawn):
            sys.stderr.write(f"round {number}: {each}\n")
            await player.play(each)
        await asyncio.to_thread(player.heal)

    return scenario


class _Player:
    """Runs rounds on a cluster."""

    def __init__(
        self, cluster: ClusterProcesses, observer: Observer, kill_coordinator: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._observer = observer
        self._kill_coordinator = kill_coordinator

    async def play(self, this: Round) -> None:
        """Begin the fault, wait, and end it; then wait for recovery, if the round says so."""
        duration_s = this.duration_ms / 1000
        controller = await self._observer.wait_for_controller()
        victims = self._victims(this, controller)
        match this.fault:
            case Fault.KILL_BROKER | Fault.KILL_CONTROLLER | Fault.KILL_TWO:
                for victim in victims:
                    self._cluster.kill(victim)
            case Fault.PAUSE_BROKER | Fault.PAUSE_CONTROLLER:
                for victim in victims:
                    self._cluster.pause(victim)
            case Fault.STOP_BROKER | Fault.STOP_CONTROLLER:
                for victim in victims:
                    code = await asyncio.to_thread(self._cluster.stop, victim)
                    assert code == 0, f"broker {victim} stopped with exit code {code}"
            case Fault.KILL_COORDINATOR:
                await asyncio.to_thread(self._kill_coordinator)
        # The seed determines the duration; there is no condition to wait for.
        await asyncio.sleep(duration_s)
        await asyncio.to_thread(self.heal)
        if this.heals:
            await self._observer.wait_until_whole(len(self._cluster.numbers), HEAL_TIMEOUT_S)

    def heal(self) -> None:
        """Resume or restart all brokers."""
        for number in [*self._cluster.paused]:
            self._cluster.resume(number)
        if down := set(self._cluster.numbers) - set(self._cluster.running):
            self._cluster.start_brokers(*sorted(down))

    def _victims(self, this: Round, controller: int) -> list[int]:
        running = self._cluster.running
        if this.fault in (
            Fault.KILL_CONTROLLER,
            Fault.PAUSE_CONTROLLER,
            Fault.STOP_CONTROLLER,
        ):
            return [controller] if controller in running else running[:1]
        first = this.dice % len(running)
        count = 2 if this.fault is Fault.KILL_TWO else 1
        return [running[(first + step) % len(running)] for step in range(count)]
