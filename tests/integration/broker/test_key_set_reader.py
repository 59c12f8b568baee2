"""Reading key sets from a file and over HTTP: `broker.security.oauth.key_set_reader`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.config.oauth_bearer import KeyAddress
from broker.errors import StartupError
from broker.security.oauth.token_claims import ClaimRules
from kafkawire.sasl_oauth_server import TokenError
from tests.oauth_tokens import Issuer, claims_of, unsecured
from tests.waiting import until

pytest.importorskip("jwt")
pytest.importorskip("cryptography")

from broker.security.oauth import key_set_reader
from broker.security.oauth.key_set import KeySet, UnknownKeyError
from broker.security.oauth.key_set_reader import KeySetReader, read_key_set
from broker.security.oauth.signed_tokens import SignedTokens


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer.make()


Respond = Callable[[BaseHTTPRequestHandler], None]


class Host:
    """Serves a key set on the loopback interface; `respond` may be replaced."""

    def __init__(self) -> None:
        self.body: bytes = b""
        self.request_count = 0
        self.respond: Respond = self._send
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.request_count += 1
                host.respond(self)

            def log_message(self, *_arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"

    def _send(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(self.body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Host()
    yield made
    made.close()


def address(url: str, **changes: Any) -> KeyAddress:
    settings = {"refresh_ms": 3_600_000, "backoff_ms": 5, "max_backoff_ms": 20, **changes}
    return KeyAddress(url=url, **settings)


def tokens_of(source: KeySetReader) -> SignedTokens:
    return SignedTokens(source, ClaimRules(audiences={"kafka"}, issuer="me"), now_ms)


async def test_keys_of_a_host_verify_tokens(issuer: Issuer, host: Host) -> None:
    host.body = issuer.key_set()
    source = KeySetReader(address(host.url), asyncio.get_running_loop())
    tokens = tokens_of(source)
    good = claims_of("alice", iss="me", aud="kafka")
    with pytest.raises(TokenError, match="could not be read yet"):
        tokens.accept(issuer.sign(good))
    await source.start()
    await until(lambda: source.current is not None)
    accepted = tokens.accept(issuer.sign(good))
    assert accepted.user == "alice"
    assert 590_000 < accepted.lifetime_ms <= 600_000
    for bad in ({"iss": "you"}, {"aud": "other"}, {"exp": 1}, {"iat": None}):
        with pytest.raises(TokenError):
            tokens.accept(issuer.sign({**good, **bad}))
    with pytest.raises(TokenError, match="not served"):
        tokens.accept(unsecured(good))
    await source.stop()


async def test_a_stop_that_is_cancelled_says_so(host: Host) -> None:
    source = KeySetReader(address(host.url), asyncio.get_running_loop())
    await source.start()
    stopping = asyncio.create_task(source.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping


async def test_a_read_that_outlives_the_stop_raises_nothing(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()
    raised: list[object] = []
    # Not looked up by name: the read of an earlier test may still run.
    threads: list[threading.Thread] = []

    def read(_address: KeyAddress) -> KeySet:
        threads.append(threading.current_thread())
        began.set()
        may_end.wait()
        return KeySet(issuer.key_set())

    monkeypatch.setattr(key_set_reader, "START_TIMEOUT_S", 0)
    monkeypatch.setattr(key_set_reader, "read_key_set", read)
    monkeypatch.setattr(threading, "excepthook", raised.append)
    source = KeySetReader(address("http://127.0.0.1:9/keys"), asyncio.get_running_loop())
    await source.start()
    await until(began.is_set)
    await source.stop()
    may_end.set()
    await asyncio.to_thread(threads[0].join)
    assert not raised


async def test_a_lack_of_threads_is_a_failed_read(
    host: Host, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.body = issuer.key_set()
    starts = iter([RuntimeError("can't start new thread")])
    start = threading.Thread.start

    def start_later(thread: threading.Thread) -> None:
        if thread.name == "jwks" and (error := next(starts, None)) is not None:
            raise error
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_later)
    source = KeySetReader(address(host.url), asyncio.get_running_loop(), min_interval_s=0.01)
    await source.start()
    await until(lambda: source.current is not None)
    await source.stop()


async def test_an_unknown_key_is_looked_for_but_not_too_often(issuer: Issuer, host: Host) -> None:
    old = Issuer({"rsa": issuer.keys["rsa"]})
    host.body = old.key_set()
    source = KeySetReader(address(host.url), asyncio.get_running_loop(), min_interval_s=0.3)
    await source.start()
    await until(lambda: source.current is not None)
    tokens = tokens_of(source)
    new = issuer.sign(claims_of("alice", iss="me", aud="kafka"), "ec")
    unknown = [issuer.sign(claims_of("x"), "ec", kid=str(each)) for each in range(300)]
    host.body = issuer.key_set()
    with pytest.raises(UnknownKeyError):
        tokens.accept(new)
    # All in one turn of the loop, so that no read comes between them.
    for token in unknown:
        with pytest.raises(UnknownKeyError):
            tokens.accept(token)
    await until(lambda: source.current is not None and len(source.current.keys) > 1)
    assert tokens.accept(new).user == "alice"
    assert host.request_count == 2
    await source.stop()


async def test_the_last_good_keys_stay_while_the_host_fails(issuer: Issuer, host: Host) -> None:
    host.body = issuer.key_set()
    source = KeySetReader(
        address(host.url, refresh_ms=10), asyncio.get_running_loop(), min_interval_s=0.01
    )
    with capture_logs() as logs:
        await source.start()
        await until(lambda: source.current is not None)
        host.body = b"broken"
        before = host.request_count
        await until(lambda: host.request_count > before + 3)
        assert source.current is not None
        assert [each.key_id for each in source.current.keys] == list(issuer.keys)
        host.body = issuer.key_set()
        later = source.current
        await until(lambda: source.current is not later)
    events = [each["event"] for each in logs if each["log_level"] != "debug"]
    assert events == ["jwks.not_read", "jwks.read"]
    await source.stop()


async def test_a_host_that_does_not_respond_does_not_stop_the_start() -> None:
    source = KeySetReader(address("http://127.0.0.1:9/keys"), asyncio.get_running_loop())
    with capture_logs() as logs:
        await source.start()
        await until(lambda: bool(logs))
    assert source.current is None
    assert logs[0]["event"] == "jwks.not_read"
    await source.stop()


def redirect(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/other")
    handler.end_headers()


def flood(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    # The reader leaves early.
    with suppress(OSError):
        for _ in range(1_000):
            handler.wfile.write(b" " * 100_000)


def fail(handler: BaseHTTPRequestHandler) -> None:
    handler.send_error(500)


def break_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()


@pytest.mark.parametrize("respond", [redirect, flood, fail, break_off])
async def test_another_response_is_no_key_set(host: Host, respond: Respond) -> None:
    host.respond = respond
    source = KeySetReader(address(host.url), asyncio.get_running_loop())
    with capture_logs() as logs:
        await source.start()
        await until(lambda: bool(logs))
    assert source.current is None
    assert [each["event"] for each in logs][:1] == ["jwks.not_read"]
    await source.stop()


def test_a_host_that_sends_slowly_is_left(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_set_reader, "TOTAL_TIMEOUT_S", 0.05)
    is_over = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not is_over.wait(0.01):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    host.respond = drip
    try:
        with pytest.raises(TimeoutError, match="did not arrive"):
            read_key_set(address(host.url))
    finally:
        is_over.set()


async def test_a_file_is_read_again(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "key set.json"
    loop = asyncio.get_running_loop()
    where = address(file.as_uri(), refresh_ms=10)
    for content in (None, b"x", b" " * (key_set_reader.MAX_KEY_SET_BYTES + 1)):
        if content is not None:
            file.write_bytes(content)
        with capture_logs(), pytest.raises(StartupError, match=r"key%20set\.json"):
            await KeySetReader(where, loop).start()
    file.write_bytes(issuer.key_set())
    source = KeySetReader(where, loop, min_interval_s=0.01)
    await source.start()
    assert source.current is not None
    replacement = tmp_path / "new"
    replacement.write_bytes(Issuer({"ec": issuer.keys["ec"]}).key_set())
    replacement.rename(file)
    await until(lambda: source.current is not None and len(source.current.keys) == 1)
    await source.stop()
