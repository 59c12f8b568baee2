"""Readers of key sets and of signed tokens; they need the packages of `ottla[security]`."""

from __future__ import annotations

import json
import random
from typing import Final

from broker.security.oauth.key_set import KeySet, KeySetError
from broker.security.oauth.token_text import parse_token
from kafkawire.sasl_oauth_server import TokenError
from tests.oauth_tokens import Issuer, claims_of, encode
from tests.property.trust import mutation
from tests.property.trust.credential_readers import Reader

RSA_BITS: Final = 2048


def _issuer() -> Issuer:
    # Without a key of RSA, whose making takes too long for each run.
    made = Issuer()
    made.add("ec", "ES256")
    made.add("ec521", "ES512")
    return made


ISSUER: Final = _issuer()
KEYS: Final = KeySet(ISSUER.key_set())
SIGNED: Final = ISSUER.sign(claims_of("alice"), "ec")


def _rsa_key() -> dict[str, str]:
    # Nobody factors it here; a key set has the public part only.
    modulus = random.Random(1).getrandbits(RSA_BITS) | 1 | 1 << (RSA_BITS - 1)
    number = encode(modulus.to_bytes(RSA_BITS // 8, "big"))
    return {"kty": "RSA", "kid": "rsa", "alg": "RS256", "use": "sig", "n": number, "e": "AQAB"}


KEY_SET: Final = json.dumps({"keys": [ISSUER.public("ec", use="sig"), _rsa_key()]}).encode()


def read_key_set(data: bytes) -> None:
    assert KeySet(data).keys


def read_signed_token(text: bytes) -> None:
    token = parse_token(text.decode("latin-1"))
    KEYS.verify(token)
    # Only the unused bits of the signature's last digit may differ.
    assert text.rpartition(b".")[0] == SIGNED.rpartition(".")[0].encode(), "another token"


READERS: Final = (
    Reader(
        "JWKS",
        read_key_set,
        (KeySetError,),
        (KEY_SET, ISSUER.key_set()),
        (mutation.of_json, mutation.of_json, mutation.of_text, mutation.of_bytes),
    ),
    Reader(
        "signed JWT",
        read_signed_token,
        (TokenError,),
        (SIGNED.encode(),),
        (mutation.of_token, mutation.of_token, mutation.of_bytes),
    ),
)
