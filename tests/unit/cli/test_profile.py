"""Profiles are tables of a TOML file, with the keys of properties files."""

import errno
from pathlib import Path

import pytest

from ottla.cli.failure import CommandError
from ottla.cli.profile import Profiles, load_profiles, parse_profiles, profiles_file

TEXT = """
default = "dev"

[dev]
bootstrap.servers = "127.0.0.1:9092"

[prod]
"bootstrap.servers" = "kafka:9093"
security.protocol = "SASL_SSL"
sasl.password = "s3cret"
retries = 3
enabled = true
"""


def test_nested_tables_are_keys_with_dots() -> None:
    profiles = parse_profiles(TEXT, "f")
    assert profiles.default == "dev"
    assert profiles.by_name["prod"] == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.password": "s3cret",
        "retries": "3",
        "enabled": "true",
    }


def test_the_default_is_for_commands_that_name_no_cluster() -> None:
    profiles = parse_profiles(TEXT, "f")
    assert profiles.chosen(None, may_default=True) == {"bootstrap.servers": "127.0.0.1:9092"}
    assert profiles.chosen(None, may_default=False) == {}
    assert profiles.chosen("prod", may_default=False)["retries"] == "3"
    assert Profiles({}).chosen(None, may_default=True) == {}


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CommandError, match="no profile staging; the file has dev, prod"):
        parse_profiles(TEXT, "f").chosen("staging", may_default=True)
    with pytest.raises(CommandError, match="the file has none"):
        Profiles({}).chosen("x", may_default=True)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("= secret", "f is not a TOML file"),
        pytest.param("x = " + "[" * 5_000, "f is not a TOML file", id="deeply nested"),
        ("default = 1", "default in f must be the name"),
        ("dev = 's3cret'", "dev in f must be a table"),
        ("[dev]\na.b = ['s3cret']", "a.b of profile dev in f must be text"),
    ],
)
def test_another_form_is_refused_without_its_values(text: str, error: str) -> None:
    with pytest.raises(CommandError, match=error) as raised:
        parse_profiles(text, "f")
    assert "s3cret" not in str(raised.value)


def test_the_file_is_where_the_environment_says() -> None:
    assert profiles_file({"OTTLA_PROFILES": "/p.toml"}) == Path("/p.toml")
    assert profiles_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/ottla/profiles.toml")
    assert profiles_file({"HOME": "/h"}) == Path("/h/.config/ottla/profiles.toml")


def test_only_a_named_file_has_to_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_PROFILES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_profiles() == Profiles({})
    monkeypatch.setenv("OTTLA_PROFILES", str(tmp_path / "missing.toml"))
    with pytest.raises(CommandError, match=r"missing\.toml does not exist"):
        load_profiles()
    monkeypatch.setenv("OTTLA_PROFILES", str(tmp_path))
    with pytest.raises(CommandError, match="is not a readable file"):
        load_profiles()


def test_a_home_that_cannot_be_entered_has_no_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTTLA_PROFILES", raising=False)
    # The HOME of users without one.
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    assert load_profiles() == Profiles({})

    def denied(self: Path, *, encoding: str) -> str:
        raise PermissionError(errno.EACCES, f"Permission denied ({encoding})", str(self))

    monkeypatch.setattr(Path, "read_text", denied)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_profiles() == Profiles({})
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "profiles.toml").touch()
    with pytest.raises(CommandError, match="is not a readable file"):
        load_profiles()
