"""Requests of controllers that are decoded only after the proof of their senders."""

from __future__ import annotations

import asyncio

import pytest

import ottla
from broker.cluster.control_proof import ControlProof
from broker.handlers.from_brokers import LargeRequests
from broker.network import router
from broker.network.reply import Reply
from broker.network.router import MAX_ITEMS
from kafkawire.errors import ErrorCode
from tests.simulation.world.cluster import BrokerHost
from tests.simulation.world.process import current_host
from tests.simulation.world.stage import POLL_S, RECORDS, SESSION_S, Stage, play


class Proofs:
    """Pauses the process of a host in its next proof, before or after the read of the nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_read: bool) -> None:
        self.host: BrokerHost | None = None
        self.paused_count = self.large_count = 0
        check, admit = ControlProof.check, LargeRequests.admit

        async def pause_once(proof: ControlProof, *arguments: object) -> ErrorCode | None:
            if is_read:
                code = await check(proof, *arguments)  # type: ignore[arg-type]
                await self.pause()
                return code
            await self.pause()
            return await check(proof, *arguments)  # type: ignore[arg-type]

        def count(large: LargeRequests, *arguments: object) -> Reply:
            self.large_count += 1
            return admit(large, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(ControlProof, "check", pause_once)
        monkeypatch.setattr(LargeRequests, "admit", count)
        # Each request between brokers counts as large.
        monkeypatch.setattr(router, "max_items", lambda _key: MAX_ITEMS)
        monkeypatch.setattr(router, "MAX_ITEMS", 0)

    async def pause(self) -> None:
        host = self.host
        if host is not None and host.name == current_host():
            assert host.process is not None
            self.host = None
            self.paused_count += 1
            host.process.pause()
            # The next step comes after the pause.
            await asyncio.sleep(0)


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("pause_s", [1.0, 2.5 * SESSION_S])
def test_a_pause_while_a_large_request_waits_for_its_proof_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, pause_s: float, is_read: bool
) -> None:
    proofs = Proofs(monkeypatch, is_read=is_read)

    async def story(stage: Stage) -> None:
        controller = stage.controller()
        waiting, _ = stage.others(controller)
        proofs.host = waiting
        controller.kill()
        while not proofs.paused_count:  # noqa: ASYNC110 - polls the process
            await asyncio.sleep(POLL_S)
        returning = asyncio.ensure_future(stage.boot(controller))
        await asyncio.sleep(pause_s)
        assert waiting.process is not None
        waiting.process.resume()
        await returning
        await stage.until_in_sync()
        # Its broker follows the controller that it has now.
        async with ottla.Admin(stage.cluster.bootstrap) as admin:
            await stage.create(admin, "after")
        await stage.until_in_sync()

    count, _ = play(0, story)
    assert (count, proofs.paused_count) == (RECORDS, 1)
    assert proofs.large_count
