"""A cluster of brokers for tests (composition): `ottla.testing.Cluster`."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from ottla.testing.coordinator import CoordinatorServer
from ottla.testing.entering import enter_in_thread, leave_in_thread
from ottla.testing.errors import ServerError, StateError
from ottla.testing.launching import shared_launcher
from ottla.testing.member import Member
from ottla.testing.network.control import NetworkControl
from ottla.testing.network.links import CLIENTS, COORDINATOR, Party
from ottla.testing.ready_cluster import RETRY_S, controller_of, wait_for_complete_metadata
from ottla.testing.settings import broker_settings, check_settings
from ottla.testing.topics import Topics, TopicService
from ottla.testing.workplace import Workplace

T = TypeVar("T")

DEFAULT_BROKERS: Final = 3
SESSION_FILE: Final = "coordinator-session"
SESSION_END_TIMEOUT_S: Final = 30.0
COMPLETE_TIMEOUT_S: Final = 60.0


class Cluster:
    """Brokers with ids from 1, and their coordinator. Use with `with` or `async with`.

        with Cluster(brokers=3) as cluster:
            topic = cluster.topics().create(replication_factor=3)
            cluster.kill(cluster.controller())

    The methods block until they have taken effect. In an event loop, call the ones
    that start or stop processes with `asyncio.to_thread`.
    """

    def __init__(
        self,
        brokers: int = DEFAULT_BROKERS,
        settings: Mapping[str, str] | None = None,
        *,
        directory: Path | str | None = None,
        network: bool = False,
    ) -> None:
        """Start nothing yet.

        Args:
            brokers: Number of brokers.
            settings: Keys of every broker, with Kafka's names, such as `{"num.partitions": "3"}`.
            directory: Directory of their data and logs, which then stay; by default a temporary
                one, which is deleted.
            network: Lead all connections through a network whose faults `cut`, `isolate` and `slow`
                control.

        Raises:
            ValueError: a setting is one that the class chooses, or there is no broker.
        """
        check_settings(settings or {})
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, got {brokers}")
        self.broker_ids = tuple(range(1, brokers + 1))
        self._settings = {**broker_settings(brokers), **(settings or {})}
        self._workplace = Workplace(directory)
        self._has_network = network
        self._network: NetworkControl | None = None
        self._coordinator: CoordinatorServer | None = None
        self._members: dict[int, Member] = {}
        self._topics = TopicService(lambda: self.bootstrap)

    def __enter__(self) -> Self:
        self._workplace.require_closed()
        try:
            self._open(self._workplace.open())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await enter_in_thread(self)

    async def __aexit__(self, *_: object) -> None:
        await leave_in_thread(self)

    def _open(self, path: Path) -> None:
        if self._has_network:
            self._network = NetworkControl(path)
        self._coordinator = CoordinatorServer(path / "coordinator")
        self._coordinator.server.launch()
        for broker_id in self.broker_ids:
            connect = self._coordinator.address_for(broker_id, self._network)
            settings = {**self._settings, "zookeeper.connect": connect}
            place = path / f"broker-{broker_id}"
            self._members[broker_id] = Member(broker_id, place, settings, self._network)
            self._members[broker_id].server.launch()
        self._coordinator.server.wait_until_ready()
        for member in self._members.values():
            member.server.wait_until_ready()
        self.wait_until_complete()

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers for clients: `HOST:PORT,HOST:PORT,...`."""
        return ",".join(self.address(broker_id) for broker_id in self.broker_ids)

    def address(self, broker_id: int) -> str:
        """Return `HOST:PORT` of a broker for clients; it stays the same over restarts."""
        return self._member(broker_id).bootstrap

    def pid(self, broker_id: int) -> int:
        """Return the process id of a broker."""
        return self._member(broker_id).server.pid

    def log_dir(self, broker_id: int) -> Path:
        """Return the directory with the files of the partitions of a broker."""
        return self._member(broker_id).log_dir

    def log_path(self, broker_id: int) -> Path:
        """Return the file with the log of a broker's process, one JSON object per line."""
        return self._member(broker_id).server.log_path

    def running(self) -> tuple[int, ...]:
        """Return the brokers whose process runs, paused ones included."""
        return tuple(each for each in self.broker_ids if self._member(each).server.is_running)

    def controller(self) -> int:
        """Return the id of the controller, waiting until there is one that runs.

        Raises:
            ServerError: no running broker knows one within `COMPLETE_TIMEOUT_S`.
        """
        return self._run(self._controller(), "there is no controller")

    async def _controller(self) -> int:
        from ottla.client.errors import OttlaError

        while True:
            for broker_id in self.running():
                try:
                    found = await controller_of(self.address(broker_id))
                except OttlaError:
                    continue
                if found in self.running():
                    return found
            await asyncio.sleep(RETRY_S)

    def wait_until_complete(self) -> None:
        """Wait until all running brokers know each other, and one of them as the controller.

        Raises:
            ServerError: they do not within `COMPLETE_TIMEOUT_S`.
        """
        waiting = wait_for_complete_metadata(
            lambda: {each: self.address(each) for each in self.running()}
        )
        self._run(waiting, "the brokers do not know each other")

    def topics(self, name: str = "test") -> Topics:
        """Return a maker of topics and names that nothing else uses, to be closed after use."""
        return self._topics.topics(name)

    def kill(self, broker_id: int) -> None:
        """End a broker at once, as `kill -9` or a crash does."""
        self._member(broker_id).server.kill()

    def stop(self, broker_id: int) -> int:
        """Stop a broker in order, so that it hands over its partitions; return its exit code."""
        return self._member(broker_id).server.stop()

    def start(self, broker_id: int) -> None:
        """Start a broker again on its data and port, after `kill` or `stop`."""
        self._member(broker_id).server.start()

    def pause(self, broker_id: int) -> None:
        """Suspend a broker: it keeps its connections, and does nothing."""
        self._member(broker_id).server.pause()

    def resume(self, broker_id: int) -> None:
        """End `pause`."""
        self._member(broker_id).server.resume()

    def fill_disk(self, broker_id: int) -> None:
        """Let the disk of a broker appear full: produce requests get KAFKA_STORAGE_ERROR.

        The end of the process ends it, too: its next start finds space.
        """
        self._member(broker_id).server.fill_disk()

    def free_disk(self, broker_id: int) -> None:
        """End `fill_disk`; the broker accepts records again within seconds."""
        self._member(broker_id).server.free_disk()

    def expire_session(self, broker_id: int) -> None:
        """Let the coordinator forget a broker, which lives: its partitions get other leaders.

        The broker registers again at once, as after an expiry. If it controls the cluster, it may
        do so before the next controller looks, and keep its partitions.

        Raises:
            ServerError: the session was not ended; the message has the reason.
        """
        member = self._member(broker_id)
        output = member.server.directory / "session-end.log"
        words = [str(member.log_dir / SESSION_FILE), self._its_coordinator.address]
        # It may have the reason of an earlier failure.
        output.unlink(missing_ok=True)
        launcher = shared_launcher()
        was_paused = member.server.is_paused
        # Otherwise the broker could take the session back before it is closed.
        member.server.pause()
        try:
            pid = launcher.start("session-end", words, output)
            code = launcher.exit_code(pid, SESSION_END_TIMEOUT_S)
        finally:
            if not was_paused:
                member.server.resume()
        if code != 0:
            reason = output.read_text(encoding="utf-8").strip()
            raise ServerError(reason or "the coordinator did not end the session")

    def kill_coordinator(self) -> None:
        """End the coordinator at once: no leader can be elected until `start_coordinator`."""
        self._its_coordinator.server.kill()

    def start_coordinator(self) -> None:
        """Start the coordinator again on its data."""
        self._its_coordinator.server.start()

    def cut(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Let no data pass between two sets of parties, until `heal`. Needs `network=True`.

        A party is a broker's id, `CLIENTS` or `COORDINATOR`. Connections stay open.
        """
        self._net.cut(map(self._party, some), [*map(self._party, others)])

    def isolate(self, broker_id: int) -> None:
        """Cut a broker from all others, the coordinator and clients, until `heal`."""
        others = [each for each in self.broker_ids if each != broker_id]
        self.cut([broker_id], [*others, COORDINATOR, CLIENTS])

    def slow(self, some: Iterable[int], others: Iterable[int], delay_s: float) -> None:
        """Delay data between two sets of parties, until `heal`. Needs `network=True`."""
        self._net.slow(map(self._party, some), [*map(self._party, others)], delay_s)

    def heal(self) -> None:
        """End `cut`, `isolate` and `slow`; data that could not pass arrives."""
        self._net.heal()

    def close(self) -> None:
        """Kill all processes and delete the temporary directory. `with` calls this."""
        if self._workplace.is_inherited:
            # A forked child leaves the `with` block, too, and its parent still uses them.
            return
        # Later callbacks run first, and all of them run, even if one fails.
        with ExitStack() as closing:
            closing.callback(self._workplace.close)
            if self._network is not None:
                closing.callback(self._network.close)
            if self._coordinator is not None:
                closing.callback(self._coordinator.close)
            for member in self._members.values():
                closing.callback(member.close)
            can_answer = any(member.server.can_answer for member in self._members.values())
            is_cleared = self._workplace.is_kept and can_answer
            closing.callback(self._topics.close, is_cleared=is_cleared)
        self._network = None

    def _run(self, work: Coroutine[Any, Any, T], failure: str) -> T:
        async def run_in_time() -> T:
            async with asyncio.timeout(COMPLETE_TIMEOUT_S):
                return await work

        try:
            return self._topics.calls.run(run_in_time())
        except TimeoutError:
            raise ServerError(f"{failure} after {COMPLETE_TIMEOUT_S} s") from None

    def _member(self, broker_id: int) -> Member:
        if not self._members:
            raise StateError("the cluster was not started: use it with `with` or `async with`")
        if broker_id not in self._members:
            raise StateError(f"there is no broker {broker_id}: the ids are {self.broker_ids}")
        return self._members[broker_id]

    def _party(self, number: int) -> Party:
        if number not in (CLIENTS, COORDINATOR):
            self._member(number)
        return Party(number)

    @property
    def _its_coordinator(self) -> CoordinatorServer:
        if self._coordinator is None:
            raise StateError("the cluster was not started: use it with `with` or `async with`")
        return self._coordinator

    @property
    def _net(self) -> NetworkControl:
        if self._network is None:
            raise StateError("faults of the network need Cluster(network=True)")
        return self._network
