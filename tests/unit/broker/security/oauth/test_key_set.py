"""Signatures of tokens, and the keys that verify them: `broker.security.oauth.key_set`."""

from __future__ import annotations

import hmac
import json
import random

import pytest
from structlog.testing import capture_logs

from broker.security.oauth.token_text import parse_token
from kafkawire.sasl_oauth_server import TokenError
from tests.oauth_tokens import Issuer, claims_of, encode, encode_json

pytest.importorskip("jwt")
pytest.importorskip("cryptography")

from broker.security.oauth.key_set import MAX_KEYS, KeySet, KeySetError, UnknownKeyError


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    made = Issuer.make()
    made.add("ec384", "ES384")
    made.add("ec521", "ES512")
    made.add("pss", "PS256")
    return made


@pytest.fixture(scope="module")
def stranger() -> Issuer:
    return Issuer.make()


@pytest.fixture(scope="module")
def keys(issuer: Issuer) -> KeySet:
    return KeySet(issuer.key_set())


@pytest.mark.parametrize("key_id", ["rsa", "ec", "ec384", "ec521", "pss"])
@pytest.mark.parametrize("named", [True, False])
def test_a_token_is_verified_by_the_key_that_signed_it(
    issuer: Issuer, keys: KeySet, key_id: str, named: bool
) -> None:
    header = {} if named else {"kid": None}
    keys.verify(parse_token(issuer.sign(claims_of("alice"), key_id, **header)))


@pytest.mark.parametrize("key_id", ["rsa", "ec"])
def test_a_token_of_another_issuer_is_refused(keys: KeySet, stranger: Issuer, key_id: str) -> None:
    token = parse_token(stranger.sign(claims_of("alice"), key_id))
    with pytest.raises(TokenError, match="signature of the token is wrong"):
        keys.verify(token)


def test_a_key_is_not_used_for_another_algorithm_or_id(issuer: Issuer, keys: KeySet) -> None:
    claims = claims_of("alice")
    for token in (
        issuer.sign(claims, kid="unknown"),
        issuer.sign(claims, "ec", kid="rsa"),
        issuer.sign(claims, "rsa", kid="ec"),
    ):
        with pytest.raises(UnknownKeyError):
            keys.verify(parse_token(token))
    restricted = KeySet(json.dumps({"keys": [issuer.public("rsa", alg="RS512")]}).encode())
    with pytest.raises(UnknownKeyError):
        restricted.verify(parse_token(issuer.sign(claims)))
    restricted.verify(parse_token(issuer.sign(claims, alg="RS512")))


@pytest.mark.parametrize("key_id", ["rsa", "ec"])
def test_a_public_key_is_no_secret_of_an_hmac(issuer: Issuer, keys: KeySet, key_id: str) -> None:
    """The classic confusion: the attacker signs by HMAC with the published key as the secret."""
    from cryptography.hazmat.primitives import serialization

    public = issuer.keys[key_id][0].public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    secrets = [pem, pem.strip(), issuer.key_set(), json.dumps(issuer.public(key_id)).encode()]
    for algorithm, hash_name in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
        for secret in secrets:
            signed = f"{encode_json({'alg': algorithm, 'kid': key_id})}."
            signed += encode_json(claims_of("admin"))
            signature = hmac.digest(secret, signed.encode(), hash_name)
            with pytest.raises(TokenError, match="algorithm of the token is not served"):
                keys.verify(parse_token(f"{signed}.{encode(signature)}"))


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "None"},
        {"alg": "nOnE"},
        {"alg": None},
        {"alg": ["RS256"]},
        {"alg": "RS256 "},
        {"alg": "ES256K"},
        {"alg": "EdDSA"},
        {"alg": "RSA-OAEP"},
        {},
    ],
)
def test_other_algorithms_are_refused(keys: KeySet, header: dict[str, object]) -> None:
    signature = encode(b"\0" * 64)
    text = f"{encode_json({**header, 'kid': 'rsa'})}.{encode_json(claims_of('admin'))}."
    for token in (text, text + signature):
        with pytest.raises(TokenError, match="algorithm of the token is not served"):
            keys.verify(parse_token(token))


