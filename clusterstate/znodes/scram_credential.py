"""SCRAM credentials among the configs of a user, at `/config/users/<user>` (decision).

The key is the mechanism. Source: ScramCredentialUtils of Kafka 3.9.
"""

from collections.abc import Mapping

from clusterstate.errors import MalformedZnodeError
from kafkawire.scram import HASHES, Credential, ScramError, decode_base64, encode_base64

_KEYS = ("salt", "stored_key", "server_key", "iterations")


def encode_credential(credential: Credential) -> str:
    """Return the text of a credential."""
    values = (
        encode_base64(credential.salt),
        encode_base64(credential.stored_key),
        encode_base64(credential.server_key),
        str(credential.iterations),
    )
    return ",".join(f"{key}={value}" for key, value in zip(_KEYS, values, strict=True))


def decode_credential(text: str) -> Credential:
    """Return the credential that `text` holds.

    Raises:
        MalformedZnodeError: it holds none; the error does not show the text.
    """
    values = dict(part.strip().partition("=")[::2] for part in text.split(","))
    try:
        if values.keys() != set(_KEYS) or not values["iterations"].isdecimal():
            raise ScramError("a value is missing")
        return Credential(
            salt=decode_base64(values["salt"]),
            stored_key=decode_base64(values["stored_key"]),
            server_key=decode_base64(values["server_key"]),
            iterations=int(values["iterations"]),
        )
    except ValueError as error:
        raise MalformedZnodeError(f"not a SCRAM credential: {error}") from None


def decode_credentials(configs: Mapping[str, str]) -> dict[str, Credential]:
    """Return the credentials among a user's configs, by mechanism.

    Raises:
        MalformedZnodeError: a value is not a credential.
    """
    return {
        mechanism: decode_credential(configs[mechanism])
        for mechanism in HASHES
        if mechanism in configs
    }
