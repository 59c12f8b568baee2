"""One broker for tests (composition): `ottla.testing.Broker`."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from ottla.testing.entering import enter_in_thread, leave_in_thread
from ottla.testing.errors import StateError
from ottla.testing.member import Member
from ottla.testing.network.control import NetworkControl
from ottla.testing.network.links import CLIENTS, Party
from ottla.testing.settings import broker_settings, check_settings
from ottla.testing.topics import Topics, TopicService
from ottla.testing.workplace import Workplace

ID: Final = 1


class Broker:
    """A broker on free ports, with a directory of its own. Use with `with` or `async with`.

        with Broker() as broker:
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)

    The methods block until they have taken effect. In an event loop, call the ones
    that start or stop a process with `asyncio.to_thread`.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        directory: Path | str | None = None,
        network: bool = False,
    ) -> None:
        """Start nothing yet.

        Args:
            settings: Keys of the broker, with Kafka's names, such as `{"num.partitions": "3"}`.
            directory: Directory of its data and its log, which then stay; by default a temporary
                one, which is deleted.
            network: Lead clients through a network whose faults `cut` and `slow` control.

        Raises:
            ValueError: a setting is one that the class chooses.
        """
        check_settings(settings or {})
        self._settings = {**broker_settings(1), **(settings or {})}
        self._workplace = Workplace(directory)
        self._has_network = network
        self._network: NetworkControl | None = None
        self._member: Member | None = None
        self._topics = TopicService(lambda: self.bootstrap)

    def __enter__(self) -> Self:
        self._workplace.require_closed()
        try:
            path = self._workplace.open()
            if self._has_network:
                self._network = NetworkControl(path)
            self._member = Member(ID, path / f"broker-{ID}", self._settings, self._network)
            self._member.server.start()
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

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` for clients; it stays the same over restarts."""
        return self._running.bootstrap

    @property
    def pid(self) -> int:
        """The process id."""
        return self._running.server.pid

    @property
    def log_dir(self) -> Path:
        """The directory with the partitions' files."""
        return self._running.log_dir

    @property
    def log_path(self) -> Path:
        """The file with the log of the process, one JSON object per line."""
        return self._running.server.log_path

    def topics(self, name: str = "test") -> Topics:
        """Return a maker of topics and names that nothing else uses, to be closed after use."""
        return self._topics.topics(name)

    def kill(self) -> None:
        """End the process at once, as `kill -9` or a crash does."""
        self._running.server.kill()

    def stop(self) -> int:
        """Stop the broker in order, and return its exit code."""
        return self._running.server.stop()

    def start(self) -> None:
        """Start it again on the same data and port, after `kill` or `stop`."""
        self._running.server.start()

    def pause(self) -> None:
        """Suspend the process: it keeps its connections, and does nothing."""
        self._running.server.pause()

    def resume(self) -> None:
        """End `pause`."""
        self._running.server.resume()

    def fill_disk(self) -> None:
        """Let the disk appear full: produce requests get KAFKA_STORAGE_ERROR.

        The end of the process ends it, too: its next start finds space.
        """
        self._running.server.fill_disk()

    def free_disk(self) -> None:
        """End `fill_disk`; the broker accepts records again within seconds."""
        self._running.server.free_disk()

    def cut(self) -> None:
        """Let no data pass between clients and the broker, until `heal`. Needs `network=True`."""
        self._net.cut([CLIENTS], [Party(ID)])

    def slow(self, delay_s: float) -> None:
        """Delay all data in each direction, until `heal`. Needs `network=True`."""
        self._net.slow([CLIENTS], [Party(ID)], delay_s)

    def heal(self) -> None:
        """End `cut` and `slow`."""
        self._net.heal()

    def close(self) -> None:
        """Kill the broker and delete its temporary directory. `with` calls this."""
        if self._workplace.is_inherited:
            # A forked child leaves the `with` block, too, and its parent still uses them.
            return
        # Later callbacks run first, and all of them run, even if one fails.
        with ExitStack() as closing:
            closing.callback(self._workplace.close)
            if self._network is not None:
                closing.callback(self._network.close)
            is_cleared = False
            if self._member is not None:
                closing.callback(self._member.close)
                is_cleared = self._workplace.is_kept and self._member.server.can_answer
            closing.callback(self._topics.close, is_cleared=is_cleared)
        self._network = None

    @property
    def _running(self) -> Member:
        if self._member is None:
            raise StateError("the broker was not started: use it with `with` or `async with`")
        return self._member

    @property
    def _net(self) -> NetworkControl:
        if self._network is None:
            raise StateError("faults of the network need Broker(network=True)")
        return self._network
