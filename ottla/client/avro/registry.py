"""A client of schema registries with Confluent's protocol (edge).

Requests are rare, since serializers and deserializers remember schemas. So each has a connection
of its own: nothing has to be closed, and any event loop may use the same object.
"""

import asyncio
import json
import ssl
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

from kafkawire.units import MIB
from ottla.client.avro.answer import (
    RegisteredSchema,
    answer_of,
    no_answer,
    schema_id_of,
    schema_of,
    shown,
    subjects_of,
)
from ottla.client.errors import ConfigurationError, SchemaRegistryError
from ottla.client.retry import Backoff, retry
from ottla.client.security import security_of

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MAX_ANSWER_BYTES: Final = MIB
BACKOFF_S: Final = 0.1
MAX_BACKOFF_S: Final = 1.0
_SCHEMES: Final = ("http", "https")
_HEADERS: Final = {
    "Accept": f"{MEDIA_TYPE}, application/json",
    "Accept-Encoding": "identity",
    "Content-Type": MEDIA_TYPE,
}


class SchemaRegistry:
    """Schemas by id and by subject.

    registry = SchemaRegistry("https://registry:8081", basic_auth=("app", password))
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        basic_auth: tuple[str, str] | None = None,
        timeout_ms: int = 30_000,
        request_timeout_ms: int = 10_000,
        ssl_context: ssl.SSLContext | None = None,
        ssl_cafile: str | None = None,
        ssl_certfile: str | None = None,
        ssl_keyfile: str | None = None,
        ssl_password: str | None = None,
    ) -> None:
        """Configure the client; it connects when a schema is needed.

        Args:
            urls: Address of the registry, or several of the same one, tried in this order.
            basic_auth: User and password.
            timeout_ms: Time limit of one call, repeated requests included. Requests are repeated if
                the registry cannot be reached or is overloaded.
            request_timeout_ms: Time limit of one request.
            ssl_context: TLS settings of your own, instead of the other `ssl_` options.
            ssl_cafile: PEM file of trusted certificate authorities; the default is the system's.
            ssl_certfile: PEM file with the client's certificate and its chain.
            ssl_keyfile: PEM file with the client's key, unless `ssl_certfile` has it.
            ssl_password: Password of the key.

        Raises:
            ConfigurationError: an argument is invalid, or the packages of the extra `avro` are
                missing.
        """
        _httpx()
        if timeout_ms <= 0 or request_timeout_ms <= 0:
            raise ConfigurationError("timeout_ms and request_timeout_ms must be positive")
        self._urls = _parse_urls(urls)
        self._basic_auth = _parse_basic_auth(basic_auth)
        self._timeout_s = timeout_ms / 1000
        self._request_timeout_s = request_timeout_ms / 1000
        given: dict[str, Any] = {
            "ssl_context": ssl_context,
            "ssl_cafile": ssl_cafile,
            "ssl_certfile": ssl_certfile,
            "ssl_keyfile": ssl_keyfile,
            "ssl_password": ssl_password,
        }
        options = {name: value for name, value in given.items() if value is not None}
        if options and not any(url.startswith("https:") for url in self._urls):
            raise ConfigurationError(f"{min(options)} needs a URL that begins with https:")
        self._tls = security_of(**options, security_protocol="SSL").tls

    async def register(self, subject: str, schema: str) -> int:
        """Return the id of `schema`, a text in JSON, as a version of `subject`; add it if needed.

        Raises:
            SchemaRegistryError: the registry refused it, for example as incompatible.
        """
        return await self._find_id(f"subjects/{_quoted(subject)}/versions", schema)

    async def find_id(self, subject: str, schema: str) -> int:
        """Return the id of `schema`, which must be a version of `subject`.

        Raises:
            SchemaRegistryError: the subject has no such version.
        """
        return await self._find_id(f"subjects/{_quoted(subject)}", schema)

    async def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id.

        Raises:
            SchemaRegistryError: there is none, or it is no Avro schema.
        """
        path = f"schemas/ids/{schema_id}"
        return schema_of(path, await self._request("GET", path))

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject.

        Raises:
            SchemaRegistryError: there is none, or it is no Avro schema.
        """
        path = f"subjects/{_quoted(subject)}/versions/{version}"
        return schema_of(path, await self._request("GET", path))

    async def subjects(self) -> list[str]:
        """Return all subjects.

        Raises:
            SchemaRegistryError: the registry refused the request.
        """
        return subjects_of("subjects", await self._request("GET", "subjects"))

    async def _find_id(self, path: str, schema: str) -> int:
        body = json.dumps({"schema": schema}).encode()
        return schema_id_of(path, await self._request("POST", path, body))

    async def _request(self, method: str, path: str, body: bytes | None = None) -> Any:
        async def attempt() -> Any:
            return await self._try_each(method, path, body)

        # Without dice: several clients that repeat requests at the same time do no harm here.
        backoff = Backoff(initial_s=BACKOFF_S, max_s=MAX_BACKOFF_S, random=lambda: 0.5)
        return await retry(attempt, backoff, self._timeout_s)

    async def _try_each(self, method: str, path: str, body: bytes | None) -> Any:
        *others, last = self._urls
        for url in others:
            try:
                return await self._try(method, f"{url}/{path}", body)
            except SchemaRegistryError as error:
                if not error.retriable:
                    raise
        return await self._try(method, f"{last}/{path}", body)

    async def _try(self, method: str, url: str, body: bytes | None) -> Any:
        httpx = _httpx()
        request = f"{method} {url}"
        try:
            async with (
                asyncio.timeout(self._request_timeout_s),
                # Without trust_env, no proxy, certificate or password comes from elsewhere.
                httpx.AsyncClient(
                    verify=self._tls, auth=self._basic_auth, trust_env=False, timeout=None
                ) as client,
                client.stream(method, url, content=body, headers=_HEADERS) as response,
            ):
                return answer_of(request, response.status_code, await _body(request, response))
        except TimeoutError as error:
            raise SchemaRegistryError(
                f"{request}: no answer within {self._request_timeout_s:g} s", retriable=True
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            reason = shown(error) or type(error).__name__
            is_permanent = isinstance(error.__cause__, ssl.SSLError) or "CERTIFICATE" in reason
            raise SchemaRegistryError(
                f"{request}: no answer: {reason}", retriable=not is_permanent
            ) from error


async def _body(request: str, response: Any) -> bytes:
    """Return the body as it was sent: a compressed one could expand without limit."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise no_answer(request, "it is compressed, without a request for that")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise no_answer(request, f"it has more than {MAX_ANSWER_BYTES} bytes")
    return bytes(body)


def _parse_urls(urls: str | Sequence[str]) -> list[str]:
    found = urls.split(",") if isinstance(urls, str) else list(urls)
    if not found:
        raise ConfigurationError("give the URL of a schema registry")
    return [_parse_url(url.strip().rstrip("/")) for url in found]


def _parse_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isprintable() or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{shown(url.rpartition('@')[2])!r} is no URL of a registry: give one such as "
            "http://localhost:8081"
        )
    if "@" in parts.netloc:
        raise ConfigurationError("give user and password as basic_auth, not in the URL")
    return url


def _parse_basic_auth(basic_auth: tuple[str, str] | None) -> tuple[str, str] | None:
    if basic_auth is None:
        return None
    try:
        user, password = basic_auth
        is_valid = ":" not in user and user.isprintable() and password.isprintable()
    except (TypeError, ValueError, AttributeError):
        is_valid = False
    if not is_valid:
        raise ConfigurationError(
            "basic_auth must be a user without colons and a password, as two printable str"
        )
    return basic_auth


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _httpx() -> Any:
    # The client itself needs no library.
    try:
        import httpx2
    except ImportError as error:
        raise ConfigurationError("a registry needs httpx2: pip install 'ottla[avro]'") from error
    return httpx2