def test_the_keys_inside_a_token_are_ignored(keys: KeySet, stranger: Issuer) -> None:
    token = stranger.sign(
        claims_of("admin"),
        jwk=stranger.public("rsa"),
        jku="https://stranger.example/keys",
        x5u="file:///etc/passwd",
        x5c=["AAAA"],
    )
    with pytest.raises(TokenError, match="signature of the token is wrong"):
        keys.verify(parse_token(token))
    unnamed = parse_token(stranger.sign(claims_of("a"), jwk=stranger.public("rsa"), kid=None))
    with pytest.raises(TokenError, match="signature of the token is wrong"):
        keys.verify(unnamed)


def test_a_key_id_is_a_text(issuer: Issuer, keys: KeySet) -> None:
    signature = issuer.sign(claims_of("alice")).rpartition(".")[2]
    for key_id in (7, ["rsa"], {"rsa": 1}, True):
        text = f"{encode_json({'alg': 'RS256', 'kid': key_id})}.{encode_json({})}.{signature}"
        with pytest.raises(TokenError, match="key id of the token is not a text"):
            keys.verify(parse_token(text))


@pytest.mark.fresh_seeds(10)
def test_a_changed_token_is_never_verified(issuer: Issuer, keys: KeySet, seed: int) -> None:
    rng = random.Random(seed)
    tokens = [issuer.sign(claims_of("alice"), key_id) for key_id in ("rsa", "ec")]
    for _ in range(150):
        token = rng.choice(tokens)
        changed = bytearray(token, "ascii")
        for _ in range(rng.choice((1, 1, 2, 5))):
            changed[rng.randrange(len(changed))] = rng.randrange(128)
        try:
            text = parse_token(changed.decode())
            keys.verify(text)
        except TokenError:
            continue
        # Unused bits of the last letter of a part may differ.
        assert text.claims == parse_token(token).claims
        assert text.header == parse_token(token).header


@pytest.mark.parametrize(
    "change",
    [
        {"kty": "oct", "k": "AAAA"},
        {"kty": ["RSA"]},
        {"kty": None},
        {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"},
        {"use": "enc"},
        {"use": 7},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"alg": 7},
        {"kid": 7},
        {"n": ""},
        {"n": "AAAA"},
        {"n": 7},
        {"n": "\u00e9"},
        {"e": "AA"},
        {"e": None},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": ["P-256"], "x": "AA", "y": "AA"},
    ],
)
def test_a_key_that_cannot_be_used_is_left_out(issuer: Issuer, change: dict[str, object]) -> None:
    bad = {**issuer.public("rsa"), **change}
    with capture_logs() as logs:
        found = KeySet(json.dumps({"keys": [bad, issuer.public("ec"), None, "x"]}).encode())
    assert [each.key_id for each in found.keys] == ["ec"]
    assert logs[0]["event"] == "jwks.keys_ignored"
    with pytest.raises(KeySetError, match="no key of RSA or EC"):
        KeySet(json.dumps({"keys": [bad]}).encode())


def test_a_weak_key_is_left_out() -> None:
    issuer = Issuer.make()
    issuer.add("weak", "RS256", rsa_bits=1024)
    assert "weak" not in [each.key_id for each in KeySet(issuer.key_set()).keys]


def test_private_members_of_a_key_are_not_read(issuer: Issuer) -> None:
    [key] = KeySet(json.dumps({"keys": [issuer.public("rsa", d="AQAB", p=7)]}).encode()).keys
    assert not hasattr(key.key, "private_numbers")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[]}',
        b'{"keys":' + b"[" * 100_000,
        b'{"keys":[' + b"{}," * MAX_KEYS + b"{}]}",
        b'{"keys":[],"keys":[]}',
        b"<html>",
    ],
)
def test_a_malformed_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(KeySetError):
        KeySet(data)
