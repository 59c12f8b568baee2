"""`ssl.principal.mapping.rules`: from a certificate's name to a principal's (decision).

The first rule whose pattern matches the whole name makes the principal. Patterns are regular
expressions; the syntax that Java and Python share is supported.

Source: SslPrincipalMapper of Kafka 3.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_RULE: Final = (
    r"(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
)
_NEXT: Final = re.compile(rf"\s*{_RULE}\s*(?:,\s*|$)")
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
_CLASS: Final = re.compile(r"\[\^?\]?[^\]]*")
_REFERENCE: Final = re.compile(r"\\(.)|\$([0-9]+)")


@dataclass(frozen=True, slots=True)
class MappingRule:
    """A pattern, its replacement, and the case of the result; no pattern means the name itself."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the principal of a certificate with this name; None if the rule does not apply."""
        pattern = self.pattern
        if pattern is None:
            return name
        if pattern.fullmatch(name) is None:
            return None
        mapped = pattern.sub(self._replace, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)

    def _replace(self, found: re.Match[str]) -> str:
        def expand(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            # As in Java, the number ends before a digit that would exceed the number of groups.
            digits, count = reference[2], len(found.groups())
            for length in range(len(digits), 0, -1):
                if int(digits[:length]) <= count:
                    return (found[int(digits[:length])] or "") + digits[length:]
            return reference[0]

        return _REFERENCE.sub(expand, self.replacement)


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Parse the rules in `text`.

        Raises:
            ValueError: a rule is malformed.
        """
        self._rules = list(_parse(text))

    def name_of(self, distinguished_name: str) -> str:
        """Return the principal's name for that of a certificate.

        Raises:
            ValueError: no rule applies.
        """
        for rule in self._rules:
            mapped = rule.apply(distinguished_name)
            if mapped is not None:
                return mapped
        raise ValueError(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name}")


def _parse(text: str) -> list[MappingRule]:
    rules, position, text = [], 0, text.strip()
    while position < len(text):
        found = _NEXT.match(text, position)
        if found is None:
            raise ValueError(f"is malformed at position {position}")
        position = found.end()
        if found["default"]:
            rules.append(MappingRule(None))
            continue
        if any("[" in each[1:] or "&&" in each for each in _classes(found["pattern"])):
            raise ValueError(
                "has a class of characters with [ or &&, which Java and Python differ in"
            )
        try:
            # As in Java, \w, \d, \s and (?i) know the letters and digits of ASCII only.
            pattern = re.compile(found["pattern"], re.ASCII)
        except (re.error, ValueError) as error:
            raise ValueError(f"has an illegal pattern: {error}") from None
        rules.append(MappingRule(pattern, found["replacement"], found["case"]))
    return rules or [MappingRule(None)]


def _classes(pattern: str) -> list[str]:
    """Return the classes of characters in a pattern, such as `[a-z`, without escapes."""
    return _CLASS.findall(_ESCAPE.sub("", pattern))
