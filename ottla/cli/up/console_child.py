"""Runs the console of a cluster as a child process (edge).

It starts once the cluster is ready, so it never delays the cluster, and its end never ends it.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.cli.commands.console import TOKEN_VARIABLE
from ottla.cli.console_extra import missing_package
from ottla.cli.up.events import ConsoleStarted, Event, NoConsole
from ottla.cli.up.plan import ClusterPlan, console_arguments
from ottla.cli.up.process import die_with_parent

LOG_FILE: Final = "console.log"
TOKEN_BYTES: Final = 24
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 5.0
URL_LINE: Final = "console "
# Options of commands that the environment may set for other clusters.
FOREIGN_VARIABLES: Final = (
    "OTTLA_BOOTSTRAP",
    "OTTLA_COMMAND_CONFIG",
    "OTTLA_PROFILE",
    TOKEN_VARIABLE,
)


async def run_console(plan: ClusterPlan, port: int, report: Callable[[Event], None]) -> None:
    """Run the console until cancelled; report its address, or the reason why there is none."""
    if (package := missing_package()) is not None:
        report(NoConsole(f"it needs {package}: pip install 'ottla[console]'"))
        return
    log = plan.directory / LOG_FILE
    try:
        process = await _launch(plan, port, log)
    except OSError as error:
        report(NoConsole(f"it cannot be started: {error}"))
        return
    try:
        url = await _url(process)
        report(NoConsole(f"see {log}") if url is None else ConsoleStarted(url))
        await process.wait()
        if url is not None:
            report(NoConsole(f"it has ended; see {log}"))
    finally:
        await _stop(process)


async def _launch(plan: ClusterPlan, port: int, log: Path) -> asyncio.subprocess.Process:
    with log.open("wb") as errors:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            # Ignores the working directory, which may contain unrelated modules.
            "-P",
            "-m",
            "ottla.cli",
            *console_arguments(plan, port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=_environment(plan),
            process_group=0,
            preexec_fn=die_with_parent(os.getpid()),
        )


def _environment(plan: ClusterPlan) -> Mapping[str, str]:
    own = {key: value for key, value in os.environ.items() if key not in FOREIGN_VARIABLES}
    if plan.security is None:
        return own
    # The console acts as administrator: other users of this machine may not use it.
    return {**own, TOKEN_VARIABLE: secrets.token_urlsafe(TOKEN_BYTES)}


async def _url(process: asyncio.subprocess.Process) -> str | None:
    """Return the address that the console prints; None if it ends, or prints none in time."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            line = (await process.stdout.readline()).decode("utf-8", errors="replace").strip()
    except TimeoutError:
        return None
    return line.removeprefix(URL_LINE) if line.startswith(URL_LINE) else None


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
    finally:
        # Also after a second Ctrl-C, which ends the wait.
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()
