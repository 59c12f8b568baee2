"""Failover of three brokers that lose their controller under load (composition)."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Final

import ottla
from kafkawire.ids import BrokerId, TopicPartition
from scripts.demo.account import Account
from scripts.demo.cluster import BROKERS, Cluster
from scripts.demo.console import WAIT_LIMIT_S, DemoError, note, title
from scripts.demo.traffic import Traffic

TOPIC: Final = "survivors"
PARTITIONS: Final = 6
BEFORE_S: Final = 1.0
AFTER_S: Final = 2.0
POLL_INTERVAL_S: Final = 0.1


def lose_a_controller(cluster: Cluster) -> None:
    """Kill the cluster's controller with SIGKILL under load, and compare writes with reads.

    Raises:
        DemoError: an acknowledged record was lost or read twice, or a command failed.
    """
    ask_broker = cluster.commands.ask_broker
    ask_broker("topics", "create", TOPIC, "-p", str(PARTITIONS), "-r", str(BROKERS))
    ask_broker("cluster", "describe")
    title("The controller is killed while a producer (acks=all) and a consumer run")
    account = asyncio.run(_run_traffic(cluster.bootstrap, cluster.directory))
    if account.missing():
        # It shows the ends of the logs and their leaders.
        ask_broker("topics", "describe", TOPIC)
    _settle(account)
    title("The killed broker has returned")
    asyncio.run(_wait_until_whole(cluster.bootstrap))
    ask_broker("topics", "describe", TOPIC)


async def _run_traffic(bootstrap: str, directory: Path) -> Account:
    async with ottla.Admin(bootstrap) as admin, Traffic(bootstrap, TOPIC) as traffic:
        # The load runs for fixed times before and after the kill.
        await asyncio.sleep(BEFORE_S)
        victim = (await admin.describe_cluster()).controller_id
        led = await _led_by(admin, victim)
        pid = int((directory / f"broker-{victim}" / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        killed_s = time.monotonic()
        note(f"$ kill -9 {pid}", style="bold")
        note(f"  broker {victim}, the controller, led {len(led)} of {PARTITIONS} partitions")
        await asyncio.sleep(AFTER_S)
        await traffic.finish(WAIT_LIMIT_S)
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
        f"  {len(account.acknowledged):,} records acknowledged, "
        f"{sum(account.reads.values()):,} read, "
        f"{account.duplicate_count()} of them written twice, {len(account.failures)} failed"
    )
    if account.failures:
        raise DemoError(f"the producer failed: {account.failures[0]}")
    if missing := account.missing():
        raise DemoError(f"{len(missing)} acknowledged records were not read: {missing[0]}")
    if repeated := account.repeated():
        raise DemoError(f"{len(repeated)} acknowledged records were read twice: {repeated[0]}")
    note("  every acknowledged record was read exactly once, at its offset", style="green")


async def _wait_until_whole(bootstrap: str) -> None:
    deadline_s = time.monotonic() + WAIT_LIMIT_S
    async with ottla.Admin(bootstrap) as admin:
        while time.monotonic() < deadline_s:
            topic = (await admin.describe_topics([TOPIC]))[TOPIC]
            if all(len(part.isr) == BROKERS for part in topic.partitions):
                return
            await asyncio.sleep(POLL_INTERVAL_S)
    raise DemoError(f"not all replicas are in sync again after {WAIT_LIMIT_S:g} s")
