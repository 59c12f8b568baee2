"""JSON Web Tokens for tests: unsecured ones, and an issuer with keys (edge)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest


def encode(part: bytes) -> str:
    """Return a part of a token as text."""
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def encode_json(value: object) -> str:
    """Return a part with `value` in JSON."""
    return encode(json.dumps(value).encode())


def claims_of(user: str, lifetime_s: float = 600, **more: object) -> dict[str, object]:
    """Return the claims of a token that is valid from now on."""
    now_s = time.time()
    return {"sub": user, "iat": now_s, "exp": now_s + lifetime_s, **more}


def unsecured(claims: Mapping[str, object], **header: object) -> str:
    """Return a token without a signature."""
    return f"{encode_json({'alg': 'none', **header})}.{encode_json(claims)}."


@dataclass
class Issuer:
    """Signs tokens, and has the keys that verify them."""

    keys: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Private key and algorithm, by key id."""

    @classmethod
    def make(cls) -> Issuer:
        """Return an issuer with a key of RSA, `rsa`, and one of EC, `ec`."""
        pytest.importorskip("jwt")
        pytest.importorskip("cryptography")
        issuer = cls()
        issuer.add("rsa", "RS256")
        issuer.add("ec", "ES256")
        return issuer

    def add(self, key_id: str, algorithm: str, rsa_bits: int = 2048) -> None:
        """Make a new key."""
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        curves = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
        if algorithm in curves:
            self.keys[key_id] = (ec.generate_private_key(curves[algorithm]()), algorithm)
        else:
            self.keys[key_id] = (rsa.generate_private_key(65537, rsa_bits), algorithm)

    def public(self, key_id: str, **more: object) -> dict[str, object]:
        """Return a public key as JSON Web Key."""
        import jwt

        key, algorithm = self.keys[key_id]
        made: dict[str, object] = jwt.get_algorithm_by_name(algorithm).to_jwk(
            key.public_key(), as_dict=True
        )
        return {**made, "kid": key_id, **more}

    def key_set(self) -> bytes:
        """Return all public keys as JSON Web Key Set."""
        return json.dumps({"keys": [self.public(each) for each in self.keys]}).encode()

    def sign(self, claims: Mapping[str, object], key_id: str = "rsa", **header: Any) -> str:
        """Return a token; a header of None is left out."""
        import jwt

        key, algorithm = self.keys[key_id]
        token: str = jwt.encode(
            dict(claims),
            key,
            header.pop("alg", algorithm),
            {name: each for name, each in {"kid": key_id, **header}.items() if each is not None},
        )
        return token
