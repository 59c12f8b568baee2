"""The client of schema registries against servers that refuse, stall, drip, and lie."""

import asyncio
import gzip
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.client.avro import SchemaRegistry
from ottla.client.errors import ConfigurationError, SchemaRegistryError
from tests.certificates import Authority, needs_openssl

LIMIT_MS = 300


def response(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *lines]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Server:
    """Answers each request with the next response, and then with the last one again."""

    def __init__(self, *responses: bytes) -> None:
        self.requests: list[str] = []
        self._responses = list(responses)
        self.url = ""

    @asynccontextmanager
    async def serve(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._on_client, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        async with server:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                (int(line[15:]) for line in head.split("\r\n") if line[:15] == "Content-Length:"), 0
            )
            self.requests.append(head + (await reader.readexactly(length)).decode())
            several = len(self._responses) > 1
            writer.write(self._responses.pop(0) if several else self._responses[0])
            await writer.drain()
            # Until the client ends the connection.
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def test_a_request_has_the_login_the_media_type_and_an_escaped_subject() -> None:
    server = Server(response(b'{"id": 5}'))
    async with server.serve() as url:
        registry = SchemaRegistry(f"{url}/", basic_auth=("ada", "s3cret"))
        assert await registry.register("a/b?c", '"int"') == 5
        assert await registry.find_id("t", '"int"') == 5
    first, second = server.requests
    assert first.startswith("POST /subjects/a%2Fb%3Fc/versions HTTP/1.1\r\n")
    assert second.startswith("POST /subjects/t HTTP/1.1\r\n")
    assert f"Authorization: Basic {b64encode(b'ada:s3cret').decode()}\r\n" in first
    assert "Content-Type: application/vnd.schemaregistry.v1+json\r\n" in first
    assert "Accept-Encoding: identity\r\n" in first
    assert first.endswith('\r\n\r\n{"schema": "\\"int\\""}')


async def test_schemas_versions_and_subjects_are_read() -> None:
    schemas = (b'{"schema":"\\"int\\""}', b'{"schema":"\\"long\\""}')
    server = Server(*map(response, schemas), response(b'["a"]'))
    async with server.serve() as url:
        registry = SchemaRegistry(url)
        assert (await registry.schema(3)).text == '"int"'
        assert (await registry.version("s", 2)).text == '"long"'
        assert await registry.subjects() == ["a"]
    paths = [request.split(" ")[1] for request in server.requests]
    assert paths == ["/schemas/ids/3", "/subjects/s/versions/2", "/subjects"]


async def test_an_overloaded_registry_is_asked_again_and_a_refusal_is_final() -> None:
    server = Server(response(b"", "503 Busy"), response(b'{"message":"gone"}', "404 Not Found"))
    async with server.serve() as url:
        with pytest.raises(SchemaRegistryError, match="answered 404: gone"):
            await SchemaRegistry(url).schema(1)
    assert len(server.requests) == 2


