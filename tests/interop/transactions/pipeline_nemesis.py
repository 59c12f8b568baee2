"""Runs rounds of outages on a cluster and its pipelines. Edge: kills, pauses, stops, starts."""

import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import TRANSACTIONS_TOPIC
from tests.conftest import READY_EVENT
from tests.harness.cluster import ClusterProcesses
from tests.harness.observer import Observer, State
from tests.interop.transactions.outages import Outage, Role, Round, chosen
from tests.interop.transactions.pipelines import Pipelines

COORDINATOR: Final = "coordinator"
BROKER: Final = "broker-"
LOOK_S: Final = 0.5
"""The state of the cluster may be out of reach, as its coordinator is down or paused."""
TURN_S: Final = 0.05
BUSY_S: Final = 60.0
READY_TIMEOUT_S: Final = 60.0
STARTS: Final = 10
PASSING: Final = ("session_expired", "is registered already", "connection_loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The acts on one process; each of them blocks until it is done."""

    kill: Callable[[], object]
    stop: Callable[[], object]
    start: Callable[[], object]
    pause: Callable[[], object]
    resume: Callable[[], object]


class Nemesis:
    """Begins outages, one per round, and ends each of them after its time.

    At most one broker is out at a time, but the previous one may still be catching up.
    """

    def __init__(
        self, cluster: ClusterProcesses, observer: Observer, pipelines: Pipelines, log: Path
    ) -> None:
        self._cluster = cluster
        self._observer = observer
        self._pipelines = pipelines
        self._log = log
        self._began_s = time.monotonic()
        self._partitions: Mapping[TopicPartition, State] = {}
        self._controller = cluster.numbers[0]
        self._outages: dict[str, asyncio.Task[None]] = {}
        self.counts: Counter[str] = Counter()

    async def play(self, first: int, drawn: Sequence[Round]) -> None:
        """Play rounds, and wait for the end of their outages."""
        for number, each in enumerate(drawn, first):
            self._require_running_brokers()
            name = await self._target(each)
            self._report(f"round {number}: {each.outage.value} of {name} ({each.role.value})")
            self.counts[f"{each.outage.value} of {each.role.value}"] += 1
            if name in self._outages:
                self._outages.pop(name).result()
            self._outages[name] = asyncio.create_task(self._run(name, each))
            # The seed determines the pace; there is no condition to wait for.
            await asyncio.sleep(each.gap_s)
        await asyncio.gather(*self._outages.values())
        self._outages.clear()

    def _report(self, line: str) -> None:
        text = f"{time.monotonic() - self._began_s:8.2f} s {line}\n"
        sys.stderr.write(text)
        with self._log.open("a") as log:
            log.write(text)

    def _require_running_brokers(self) -> None:
        """Fail if a broker has ended by itself, or an outage failed."""
        for name in [name for name, task in self._outages.items() if task.done()]:
            self._outages.pop(name).result()
        for number, broker in list(self._cluster.brokers.items()):
            if f"{BROKER}{number}" not in self._outages:
                code = broker.process.poll()
                assert code is None, f"broker {number} has ended by itself: {code}"

    async def _target(self, this: Round) -> str:
        """Return the target of a round, once it is free."""
        deadline_s = time.monotonic() + BUSY_S
        while time.monotonic() < deadline_s:
            await self._look()
            free = [each for each in self._candidates(this.role) if self._is_free(each)]
            if free:
                return chosen(free, this.dice)
            await asyncio.sleep(TURN_S)
        raise AssertionError(f"no target for {this} within {BUSY_S} s: {list(self._outages)}")

    def _is_free(self, name: str) -> bool:
        running = {each for each, task in self._outages.items() if not task.done()}
        if name.startswith(BROKER):
            return not any(each.startswith(BROKER) for each in running)
        return name not in running

    async def _look(self) -> None:
        """Read leaders and controller, or keep the known ones while they cannot be read."""
        observer = self._observer
        with contextlib.suppress(TimeoutError, AssertionError):
            async with asyncio.timeout(LOOK_S):
                self._controller = await observer.wait_for_controller()
                self._partitions = await observer.wait_for(
                    lambda: observer.partitions(internal=True), bool
                )

    def _candidates(self, role: Role) -> list[str]:
        match role:
            case Role.CLIENT:
                return sorted(self._pipelines.members)
            case Role.COORDINATOR:
                return [COORDINATOR]
            case Role.CONTROLLER:
                return [f"{BROKER}{self._controller}"]
            case Role.LEADER | Role.TRANSACTIONS:
                is_wanted = role is Role.TRANSACTIONS
                return [
                    f"{BROKER}{state.leader}"
                    for place, state in sorted(self._partitions.items())
                    if (place.topic == TRANSACTIONS_TOPIC) is is_wanted and state.leader >= 0
                ]

    async def _run(self, name: str, this: Round) -> None:
        target = self._acts_on(name)
        match this.outage:
            case Outage.KILL:
                await asyncio.to_thread(target.kill)
            case Outage.STOP:
                await asyncio.to_thread(target.stop)
            case Outage.PAUSE:
                target.pause()
        # The seed determines the duration; there is no condition to wait for.
        await asyncio.sleep(this.duration_s)
        if this.outage is Outage.PAUSE:
            target.resume()
        else:
            await asyncio.to_thread(target.start)
        if name in self._pipelines.members:
            self._pipelines.give_back(name)

    def _acts_on(self, name: str) -> Target:
        if name in self._pipelines.members:
            member = self._pipelines.take(name)
            return Target(
                kill=member.kill,
                stop=member.stop,
                start=member.start,
                pause=member.pause,
                resume=member.resume,
            )
        if name == COORDINATOR:
            return self._acts_on_coordinator()
        return self._acts_on_broker(int(name.removeprefix(BROKER)))

    def _acts_on_coordinator(self) -> Target:
        coordinator = self._cluster.coordinator
        assert coordinator is not None
        return Target(
            kill=coordinator.kill,
            stop=coordinator.stop,
            start=coordinator.start,
            pause=lambda: coordinator.signal(signal.SIGSTOP),
            resume=lambda: coordinator.signal(signal.SIGCONT),
        )

    def _acts_on_broker(self, number: int) -> Target:
        cluster = self._cluster

        def stop() -> None:
            code = cluster.stop(number)
            assert code == 0, f"broker {number} stopped with exit code {code}"

        return Target(
            kill=lambda: cluster.kill(number),
            stop=stop,
            start=lambda: self._start_broker(number),
            pause=lambda: cluster.pause(number),
            resume=lambda: cluster.resume(number),
        )

    def _start_broker(self, number: int) -> None:
        """Start a broker until it runs, as a supervisor would.

        As with Kafka, a start fails if the session expires during it, for example while the
        coordinator is paused, and if the session of the killed process has not expired yet.
        """
        for _ in range(STARTS):
            broker = self._cluster.launch(number)
            try:
                broker.wait_for_event(READY_EVENT, READY_TIMEOUT_S)
            except AssertionError:
                reasons = [
                    str(event["error"])
                    for event in list(broker.events)
                    if event.get("event") == "broker.not_started"
                ]
                if not reasons or not any(map(reasons[0].__contains__, PASSING)):
                    raise
                self._cluster.kill(number)
                self._report(f"start of broker-{number} failed: {reasons[0]}")
                self.counts["failed start of a broker"] += 1
            else:
                return
        raise AssertionError(f"broker {number} did not start in {STARTS} attempts")
