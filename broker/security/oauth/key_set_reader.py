"""Reads a key set from a file or over HTTP, again and again (edge).

One thread reads at a time. The last good key set stays in force while a newer one cannot be read.
An unknown key makes it read early, but not more often than every `MIN_INTERVAL_S`, so that tokens
of strangers cannot make this broker flood the issuer.

Source: RefreshingHttpsJwks of Kafka 3.9. Kafka reads a file only once, and refuses to start while
the issuer does not respond.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit

import structlog

from broker.config.oauth_bearer import KeyAddress
from broker.errors import StartupError
from broker.security.oauth.key_set import KeySet, KeySetError
from trust.tls_store import TrustSource, load_trust

MAX_KEY_SET_BYTES: Final = 1024 * 1024
CHUNK_BYTES: Final = 64 * 1024
READ_TIMEOUT_S: Final = 10.0
"""Time for the issuer to connect, and to send the next bytes."""
TOTAL_TIMEOUT_S: Final = 30.0
START_TIMEOUT_S: Final = 5.0
"""Time for which a starting broker waits for the issuer; it reads on in the background."""
MIN_INTERVAL_S: Final = 10.0
MAX_DOUBLINGS: Final = 20

log = structlog.get_logger(__name__)


class KeySetReader:
    """Call `start` once, then `stop`. `current` is None until there is a key set."""

    def __init__(
        self,
        address: KeyAddress,
        loop: asyncio.AbstractEventLoop,
        *,
        min_interval_s: float = MIN_INTERVAL_S,
    ) -> None:
        self.current: KeySet | None = None
        self._address = address
        self._loop = loop
        self._min_interval_s = min_interval_s
        self._wakeup = asyncio.Event()
        self._has_tried = asyncio.Event()
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the key set, and keep it fresh from now on.

        Raises:
            StartupError: the key set is a file that cannot be used.
        """
        if self._address.scheme == "file" and (reason := await self._read()):
            raise StartupError(f"{self._address.url}: {reason}")
        self._task = self._loop.create_task(self._refresh())
        with suppress(TimeoutError):
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._has_tried.wait()

    async def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def expedite(self) -> None:
        """Read the key set soon, because it lacks a key."""
        self._wakeup.set()

    async def _refresh(self) -> None:
        if not self._has_tried.is_set():
            await self._read()
        while True:
            await self._pause()
            await self._read()

    async def _pause(self) -> None:
        """Wait until the next read is due, or an unknown key demands an early one."""
        self._wakeup.clear()
        due_s = self._pause_s()
        await asyncio.sleep(min(due_s, self._min_interval_s))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(due_s - self._min_interval_s, 0)):
                await self._wakeup.wait()

    def _pause_s(self) -> float:
        address = self._address
        if not self._failures:
            return address.refresh_ms / 1000
        doublings = min(self._failures - 1, MAX_DOUBLINGS)
        backoff_ms = address.backoff_ms << doublings
        return min(backoff_ms, address.max_backoff_ms) / 1000

    async def _read(self) -> str:
        """Read the key set; return the reason of a failure, which leaves the current one."""
        try:
            self.current = await _in_thread(lambda: read_key_set(self._address))
        except (OSError, HTTPException, ValueError) as error:
            self._failures += 1
            note = log.error if self._failures == 1 else log.debug
            note("jwks.not_read", url=self._address.url, error=str(error))
            return str(error)
        finally:
            self._has_tried.set()
        if self._failures:
            log.info("jwks.read", url=self._address.url, attempt_count=self._failures + 1)
        self._failures = 0
        return ""


def read_key_set(address: KeyAddress) -> KeySet:
    """Read a key set; it may take `TOTAL_TIMEOUT_S`.

    Raises:
        OSError, HTTPException: it cannot be read.
        KeySetError: it cannot be used.
    """
    if address.scheme == "file":
        with Path(unquote(urlsplit(address.url).path)).open("rb") as file:
            data = file.read(MAX_KEY_SET_BYTES + 1)
    else:
        data = _download(address)
    if len(data) > MAX_KEY_SET_BYTES:
        raise KeySetError(f"the key set has more than {MAX_KEY_SET_BYTES} bytes")
    return KeySet(data)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        """Follow no redirect: the operator has named the only address."""


def _download(address: KeyAddress) -> bytes:
    opener = urllib.request.build_opener(
        _NoRedirects, urllib.request.HTTPSHandler(context=_trust(address))
    )
    ends_s = time.monotonic() + TOTAL_TIMEOUT_S
    data = b""
    try:
        response = opener.open(address.url, timeout=READ_TIMEOUT_S)
    except HTTPError as error:
        with error:
            raise OSError(f"the host responds with status {error.code}") from None
    with response:
        while chunk := response.read1(CHUNK_BYTES):
            data += chunk
            if len(data) > MAX_KEY_SET_BYTES:
                break
            if time.monotonic() > ends_s:
                raise TimeoutError(f"the key set did not arrive within {TOTAL_TIMEOUT_S} s")
    return data


def _trust(address: KeyAddress) -> ssl.SSLContext:
    """Return the context for the host of the key set; its files are read each time."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    source = TrustSource(
        type=address.trust_type,
        location=address.trust_location,
        password=address.trust_password,
        certificates=address.trust_text,
    )
    load_trust(context, source)
    return context


async def _in_thread(read: Callable[[], KeySet]) -> KeySet:
    """Run `read` in a thread that the end of this process does not wait for.

    Raises:
        OSError: there can be no thread.
    """
    done: Future[KeySet] = Future()
    # From now on it cannot be cancelled, and always takes the result.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(read())
        except BaseException as error:
            done.set_exception(error)

    try:
        threading.Thread(target=run, name="jwks", daemon=True).start()
    except RuntimeError as error:
        # The process has too many threads.
        raise OSError(str(error)) from error
    return await asyncio.wrap_future(done)
