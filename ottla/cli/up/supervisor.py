"""Keeps the processes of a cluster running, and stops them in order (edge).

A dead broker cannot close its session. The supervisor, as its parent, knows that it is dead and
closes the session at once, so that its partitions get new leaders in milliseconds instead of after
the session timeout.
"""

import asyncio
import itertools
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.cluster.coordinator_security import CoordinatorSecurity, coordinator_security
from broker.config.coordinator_keys import coordinator_keys_of
from broker.errors import StartupError
from coordination.client.patterns import end_dead_session
from ottla.cli.failure import EXIT_FAILED, EXIT_USAGE, CommandError
from ottla.cli.up.broker_registrations import BrokerRegistrations, wait_for_complete_metadata
from ottla.cli.up.client_rights import grant_once
from ottla.cli.up.coordinator_login import FILE as LOGIN_FILE
from ottla.cli.up.events import (
    Died,
    Event,
    Hung,
    Joinable,
    NotRestarted,
    Ready,
    Secured,
    Started,
    Stopped,
    outcome,
    reason_in,
)
from ottla.cli.up.plan import COORDINATOR, SESSION_FILE, Child, ClusterPlan
from ottla.cli.up.process import ChildProcess, last_log_line, launch
from ottla.cli.up.restart import Absence, RestartDelay
from ottla.cli.up.secured import ADMIN, CLIENT
from ottla.client.client_config import NO_SECURITY
from ottla.client.errors import OttlaError
from ottla.client.security import security_of
from storage.directory.directory_lock import lock_directory
from storage.errors import StorageError

START_TIMEOUT_S: Final = 120.0
"""Allows for long recoveries; after it the start counts as failed."""
STOP_TIMEOUT_S: Final = 60.0
CHECK_INTERVAL_S: Final = 1.0


