"""Three brokers lose their controller while records are written and read. Composition."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import ottla
from kafkawire.ids import BrokerId, TopicPartition
from scripts.demo.account import Account
from scripts.demo.console import Commands, DemoError, note, title
from scripts.demo.material import ROOT
from scripts.demo.traffic import Traffic

TOPIC: Final = "survivors"
PARTITIONS: Final = 6
BROKERS: Final = 3
BEFORE_S: Final = 1.0
AFTER_S: Final = 2.0
READ_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 60.0
RETURN_TIMEOUT_S: Final = 30.0
LOOK_INTERVAL_S: Final = 0.1
DIRECTORY: Final = "cluster"


def lose_a_controller(directory: Path) -> None:
    """Run a cluster, kill its controller with -9 under load, and settle the account.

    Raises:
        DemoError: an acknowledged record was not read, or read twice; or a process failed.
    """
    title("Three brokers and a coordinator")
    cluster = Cluster(directory)
    try:
        bootstrap = cluster.wait_until_ready()
        commands = Commands(directory, bootstrap)
        commands.ask_broker("topics", "create", TOPIC, "-p", str(PARTITIONS), "-r", str(BROKERS))
        commands.ask_broker("cluster", "describe")
        title("A producer (acks=all) and a consumer run; the controller is killed meanwhile")
        account = asyncio.run(_run_traffic(bootstrap, directory / DIRECTORY))
        _settle(account)
        title("It came back")
        asyncio.run(_wait_until_whole(bootstrap))
        commands.ask_broker("topics", "describe", TOPIC)
    finally:
        exit_code = cluster.stop()
    if exit_code != 0:
        raise DemoError(f"`ottla up` ended with exit code {exit_code}")
    names = [f"{DIRECTORY}/broker-{number}" for number in range(1, BROKERS + 1)]
    commands.ottla("logs", "verify", *names)


class Cluster:
    """`ottla up` as a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "up.log"
        arguments = ("up", "--brokers", str(BROKERS), "--port", "0", "--dir", DIRECTORY)
        note(f"$ ottla {' '.join(arguments)}", style="bold")
        self._started_s = time.perf_counter()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli", *arguments],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def wait_until_ready(self) -> str:
        """Return the addresses of the brokers.

        Raises:
            DemoError: the cluster did not start.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise DemoError(self._log.read_text(errors="replace")[-2_000:])
        note(f"  {line.strip()}  ({time.perf_counter() - self._started_s:.2f} s)")
        return line.split()[1]

    def stop(self) -> int:
        """Stop it as Ctrl-C would, and return its exit code."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode


async def _run_traffic(bootstrap: str, directory: Path) -> Account:
    async with ottla.Admin(bootstrap) as admin, Traffic(bootstrap, TOPIC) as traffic:
        # The load runs for a while before and after; there is nothing to wait for.
        await asyncio.sleep(BEFORE_S)
        victim = (await admin.describe_cluster()).controller_id
        led = await _led_by(admin, victim)
        pid = int((directory / f"broker-{victim}" / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        killed_s = time.monotonic()
        note(f"$ kill -9 {pid}", style="bold")
        note(f"  that was broker {victim}, the controller; it led {len(led)} of {PARTITIONS}")
        await asyncio.sleep(AFTER_S)
        await traffic.finish(READ_TIMEOUT_S)
        successor = (await admin.describe_cluster()).controller_id
    note(f"  broker {successor} is the controller now")
    pause_ms = 1000 * traffic.account.pause_s(led, killed_s)
    note(f"  longest pause of a partition that the dead broker led: {pause_ms:.0f} ms")
    return traffic.account


async def _led_by(admin: ottla.Admin, broker_id: BrokerId) -> set[TopicPartition]:
    topic = (await admin.describe_topics([TOPIC]))[TOPIC]
    return {
        TopicPartition(TOPIC, part.partition)
        for part in topic.partitions
        if part.leader == broker_id
    }


def _settle(account: Account) -> None:
    note(
        f"  {len(account.promises):,} records acknowledged, {sum(account.reads.values()):,} read, "
        f"{account.duplicate_count()} of them written twice, {len(account.failures)} given up"
    )
    if account.failures:
        raise DemoError(f"the producer gave up: {account.failures[0]}")
    if missing := account.missing():
        raise DemoError(f"{len(missing)} acknowledged records were not read: {missing[0]}")
    if repeated := account.repeated():
        raise DemoError(f"{len(repeated)} acknowledged records were read twice: {repeated[0]}")
    note("  every acknowledged record was read exactly once, at its offset", style="green")


async def _wait_until_whole(bootstrap: str) -> None:
    deadline_s = time.monotonic() + RETURN_TIMEOUT_S
    async with ottla.Admin(bootstrap) as admin:
        while time.monotonic() < deadline_s:
            topic = (await admin.describe_topics([TOPIC]))[TOPIC]
            if all(len(part.isr) == BROKERS for part in topic.partitions):
                return
            await asyncio.sleep(LOOK_INTERVAL_S)
    raise DemoError(f"not all replicas are in sync again after {RETURN_TIMEOUT_S:g} s")
