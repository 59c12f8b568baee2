"""All readers of credentials that a stranger or a damaged file may feed, with valid inputs.

A reader judges one input: it returns, or raises one of its documented errors. Any other exception
is a defect, and so is the acceptance of an input that proves nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from broker.security.oauth.json_text import JsonError, parse_object
from broker.security.oauth.token_claims import ClaimRules
from broker.security.oauth.unsecured_tokens import accept_unsecured, make_unsecured
from kafkawire.sasl_clients import OAuthBearerClient, ScramClient
from kafkawire.sasl_oauth_server import OAuthBearerServer, TokenError
from kafkawire.sasl_servers import PlainServer, SaslError, ScramServer
from kafkawire.scram import (
    Credential,
    ScramError,
    decode_base64,
    parse_attributes,
    salt_password,
)
from tests.property.trust import mutation
from tests.property.trust.mutation import Mutation
from tests.unit.trust.stores import GOLDEN, KEY_PASSWORD, PASSWORD
from trust.distinguished_name import is_distinguished_name, subject_of
from trust.jaas import MODULES, JaasError, parse_jaas, parse_login_file
from trust.key_store import key_pem, trust_pem
from trust.pem import normalised

NOW_MS: Final = 1_700_000_000_000
MECHANISM: Final = "SCRAM-SHA-256"
SALT: Final = b"salt"
ITERATIONS: Final = 4096
SALTED: Final = salt_password(MECHANISM, "s3cret", SALT, ITERATIONS)
JAAS: Final = (
    f'{MODULES["PLAIN"]} required /* one */ username="a" password="b\\"c" user_a=\'d\' // two\n'
    "user_e=f;"
).encode()
LOGIN_FILE: Final = (
    b"Server { org.apache.zookeeper.server.auth.DigestLoginModule required\n"
    b'  user_super="adminsecret" user_bob="bobsecret"; };\nClient { a.B optional c="d"; };\n'
)
NAME: Final = rb"CN=a\,b+OU=\#c, O=#0c0161; 1.2.840.113549.1.9.1=\22d\22"
OAUTH_RULES: Final = ClaimRules(ignores_audience=True)


@dataclass(frozen=True)
class Reader:
    """A reader, valid inputs, and the mutations that suit them."""

    name: str
    read: Callable[[bytes], object]
    errors: tuple[type[ValueError], ...]
    valid: tuple[bytes, ...]
    mutations: tuple[Mutation, ...]
    limit_s: float = 0.25
    """Limit of the processor time for one input."""
    daily_count: int = 150
    """Inputs in an everyday run."""
    needs: str = ""
    """An optional package."""


def scram_server() -> tuple[ScramServer, ScramClient]:
    credential = Credential.of(MECHANISM, SALTED, SALT, ITERATIONS)
    server = ScramServer(MECHANISM, {"alice": credential}.get, "server", b"secret")
    return server, ScramClient(MECHANISM, "alice", "s3cret", "client")


@cache
def scram_messages() -> tuple[bytes, bytes, bytes, bytes]:
    """Return the four messages of an exchange, which are always the same."""
    server, client = scram_server()
    first = client.first()
    challenge = server.answer(first)
    proof = client.answer(challenge)
    assert proof is not None
    return first, challenge, proof, server.answer(proof)


def read_plain(message: bytes) -> None:
    server = PlainServer({"alice": "s3cret"})
    server.answer(message)
    assert message in (b"\0alice\0s3cret", b"alice\0alice\0s3cret"), "a login without the password"


def read_scram_first(message: bytes) -> None:
    server, _ = scram_server()
    assert server.answer(message).startswith(b"r=")
    assert server.user is None


def read_scram_proof(message: bytes) -> None:
    server, client = scram_server()
    server.answer(client.first())
    server.answer(message)
    assert meaning_of(message) == meaning_of(scram_messages()[2]), "a login by another proof"


def meaning_of(message: bytes) -> tuple[bytes, bytes]:
    """Return a message and its last value apart, because unused bits of base64 may differ."""
    before, separator, value = message.rpartition(b",p=")
    text = value if separator else value.removeprefix(b"v=")
    return before, decode_base64(text.decode())


def read_scram_challenge(message: bytes) -> None:
    _, client = scram_server()
    client.first()
    assert client.answer(message) is not None


def read_scram_verifier(message: bytes) -> None:
    _, client = scram_server()
    client.answer(scram_messages()[1])
    client.answer(message)
    proof = parse_attributes(message)["v"]
    assert meaning_of(b"v=" + proof.encode()) == meaning_of(scram_messages()[3]), "no right proof"


def read_oauth_client(message: bytes) -> None:
    assert OAuthBearerClient("a.b.c").answer(message) == (b"\x01" if message else None)


def read_oauth_server(message: bytes) -> None:
    server = OAuthBearerServer(lambda text: accept_unsecured(text, OAUTH_RULES, NOW_MS))
    if answer := server.answer(message):
        assert json.loads(answer)["status"] == "invalid_token"
        assert server.user is None
    else:
        assert server.user
        assert server.lifetime_ms


def read_token(text: bytes) -> None:
    found = accept_unsecured(text.decode("latin-1"), OAUTH_RULES, NOW_MS)
    assert found.user
    assert found.lifetime_ms > 0


def read_jaas(text: bytes) -> None:
    parse_jaas(text.decode("utf-8", "replace"), "PLAIN")


def read_store(data: bytes) -> None:
    trust_pem(data, PASSWORD)
    key_pem(data, PASSWORD, "" if data[:1] == b"\x30" else KEY_PASSWORD)


def read_unsigned_store(data: bytes) -> None:
    key_pem(data, "", KEY_PASSWORD)


def signed_again(mutate: Mutation) -> Mutation:
    """Mutate the entries of a JKS store, and sign it again with its password."""

    def apply(data: bytes, dice: random.Random) -> bytes:
        body = mutate(data[:-20], dice)
        text = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
        return body + hashlib.sha1(text, usedforsecurity=False).digest()

    return apply


def in_pem(mutate: Mutation) -> Mutation:
    """Mutate the DER in a PEM block."""

    def apply(data: bytes, dice: random.Random) -> bytes:
        label = dice.choice((b"CERTIFICATE", b"PRIVATE KEY", b"A" * 41, b"X\nY"))
        block = base64.b64encode(mutate(GOLDEN["ca.der"], dice))
        return data + b"-----BEGIN %b-----\n%b\n-----END %b-----" % (label, block, label)

    return apply


def ends_with_errors(*reads: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """Return a reader that calls all `reads`, even if the first one refuses the input."""

    def read(data: bytes) -> None:
        refusal: ValueError | None = None
        for each in reads:
            try:
                each(data)
            except (JaasError, ValueError) as error:
                refusal = error
        if refusal is not None:
            raise refusal

    return read


TOKEN: Final = make_unsecured({"sub": "alice", "scope": "a b", "aud": "kafka"}, 600, NOW_MS)
TEXT: Final = (mutation.of_text, mutation.of_bytes)
DER: Final = (mutation.of_der, mutation.of_der, mutation.of_bytes)
JKS: Final = tuple(GOLDEN[name] for name in ("key.jks", "trust.jks"))
PKCS12: Final = tuple(GOLDEN[name] for name in sorted(GOLDEN) if name.endswith("p12"))

READERS: Final[tuple[Reader, ...]] = (
    Reader("PLAIN", read_plain, (SaslError,), (b"\0alice\0s3cret",), TEXT),
    Reader("SCRAM server, name", read_scram_first, (SaslError,), scram_messages()[:1], TEXT),
    Reader("SCRAM server, proof", read_scram_proof, (SaslError,), scram_messages()[2:3], TEXT),
    # A million iterations take half a second, which the client allows.
    Reader(
        "SCRAM client, challenge", read_scram_challenge, (ScramError,), scram_messages()[1:2],
        TEXT, limit_s=2.0, daily_count=40,
    ),
    Reader(
        "SCRAM client, verifier", read_scram_verifier, (ScramError,), scram_messages()[3:4], TEXT,
        daily_count=40,
    ),
    Reader("OAUTHBEARER client", read_oauth_client, (), (b'{"status":"invalid_token"}',), TEXT),
    Reader(
        "OAUTHBEARER server", read_oauth_server, (SaslError,),
        (OAuthBearerClient(TOKEN).first(), b"n,a=alice,\x01auth=Bearer a.b.c\x01k=v\x01\x01"), TEXT,
    ),
    Reader(
        "JWT", read_token, (TokenError,), (TOKEN.encode(),),
        (mutation.of_token, mutation.of_token, mutation.of_bytes),
    ),
    Reader(
        "JSON", parse_object, (JsonError,), (b'{"a":[1,{"b":"c\\u00e9"}],"d":-1.5e3,"e":null}',),
        (mutation.of_json, mutation.of_text, mutation.of_bytes),
    ),
    Reader("JAAS", read_jaas, (JaasError,), (JAAS,), TEXT),
    Reader(
        "login file", lambda data: parse_login_file(data.decode("utf-8", "replace")),
        (JaasError,), (LOGIN_FILE,), TEXT,
    ),
    Reader(
        "X.509", lambda data: subject_of(data), (ValueError,),
        (GOLDEN["ca.der"], GOLDEN["b.der"]), DER,
    ),
    Reader(
        "name of a subject", lambda data: is_distinguished_name(data.decode("latin-1")),
        (), (NAME,), TEXT,
    ),
    Reader(
        "PEM", lambda data: normalised(data.decode("latin-1")), (ValueError,),
        (normalised("-----BEGIN A-----MAA=-----END A-----").encode(),),
        (in_pem(mutation.of_der), mutation.of_text, mutation.of_bytes),
    ),
    Reader(
        "JKS", ends_with_errors(read_store, read_unsigned_store), (ValueError,), JKS,
        (signed_again(mutation.of_bytes), signed_again(mutation.of_der), mutation.of_bytes),
    ),
    # Opening one takes 10,000 hashes by default, and at most a million for each of its parts.
    Reader(
        "PKCS12", read_store, (ValueError,), PKCS12, DER, limit_s=5.0, daily_count=20,
        needs="cryptography",
    ),
)  # fmt: skip