class Supervisor:
    """Runs one cluster: call `start`, then `run`, then `stop`, each once."""

    def __init__(
        self, plan: ClusterPlan, *, may_restart: bool, report: Callable[[Event], None]
    ) -> None:
        self.plan = plan
        self.running: dict[str, ChildProcess] = {}
        self._security = _coordinator_security(plan)
        self.registrations = BrokerRegistrations(
            plan.connect, self._security, self._on_registrations
        )
        self.login = (
            NO_SECURITY if plan.security is None else security_of(**plan.security.login(ADMIN))
        )
        self._may_restart = may_restart
        self._report = report
        self._absence = Absence()
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._registered = asyncio.Event()
        self._failure: asyncio.Future[CommandError] = asyncio.get_running_loop().create_future()
        self._following: asyncio.Task[None] | None = None
        self._is_ready = False

    async def start(self) -> None:
        """Start all processes; return once all brokers have registered and know each other.

        Raises:
            CommandError: a process exited, or not all were ready within `START_TIMEOUT_S`.
        """
        began_s = time.monotonic()
        for child in self.plan.children:
            self._watchers[child.name] = asyncio.create_task(
                self._keep_running(child), name=child.name
            )
        self._following = asyncio.create_task(self.registrations.follow(), name="registrations")
        becoming_ready = asyncio.create_task(self._become_ready())
        try:
            await asyncio.wait(
                (becoming_ready, self._failure),
                timeout=START_TIMEOUT_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not self._is_ready:
                raise self._failure.result() if self._failure.done() else self._not_ready()
        finally:
            becoming_ready.cancel()
        addresses = tuple(self.plan.bootstrap.split(","))
        self._report(Ready(addresses, self.plan.connect, round(time.monotonic() - began_s, 3)))
        if self.plan.security is not None:
            files = self.plan.security.files
            self._report(Secured(str(files.properties(CLIENT)), str(files.properties(ADMIN))))
        if (joinable := joinable_in(self.plan)) is not None:
            self._report(joinable)

    async def run(self) -> None:
        """Supervise the children until cancelled.

        Raises:
            CommandError: the cluster cannot be used.
        """
        while True:
            self._kill_hung()
            await asyncio.wait((self._failure,), timeout=CHECK_INTERVAL_S)
            if self._failure.done():
                raise self._failure.result()

    async def stop(self) -> None:
        """Stop the brokers one by one, so that each can hand over, and then the coordinator."""
        for watcher in self._watchers.values():
            watcher.cancel()
        await asyncio.gather(*self._watchers.values(), return_exceptions=True)
        for child in (*self.plan.brokers, self.plan.coordinator):
            if child is not None and child.name in self.running:
                # It stays there meanwhile, so that `kill` finds it.
                code = await self.running[child.name].stop(STOP_TIMEOUT_S)
                del self.running[child.name]
                self._report(Stopped(child.name, code))
            if child is not None and child is self.plan.brokers[-1]:
                await self._stop_following()
        await self._stop_following()

    def kill(self) -> None:
        """Kill all children at once (SIGKILL); none is restarted."""
        for watcher in self._watchers.values():
            watcher.cancel()
        for process in self.running.values():
            process.send(signal.SIGKILL)

    async def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            self._following = None

    async def _keep_running(self, child: Child) -> None:
        """Run `child`, and restart it after each exit if restarts are on."""
        delay = RestartDelay()
        for incarnation in itertools.count():
            delay.on_start(time.monotonic())
            try:
                process = self.running[child.name] = await launch(child)
            except OSError as error:
                if not self._is_ready:
                    self._fail(CommandError(f"{child.name} cannot be started: {error}"))
                    return
                retry_s = delay.on_death(time.monotonic())
                self._report(NotRestarted(child.name, str(error), retry_s))
                await asyncio.sleep(retry_s)
                continue
            if incarnation:
                self._report(Started(child.name, process.pid))
            exit_code = await process.wait()
            del self.running[child.name]
            is_listed = child.broker_id in self.registrations.registered
            self._absence.on_death(child.name, is_listed=is_listed)
            is_closed = await self._close_session(child)
            if not self._is_ready:
                self._fail(_early_death(child, exit_code))
                return
            pause_s = delay.on_death(time.monotonic()) if self._may_restart else None
            self._report(Died(child.name, exit_code, is_closed, pause_s))
            if pause_s is None:
                return
            await asyncio.sleep(pause_s)

    def _fail(self, error: CommandError) -> None:
        if not self._failure.done():
            self._failure.set_result(error)

    async def _close_session(self, child: Child) -> bool:
        """Close the coordinator session of a dead broker; return whether there was one."""
        if child.broker_id is None:
            return False
        try:
            lock = lock_directory(child.directory)
        except (StorageError, OSError):
            # Another process uses the log directory and owns the session.
            return False
        try:
            return await end_dead_session(
                session_file(child), tls=self._security.tls, login=self._security.login
            )
        finally:
            lock.release()

    async def _become_ready(self) -> None:
        await self._registered.wait()
        addresses = [broker.address for broker in self.plan.brokers]
        try:
            await wait_for_complete_metadata(self.plan.brokers, self.login)
            # A cluster that this machine joins has the rights, or an operator has changed them.
            if self.plan.security is not None and not self.plan.is_joined:
                await grant_once(self.plan.security, addresses)
        except (OttlaError, OSError) as error:
            self._fail(CommandError(f"the cluster cannot be used: {error}"))
            return
        self._is_ready = True

    def _on_registrations(self) -> None:
        for broker in self.plan.brokers:
            if broker.broker_id not in self.registrations.registered:
                self._absence.on_unlisted(broker.name)
        if self.registrations.registered >= {broker.broker_id for broker in self.plan.brokers}:
            self._registered.set()

    def _kill_hung(self) -> None:
        now_s = time.monotonic()
        self._absence.on_check(now_s)
        if self.registrations.is_connected:
            self._absence.on_seen(COORDINATOR, now_s)
            for broker in self.plan.brokers:
                if broker.broker_id in self.registrations.registered:
                    self._absence.on_seen(broker.name, now_s)
        else:
            # Registrations are unknown without the coordinator.
            self._absence.excuse_all_but(COORDINATOR, now_s)
        if not self._may_restart:
            return
        for name in self._absence.hung(now_s):
            if name in self.running:
                self._report(Hung(name))
                self.running[name].send(signal.SIGKILL)

    def _not_ready(self) -> CommandError:
        missing = [
            broker.name
            for broker in self.plan.brokers
            if broker.broker_id not in self.registrations.registered
        ]
        cause = f"{', '.join(missing)} did not register" if missing else "no controller was elected"
        return CommandError(
            f"not ready after {START_TIMEOUT_S:g} s: {cause}; see the logs in {self.plan.directory}"
        )


def _coordinator_security(plan: ClusterPlan) -> CoordinatorSecurity:
    try:
        return coordinator_security(coordinator_keys_of(plan.coordinator_settings))
    except (StartupError, ValueError) as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def joinable_in(plan: ClusterPlan) -> Joinable | None:
    """Return the way of other machines into the cluster, None if there is none."""
    if plan.machine is None or plan.is_joined:
        return None
    security, login = plan.security, plan.directory / LOGIN_FILE
    secrets = (login,) if security is None else security.files.copied
    return Joinable(
        plan.machine.coordinator,
        tuple(str(each.absolute()) for each in secrets),
        security is not None,
    )


def _early_death(child: Child, exit_code: int) -> CommandError:
    # A process that was killed, as for lack of memory, has not written why.
    line = "" if exit_code < 0 else last_log_line(child)
    reason = reason_in(line) or outcome(exit_code)
    return CommandError(
        f"{child.name} could not start: {reason}",
        EXIT_USAGE if exit_code == EXIT_USAGE else EXIT_FAILED,
    )


def session_file(broker: Child) -> Path:
    """Return the path of the file in which a broker saves its session."""
    return broker.directory / SESSION_FILE
