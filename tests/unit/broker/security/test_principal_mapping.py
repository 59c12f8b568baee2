"""`ssl.principal.mapping.rules`: `broker.security.principal_mapping`."""

import pytest

from broker.security.principal_mapping import PrincipalMapping

NAME = "CN=Alice,OU=Sales\\, West,O=q"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", NAME),
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),.*$/$1@x/U", "ALICE@X"),
        ("RULE:^UID=(.*)$/$1/, DEFAULT", NAME),
        ("RULE:^UID=(.*)$/$1/,RULE:^CN=(\\w+),OU=(\\w+).*$/$2-$1/", "Sales-Alice"),
        # Commas inside a rule, and an escaped slash.
        ("RULE:^CN=(.{1,5}),(.*)$/$1\\/$3/", "Alice/$3"),
        ("RULE:^CN=(.*?),.*$/$12/", "Alice2"),
        ("RULE:CN/x/ , DEFAULT", NAME),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_wins(rules: str, expected: str) -> None:
    assert PrincipalMapping(rules).name_of(NAME) == expected


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("^CN=(\\w+)$", "CN=J\u00fcrgen"),
        ("^CN=(\\d+)$", "CN=\u0661"),
        # KELVIN SIGN and LONG S: their other letter case is a letter of ASCII.
        ("(?i)^CN=(kafka)$", "CN=\u212aafka"),
        ("(?i)^CN=(sales)$", "CN=\u017fales"),
    ],
)
def test_classes_and_letter_case_are_those_of_java(pattern: str, name: str) -> None:
    assert PrincipalMapping(f"RULE:{pattern}/admin/,DEFAULT").name_of(name) == name


@pytest.mark.parametrize(
    "characters", ["[a-z&&[^x]]", "[a[b]]", "[^a&&b]", "[[:alpha:]]", "[]&&a]"]
)
def test_a_class_that_python_would_read_otherwise_is_refused(characters: str) -> None:
    with pytest.raises(ValueError, match="Java and Python differ"):
        PrincipalMapping(f"RULE:^CN=({characters}+)$/$1/")


@pytest.mark.parametrize("characters", ["\\[&&", "[\\[a]", "[&]&&", "[a]|[b]", "[\\]a]"])
def test_an_escaped_bracket_begins_no_class(characters: str) -> None:
    assert PrincipalMapping(f"RULE:^CN=({characters})$/$1/,DEFAULT").name_of("CN=x") == "CN=x"


def test_without_a_matching_rule_there_is_no_principal() -> None:
    with pytest.raises(ValueError, match="no rule"):
        PrincipalMapping("RULE:^UID=(.*)$/$1/").name_of(NAME)


@pytest.mark.parametrize(
    "rules",
    ["RULE:", "RULE:(?u)a/b/", "RULE:a/b", "RULE:(/b/", "DEFAULT DEFAULT", "RULE:a/b/X", "default"],
)
def test_a_malformed_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"is malformed|illegal pattern"):
        PrincipalMapping(rules)
