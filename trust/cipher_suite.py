"""Names of cipher suites, of Java or of OpenSSL, and the choice among them (decision).

A suite has a name of IANA, which Java uses, and for TLS 1.2 another one of OpenSSL. Only suites
with forward secrecy and authenticated encryption may be chosen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

OPENSSL_NAMES: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
}
"""The suites of TLS 1.2: OpenSSL's name of each of IANA's."""
TLS_1_3: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
"""The suites of TLS 1.3, which Python cannot choose among."""


@dataclass(frozen=True, slots=True)
class CipherChoice:
    """Suites of TLS 1.2 in OpenSSL's words, in order of preference, and whether TLS 1.3 is used."""

    tls_1_2: tuple[str, ...]
    has_tls_1_3: bool


def suite_names(text: str) -> tuple[str, ...]:
    """Return the names in `text`, between commas as for Java, or colons as for OpenSSL."""
    return tuple(name.strip() for name in re.split("[,:]", text))


def choose_suites(names: Sequence[str]) -> CipherChoice:
    """Return the choice of the suites `names`.

    Raises:
        ValueError: a name is unknown or not served, or some suites of TLS 1.3 are missing; the
            message is a rule.
    """
    tls_1_2 = dict.fromkeys(OPENSSL_NAMES.get(name, name) for name in names if name not in TLS_1_3)
    for name in tls_1_2:
        if name not in OPENSSL_NAMES.values():
            served = ", ".join([*OPENSSL_NAMES, *sorted(TLS_1_3)])
            raise ValueError(f"must be a list of {served}: {name!r} is not served")
    missing = TLS_1_3.difference(names)
    if missing and missing != TLS_1_3:
        raise ValueError(
            "must name all suites of TLS 1.3 or none, because they cannot be chosen one by one: "
            f"add {', '.join(sorted(missing))}"
        )
    return CipherChoice(tuple(tls_1_2), has_tls_1_3=not missing)
