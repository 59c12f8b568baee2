"""Login modules in properties: `trust.jaas`."""

import random

import pytest

from trust.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasError, parse_jaas, parse_login_file


def test_users_and_the_own_login_are_found() -> None:
    text = f"""{PLAIN_MODULE} required username="broker" password='p"w' user_al="a b" user_b=c;"""
    module = parse_jaas(text, "PLAIN")
    assert module.login == ("broker", 'p"w')
    assert module.passwords == {"al": "a b", "b": "c"}
    assert "p" not in repr(module).removeprefix("LoginModule").replace(PLAIN_MODULE, "").replace(
        "name=", ""
    )


def test_scram_needs_no_options() -> None:
    module = parse_jaas(f" {SCRAM_MODULE}\trequired ;\n", "SCRAM-SHA-512")
    assert (module.login, module.passwords) == (None, {})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (r'"a\"b\\c"', 'a"b\\c'),
        (r"'\t\n\101\7\x'", "\t\nA\x07x"),
        ('"a;b=c//d/*e*/"', "a;b=c//d/*e*/"),
        ("word.with-signs_$1", "word.with-signs_$1"),
        ("x/* y */ // z\n", "x"),
        ("x / a comment as well\n", "x"),
    ],
)
def test_values_have_javas_syntax(value: str, expected: str) -> None:
    assert parse_jaas(f"{PLAIN_MODULE} required password={value};", "PLAIN").options == {
        "password": expected
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3cret",
        "com.sun.security.auth.module.JndiLoginModule required a=s3cret;",
        f"{SCRAM_MODULE} required;",
        f"{PLAIN_MODULE} always;",
        f"{PLAIN_MODULE} required",
        f"{PLAIN_MODULE} required password=s3cret",
        f"{PLAIN_MODULE} required password;",
        f"{PLAIN_MODULE} required password=;",
        f"{PLAIN_MODULE} required =s3cret;",
        f"{PLAIN_MODULE} required password=1234;",
        f'{PLAIN_MODULE} required password="s3cret;',
        f'{PLAIN_MODULE} required password="hu\nsh";',
        f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;",
        f"{PLAIN_MODULE} required; /* s3cret",
        f"KafkaServer {{ {PLAIN_MODULE} required; }};",
    ],
)
def test_other_texts_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas(text, "PLAIN")
    assert "s3cret" not in str(caught.value)


@pytest.mark.fresh_seeds(10)
def test_random_texts_are_parsed_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [
        PLAIN_MODULE,
        "required",
        " ",
        '"',
        "'",
        "\\",
        "=",
        ";",
        "/",
        "*",
        "\n",
        "1",
        "a",
        "ü",
    ]
    for _ in range(300):
        text = "".join(rng.choices(pieces, k=rng.randrange(30)))
        if rng.random() < 0.5:
            text = f"{PLAIN_MODULE} required {text}"
        try:
            parse_jaas(text, "PLAIN")
        except JaasError:
            continue


LOGIN_FILE = """
// Both sides in one file.
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_broker="one" user_ops="two;}";
};
Client { a.Module required username="broker" password="one"; b.Module optional; };
Empty { };
"""


def test_a_file_has_sections() -> None:
    found = parse_login_file(LOGIN_FILE)
    assert list(found) == ["Server", "Client", "Empty"]
    assert found["Server"][0].passwords == {"broker": "one", "ops": "two;}"}
    assert [each.name for each in found["Client"]] == ["a.Module", "b.Module"]
    assert found["Client"][0].login == ("broker", "one")
    assert found["Empty"] == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Server", "in the form"),
        ("{ };", "in the form"),
        ("Server { };Server { };", "two sections Server"),
        ("Server { }", "semicolon"),
        ("Server { = };", "with a class"),
        ("Server { a.Module required", "semicolon"),
        ("Server { a.Module required;", "must end each section with }"),
        ('Server { a.Module secret="x"; };', "control flags"),
        ('Server { a.Module required a="secret };', "not allowed at position"),
    ],
)
def test_a_malformed_file_is_refused_without_quoting_it(text: str, message: str) -> None:
    with pytest.raises(JaasError, match=message) as caught:
        parse_login_file(text)
    assert "s3cret" not in str(caught.value)
