"""The samples of the console, without a cluster."""

import asyncio
from typing import cast

import pytest

from ottla import Admin
from ottla.client.errors import ConfigurationError
from ottla.console.observation.collector import Collector
from ottla.console.observation.observation import Observation, Probe


async def test_a_console_without_a_broker_survives_a_missing_certificate_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file may be replaced at this moment; the options were checked at the start."""
    monkeypatch.setattr("ottla.console.observation.collector.RECONNECT_PAUSE_S", 0.0)
    failures, has_started = [ConfigurationError("ssl_certfile cannot be read")], asyncio.Event()

    class Starting:
        async def start(self) -> None:
            has_started.set()
            await asyncio.Event().wait()

    def connect(_timeout_ms: int) -> Admin:
        if failures:
            raise failures.pop()
        return cast(Admin, Starting())

    observation = Observation()
    running = asyncio.create_task(Collector(observation, connect, lambda: 0).run())
    async with asyncio.timeout(10):
        await has_started.wait()
    assert observation.failures == {Probe.METADATA: "ssl_certfile cannot be read"}
    running.cancel()
    await asyncio.wait((running,))
