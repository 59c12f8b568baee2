"""DIGEST-MD5 under any tokens: none crashes a side, and only the password authenticates."""

from hypothesis import given
from hypothesis import strategies as st

from coordination.errors import SaslError
from coordination.protocol.digest_md5 import DigestClient, DigestServer, parse

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
DIRECTIVES = st.sampled_from(
    [
        b'username="bob"', b'realm="zk-sasl-md5"', b'nonce="n"', b"nc=00000001", b'cnonce="c"',
        b'digest-uri="zookeeper/zk-sasl-md5"', b"qop=auth", b"response=" + b"0" * 32, b"",
    ]
)  # fmt: skip
TOKENS = st.binary(max_size=200) | st.lists(DIRECTIVES, max_size=9).map(b",".join)


@given(TEXTS, TEXTS)
def test_every_user_can_log_in(user: str, password: str) -> None:
    server, client = DigestServer({user: password}, "server"), DigestClient(user, password, "c")
    proof = client.answer(server.answer(client.first()))
    assert proof is not None
    assert client.answer(server.answer(proof)) is None
    assert (server.user, client.is_complete) == (user, True)


@given(st.lists(TOKENS, max_size=4))
def test_no_tokens_without_the_password_authenticate(tokens: list[bytes]) -> None:
    server = DigestServer({"bob": "s3cret"}, "n")
    for token in tokens:
        try:
            server.answer(token)
        except SaslError:
            continue
    assert server.user is None


@given(st.lists(TOKENS | st.none(), max_size=4))
def test_no_tokens_without_the_password_convince_the_client(tokens: list[bytes | None]) -> None:
    client = DigestClient("bob", "s3cret", "c")
    for token in tokens:
        try:
            client.answer(token)
        except SaslError:
            continue
    assert not client.is_complete


@given(st.dictionaries(st.sampled_from(["a", "b-c", "nonce"]), TEXTS))
def test_directives_are_read_back(directives: dict[str, str]) -> None:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in directives.items()
    }
    token = ",".join(f'{name}="{value}"' for name, value in escaped.items())
    assert parse(token.encode()) == directives
