"""Brokers that come back without records that they had acknowledged, in the worst moments."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random

import pytest

import ottla
from broker import node
from broker.cluster.doubtful_start import LOOK_INTERVAL_S, LOOKS_FOR_MEMBERS
from kafkawire.ids import TopicPartition
from storage.directory.logs import Logs
from tests.simulation.world.cluster import BrokerHost
from tests.simulation.world.script import BROKERS
from tests.simulation.world.stage import POLL_S, RECORDS, SESSION_S, Stage, Story, play
from tests.simulation.world.workload import read_topic

MEMBERS_WAIT_S = LOOKS_FOR_MEMBERS * LOOK_INTERVAL_S


class Best(Random):
    """The outcome of a loss of power that keeps everything."""

    def choice(self, seq: Sequence[float]) -> float:  # type: ignore[override]
        return max(seq)


async def lose_power_before_the_others_notice(stage: Stage) -> None:
    controller = stage.controller()
    processes = [each.process for each in stage.others(controller) if each.process]
    for each in processes:
        each.pause()
    stage.lose_power(controller)
    returning = asyncio.ensure_future(stage.boot(controller))
    await asyncio.sleep(1.0)
    for each in processes:
        each.resume()
    await returning
    await stage.until_in_sync()


async def lose_power_while_the_others_restart(stage: Stage) -> None:
    controller = stage.controller()
    others = stage.others(controller)
    stage.lose_power(controller)
    for each in others:
        each.kill()
    await asyncio.sleep(1.0)
    returning = asyncio.ensure_future(stage.boot(controller))
    await asyncio.sleep(SESSION_S)
    await stage.boot(*others)
    await returning
    await stage.until_in_sync()


async def replace_a_disk(stage: Stage) -> None:
    controller = stage.controller()
    for each in stage.cluster.brokers:
        each.kill()
    controller.disk.replace()
    await asyncio.sleep(1.0)
    returning = asyncio.ensure_future(stage.boot(controller))
    await asyncio.sleep(SESSION_S)
    await stage.boot(*stage.others(controller))
    await returning
    await stage.until_in_sync()


STORIES = (
    lose_power_before_the_others_notice,
    lose_power_while_the_others_restart,
    replace_a_disk,
)


@pytest.mark.parametrize("story", STORIES)
def test_records_are_lost_if_the_broker_registers_at_once(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def register_at_once(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(node, "leave_in_sync_sets", register_at_once)
    count, _ = play(0, story)
    assert count < RECORDS


@pytest.mark.fresh_seeds(1)
@pytest.mark.parametrize("story", STORIES)
def test_acknowledged_records_survive(story: Story, seed: int) -> None:
    count, logged = play(seed, story)
    assert count == RECORDS
    assert "in_sync_sets.leaving" in logged
    assert "in_sync_sets.kept" not in logged


def test_killed_brokers_stay_in_sync() -> None:
    async def story(stage: Stage) -> None:
        for host in stage.cluster.brokers:
            host.kill()
        await stage.boot(*stage.cluster.brokers)
        await stage.until_in_sync()

    count, logged = play(0, story)
    assert count == RECORDS
    assert not {each for each in logged if each.startswith("in_sync_sets.")}


def test_brokers_that_lose_power_together_return_without_waiting() -> None:
    async def story(stage: Stage) -> None:
        for host in stage.cluster.brokers:
            stage.lose_power(host)
        began_s = stage.loop.time()
        await stage.boot(*stage.cluster.brokers)
        await stage.until_in_sync()
        assert stage.loop.time() - began_s < MEMBERS_WAIT_S

    count, logged = play(0, story)
    assert count < RECORDS, "nothing was lost, so nothing was proved"
    assert "in_sync_sets.kept" in logged


def test_brokers_that_lose_power_together_do_not_need_the_one_that_stays_away() -> None:
    async def story(stage: Stage) -> None:
        for host in stage.cluster.brokers:
            stage.lose_power(host)
        *others, _ = stage.cluster.brokers
        await stage.boot(*others)
        while stage.in_sync_sets() != {frozenset((1, 2))}:  # noqa: ASYNC110 - as above
            await asyncio.sleep(POLL_S)

    _, logged = play(0, story)
    assert "in_sync_sets.kept" in logged


KEYS = [b"%d" % number for number in range(RECORDS)]
Return = Callable[[Stage, BrokerHost], Awaitable[None]]


def keys_after_a_hole(return_to: Return) -> tuple[list[bytes | None], set[str]]:
    """Return the keys that a broker has whose compacted log lost its oldest segment with the power.

    `return_to` starts the broker. Also return the names of all logged events.
    """
    found: list[bytes | None] = []

    async def story(stage: Stage) -> None:
        controller = stage.controller()
        host, leader = stage.others(controller)
        configs = {"cleanup.policy": "compact", "segment.bytes": "300"}
        assignment = {0: (leader.number, host.number, controller.number)}
        async with ottla.Admin(stage.cluster.bootstrap) as admin:
            await admin.create_topics(
                [ottla.NewTopic("keyed", assignment=assignment, configs=configs)]
            )
        async with ottla.Producer(stage.cluster.bootstrap) as producer:
            for key in KEYS:
                await (await producer.send("keyed", b"", key=key))
        await stage.until_in_sync()
        # All that was written survives, except for the oldest segment.
        host.disk._chance = Best(0)
        host.lose_power()
        oldest, *others = sorted(host.root.glob("d*/keyed-0/*.log"))
        assert others
        os.truncate(oldest, 0)
        await return_to(stage, host)
        await stage.until_in_sync()
        await leader.stop()
        found.extend(each.key for each in await read_topic(stage.cluster, "keyed"))

    _, logged = play(0, story)
    return found, logged


async def boot(stage: Stage, host: BrokerHost) -> None:
    await stage.boot(host)


def test_a_hole_in_a_compacted_log_is_filled_from_the_leader() -> None:
    """A cleaning leaves holes, too, so recovery keeps them. The leader has the records."""
    found, _ = keys_after_a_hole(boot)
    assert found == KEYS


@pytest.mark.parametrize("has_power", [True, False])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_hole_is_filled_though_the_broker_dies_before_it_knows_the_boot(
    monkeypatch: pytest.MonkeyPatch, has_power: bool, is_cut: bool
) -> None:
    """The log dir stays doubtful until the cut is done, so the next start looks for holes again."""
    step = "accept" if is_cut else "cut_at_gaps"
    real, deaths = getattr(Logs, step), 0

    async def die_first(stage: Stage, host: BrokerHost) -> None:
        def die(logs: Logs, *arguments: object) -> None:
            nonlocal deaths
            if deaths:
                real(logs, *arguments)
            elif has_power:
                host.kill()
            else:
                stage.lose_power(host)
            deaths += 1

        monkeypatch.setattr(Logs, step, die)
        host.boot()
        while host.is_up:  # noqa: ASYNC110 - polls the process
            await asyncio.sleep(POLL_S)
        await stage.boot(host)

    found, _ = keys_after_a_hole(die_first)
    assert (found, deaths > 1) == (KEYS, True)


def test_a_broker_whose_disk_fills_up_starts_once_its_holes_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cut frees space. Checkpoints need some, and can wait."""
    real = Logs.cut_at_gaps

    async def with_full_disk(_stage: Stage, host: BrokerHost) -> None:
        [log] = host.root.glob("d*/keyed-0")

        def fill_up(logs: Logs, partitions: Iterable[TopicPartition]) -> None:
            host.disk.full = log.parent
            real(logs, partitions)

        monkeypatch.setattr(Logs, "cut_at_gaps", fill_up)
        await host.boot()
        host.disk.heal()

    found, logged = keys_after_a_hole(with_full_disk)
    assert found == KEYS
    assert {"log_dir.full", "log_dir.resumed"} <= logged
    assert "log_dir.offline" not in logged


@pytest.mark.parametrize("flush_messages", ["1", "9223372036854775807"])
def test_producers_are_known_after_an_orderly_stop_and_a_loss_of_power(flush_messages: str) -> None:
    """The start trusts the files, so all of them must be on disk after the stop."""

    def known(stage: Stage) -> list[int]:
        return [
            len(host.program._replicas.table.by_key["numbered", 0].log.producers)
            for host in stage.cluster.brokers
        ]

    async def story(stage: Stage) -> None:
        configs = {"flush.messages": flush_messages}
        async with ottla.Admin(stage.cluster.bootstrap) as admin:
            await admin.create_topics([ottla.NewTopic("numbered", 1, BROKERS, configs)])
        await stage.write("numbered", [b"1"])
        await stage.until_in_sync()
        for _ in range(2):
            await stage.write("numbered", [b"2"])
            before = known(stage)
            for host in stage.cluster.brokers:
                await host.stop()
            for host in stage.cluster.brokers:
                stage.lose_power(host)
            await stage.boot(*stage.cluster.brokers)
            await stage.until_in_sync()
            assert known(stage) == before

    count, _ = play(0, story)
    assert count == RECORDS
