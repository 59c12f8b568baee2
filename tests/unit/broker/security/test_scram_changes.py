"""Changes of SCRAM credentials: `broker.security.scram_changes`."""

import hashlib

import pytest

from broker.security.scram_changes import changes_of, described
from clusterstate.znodes.scram_credential import decode_credentials
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkawire.sasl_clients import ScramClient
from kafkawire.sasl_servers import ScramServer
from kafkawire.scram import Credential


def upsertion(**changes: object) -> ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac("sha256", b"s3cret", b"salt", 4096)
    values = {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"salt"}
    return ScramCredentialUpsertion(
        **{**values, "salted_password": salted, **changes}  # type: ignore[arg-type]
    )


def changed(
    *changes: ScramCredentialDeletion | ScramCredentialUpsertion,
    configs: dict[str, str] | None = None,
) -> dict[str, str]:
    """Return the configs of the only user in `changes`."""
    message = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    [(user, change)] = changes_of(message).items()
    change.check(user)
    return change.apply(configs or {})


def test_a_user_can_log_in_with_the_stored_credential() -> None:
    found = decode_credentials(changed(upsertion(), configs={"producer_byte_rate": "7"}))
    server = ScramServer("SCRAM-SHA-256", lambda _user: found["SCRAM-SHA-256"], "nonce", b"x")
    client = ScramClient("SCRAM-SHA-256", "alice", "s3cret", "client")
    final = client.answer(server.answer(client.first()))
    assert final is not None
    assert client.answer(server.answer(final)) is None


def test_other_configs_of_the_user_stay() -> None:
    configs = changed(upsertion(), upsertion(mechanism=2), configs={"producer_byte_rate": "7"})
    assert configs["producer_byte_rate"] == "7"
    deletion = ScramCredentialDeletion(name="alice", mechanism=2)
    left = changed(deletion, configs=configs)
    assert left.keys() == {"producer_byte_rate", "SCRAM-SHA-256"}
    with pytest.raises(ApiError) as caught:
        changed(deletion, configs=left)
    assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([upsertion(name="")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(mechanism=3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion(iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(salt=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(), upsertion()], ErrorCode.DUPLICATE_RESOURCE),
        (
            [upsertion(), ScramCredentialDeletion(name="alice", mechanism=1)],
            ErrorCode.DUPLICATE_RESOURCE,
        ),
        ([ScramCredentialDeletion(name="a", mechanism=0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_a_change_that_breaks_a_rule_is_refused(
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion], code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as caught:
        changed(*changes)
    assert caught.value.code is code


def test_each_named_user_is_described_once() -> None:
    credential = Credential(salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096)
    found = {"alice": {"SCRAM-SHA-256": credential}}
    result = described(["alice", "bob", "carol", "carol"], found)
    assert {name: code for name, (code, _, _) in result.items()} == {
        "alice": ErrorCode.NONE,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
        "carol": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert result["alice"][2] == found["alice"]


@pytest.mark.parametrize("count", [1, 2])
def test_error_about_a_long_name_can_be_encoded(count: int) -> None:
    """Found by the fuzzer: the response was too long, and closed the connection."""
    name = "\N{GRINNING FACE}" * 8_000
    [(code, text, _)] = described([name] * count, {}).values()
    assert code is not ErrorCode.NONE
    assert text is not None
    assert len(text.encode()) < 5_000