async def test_the_next_address_is_tried() -> None:
    async with Server().serve() as closed:
        pass
    busy, ready = Server(response(b"", "500 Broken")), Server(response(b'{"schema":"1"}'))
    async with busy.serve() as first, ready.serve() as second:
        registry = SchemaRegistry(f"{closed}, {first}, {second}")
        assert (await registry.schema(1)).text == "1"
        refusing = Server(response(b"", "404 Not Found"))
        async with refusing.serve() as third:
            with pytest.raises(SchemaRegistryError, match="answered 404"):
                await SchemaRegistry([third, second]).schema(1)
    assert len(busy.requests) == len(ready.requests) == 1


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        pytest.param(
            response(b"x" * (1024 * 1024 + 1)), "it has more than 1048576 bytes", id="large"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (1024 * 1024 + 1),
            "it has more than 1048576 bytes",
            id="large, of unknown size",
        ),
        pytest.param(
            response(gzip.compress(b"{}"), content_encoding="gzip"),
            "it is compressed, without a request for that",
            id="compressed",
        ),
        pytest.param(response(b"<html>"), "the body is not JSON", id="a page"),
        pytest.param(
            response(b"", "302 Found", location="http://127.0.0.1:1/"),
            "302: it redirects; give",
            id="a redirection",
        ),
        pytest.param(response(b"", "401 Unauthorized"), "401: check basic_auth", id="a refusal"),
    ],
)
async def test_an_answer_that_is_none_is_one_sentence(sent: bytes, reason: str) -> None:
    server = Server(sent)
    async with server.serve() as url:
        with pytest.raises(SchemaRegistryError, match=reason) as raised:
            await SchemaRegistry(url, basic_auth=("ada", "s3cret"), timeout_ms=LIMIT_MS).schema(1)
    assert str(raised.value).startswith(f"GET {url}/schemas/ids/1: ")
    assert "\n" not in str(raised.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n1", b"SSH-2.0\r\n", b"\0" * 100]
)
async def test_a_peer_that_stalls_or_speaks_another_protocol_ends_in_time(sent: bytes) -> None:
    async with Server(sent).serve() as url:
        registry = SchemaRegistry(url, timeout_ms=LIMIT_MS, request_timeout_ms=LIMIT_MS)
        with pytest.raises(SchemaRegistryError, match="no answer") as raised:
            await registry.schema(1)
    assert raised.value.retriable


@needs_openssl
async def test_the_certificate_of_the_registry_is_checked(tmp_path: Path) -> None:
    authority, other = Authority.make(tmp_path), Authority.make(tmp_path, "other")
    made, client = authority.issue("registry"), authority.issue("client")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.own.certificate))
    tls.load_cert_chain(made.certificate, made.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    server = Server(response(b"[]"))
    async with server.serve(tls) as url:
        trusted = str(authority.own.certificate)
        registry = SchemaRegistry(url, ssl_cafile=trusted, ssl_certfile=str(client.store))
        assert await registry.subjects() == []
        stranger = SchemaRegistry(url, ssl_cafile=str(other.own.certificate))
        with pytest.raises(SchemaRegistryError, match="CERTIFICATE_VERIFY_FAILED") as raised:
            await stranger.subjects()
        assert not raised.value.retriable
    assert len(server.requests) == 1


Make = Callable[[], Any]
URL = "http://localhost:8081"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: SchemaRegistry([]), "give the URL"),
        (lambda: SchemaRegistry("localhost:8081"), "'localhost:8081' is no URL of a registry"),
        (lambda: SchemaRegistry("http://h:99999"), "'http://h:99999' is no URL of a registry"),
        (lambda: SchemaRegistry("http://"), "is no URL of a registry"),
        (lambda: SchemaRegistry("http://h/a?b=c"), "is no URL of a registry"),
        (lambda: SchemaRegistry("http://ada:s3cret@h"), "as basic_auth, not in the URL"),
        (lambda: SchemaRegistry("ftp://ada:s3cret@h"), "'h' is no URL of a registry"),
        (lambda: SchemaRegistry(URL, basic_auth=("a:b", "c")), "basic_auth must be a user"),
        (lambda: SchemaRegistry(URL, basic_auth=("a",)), "basic_auth must be a user"),  # type: ignore[arg-type]
        (lambda: SchemaRegistry(URL, basic_auth=("a", 5)), "basic_auth must be a user"),  # type: ignore[arg-type]
        (lambda: SchemaRegistry(URL, timeout_ms=0), "must be positive"),
        (lambda: SchemaRegistry(URL, ssl_cafile="ca.pem"), "ssl_cafile needs a URL that begins"),
        (lambda: SchemaRegistry("https://h", ssl_cafile="/nowhere"), "'/nowhere' cannot be read"),
    ],
)
def test_a_wrong_setting_is_one_sentence(make: Make, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as raised:
        make()
    assert "s3cret" not in str(raised.value)


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy or a file of passwords for other programs does not concern a registry."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server = Server(response(b"[]"))

    async def ask() -> Mapping[str, Any] | list[str]:
        async with server.serve() as url:
            return await SchemaRegistry(url).subjects()

    assert asyncio.run(ask()) == []
