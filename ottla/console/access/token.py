"""The token that a browser needs, and the secret of the console's forms (decision).

The token is in the address that the console prints. A browser that opens it gets a cookie, and the
token vanishes from the address.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final

MIN_TOKEN_CHARACTERS: Final = 16
COOKIE: Final = "ottla_console"
_PORT: Final = re.compile(r":([0-9]{1,5})$")


@dataclass(frozen=True, slots=True)
class Access:
    """Checks of requests. Without a `token` every client of the address may read and change."""

    token: str | None
    form_secret: str

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < MIN_TOKEN_CHARACTERS:
            raise ValueError(
                f"a token has at least {MIN_TOKEN_CHARACTERS} characters, got {len(self.token)}"
            )

    @property
    def cookie(self) -> str:
        """The value of the cookie: it proves the token without revealing it."""
        return hashlib.sha256(f"{self.form_secret}:{self.token}".encode()).hexdigest()

    def is_token(self, offered: str) -> bool:
        """Whether `offered` is the token."""
        return self.token is not None and _equal(offered, self.token)

    def may_enter(self, cookie: str) -> bool:
        """Whether a request with this cookie may be answered."""
        return self.token is None or _equal(cookie, self.cookie)

    def is_form_secret(self, offered: str) -> bool:
        """Whether a form of this console sent `offered`."""
        return _equal(offered, self.form_secret)


def cookie_name(host_header: str) -> str:
    """Return the name of the cookie of a console that a browser reaches under this Host header.

    Browsers send the cookies of a host to all its ports, where other consoles may listen.
    """
    port = _PORT.search(host_header)
    return COOKIE if port is None else f"{COOKIE}_{port[1]}"


def _equal(offered: str, expected: str) -> bool:
    # In constant time, so that response times reveal nothing.
    return hmac.compare_digest(offered.encode(errors="replace"), expected.encode(errors="replace"))
