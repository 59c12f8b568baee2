"""Login modules in a `sasl.jaas.config` property, or in a file with sections (decision).

A module has the form `CLASS FLAG (KEY=VALUE)*;`, in the syntax of Java's StreamTokenizer, and a
section the form `NAME { MODULE* };`. In properties, only the modules of the served mechanisms are
allowed. No error quotes the text, which holds passwords.

Source: org.apache.kafka.common.security.JaasConfig of Kafka 3.9; javax.security.auth.login
.Configuration of Java 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkawire.scram import HASHES

FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MODULES: Final[Mapping[str, str]] = {
    "PLAIN": PLAIN_MODULE,
    **dict.fromkeys(HASHES, SCRAM_MODULE),
    "OAUTHBEARER": OAUTH_MODULE,
}
"""The login module of each mechanism."""
DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
USER_PREFIX: Final = "user_"

# A lone slash begins a comment, as in Java.
_TOKEN: Final = re.compile(
    r"""(?P<blank>[\x00-\x20]+|/\*.*?\*/|/(?!\*)[^\r\n]*)
    |"(?P<double>(?:[^"\\\r\n]|\\[^\r\n])*)"
    |'(?P<single>(?:[^'\\\r\n]|\\[^\r\n])*)'
    |(?P<word>[A-Za-z_$\xa0-\xff][A-Za-z0-9._$\xa0-\xff-]*)
    |(?P<sign>[=;{}])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)")
_CONTROLS: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


class JaasError(ValueError):
    """The text is not the configuration of one login module."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A module's class and its options."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def passwords(self) -> dict[str, str]:
        """The passwords of PLAIN's users, which are options `user_NAME`."""
        return {
            key.removeprefix(USER_PREFIX): value
            for key, value in self.options.items()
            if key.startswith(USER_PREFIX)
        }

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password of this broker's own logins at other brokers; None without them."""
        user, password = self.options.get("username"), self.options.get("password")
        return (user, password) if user and password else None


def parse_jaas(text: str, mechanism: str) -> LoginModule:
    """Return the login module for a mechanism of `MODULES` in the text of a property.

    Raises:
        JaasError: the text is malformed, or names another module.
    """
    tokens = _tokens(text)
    name = _next_word(tokens, "the class of a login module")
    if name != MODULES[mechanism]:
        raise JaasError(f"must configure {MODULES[mechanism]} for {mechanism}")
    options = _options(tokens)
    if next(tokens, None) is not None:
        raise JaasError("must configure one login module only")
    return LoginModule(name, options)


def parse_login_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Return the login modules of each section in the text of a file.

    Raises:
        JaasError: the text is malformed.
    """
    found: dict[str, tuple[LoginModule, ...]] = {}
    tokens = _tokens(text)
    for kind, name in tokens:
        if kind == "sign" or next(tokens, None) != ("sign", "{"):
            raise JaasError("must consist of sections in the form NAME { MODULE; };")
        if name in found:
            raise JaasError(f"has two sections {name}")
        found[name] = tuple(_modules(tokens))
        if next(tokens, None) != ("sign", ";"):
            raise JaasError("must end each section with a semicolon")
    return found


def _modules(tokens: Iterator[tuple[str, str]]) -> Iterator[LoginModule]:
    """Yield the modules up to the end of the section."""
    for kind, text in tokens:
        if (kind, text) == ("sign", "}"):
            return
        if kind == "sign":
            raise JaasError("must begin each login module with a class")
        yield LoginModule(text, _options(tokens))
    raise JaasError("must end each section with }")


def _options(tokens: Iterator[tuple[str, str]]) -> dict[str, str]:
    """Return the options behind the class of a module, up to its semicolon."""
    if _next_word(tokens, "a control flag").lower() not in FLAGS:
        raise JaasError(f"must have one of the control flags {', '.join(sorted(FLAGS))}")
    options: dict[str, str] = {}
    for kind, key in tokens:
        if (kind, key) == ("sign", ";"):
            break
        if kind == "sign" or next(tokens, None) != ("sign", "="):
            raise JaasError("must give each option in the form KEY=VALUE")
        value_kind, value = next(tokens, ("sign", ""))
        if value_kind == "sign":
            raise JaasError("must give each option a value, in quotes unless it is a word")
        options[key] = value
    else:
        raise JaasError("must end with a semicolon")
    return options


def _next_word(tokens: Iterator[tuple[str, str]], meaning: str) -> str:
    kind, text = next(tokens, ("sign", ""))
    if kind == "sign":
        raise JaasError(f"must begin with a class and a control flag, but {meaning} is missing")
    return text


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield words, quoted texts and signs, each with its kind."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(f"has a character that is not allowed at position {position}")
        position = found.end()
        kind = found.lastgroup
        assert kind is not None, "every alternative is a group"
        if kind in ("double", "single"):
            yield "quoted", _ESCAPE.sub(_unescape, found[kind])
        elif kind != "blank":
            yield kind, found[kind]


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code, 8)) if code.isdecimal() and code < "8" else _CONTROLS.get(code, code)
