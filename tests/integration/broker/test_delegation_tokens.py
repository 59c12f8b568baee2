"""Delegation tokens at a broker: making, renewing, logging in, rights, expiry."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kafkawire.acl import Operation, ResourcePattern, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.sasl_clients import PlainClient, SaslClient, ScramClient
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.acl_client import acl, add
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import wait_until
from tests.ports import free_port
from trust.jaas import PLAIN_MODULE

SECRET = "s3cret-of-the-tokens"
USERS = ("alice", "bob", "carol", "root")


class Served(NamedTuple):
    """A broker with access control, and its ports."""

    broker: BrokerProcess
    plain: int
    sasl: int

    def log_in(self, user: str) -> Wire:
        """Return a connection of a user."""
        return self._log_in("PLAIN", PlainClient(user, "s3cret-pw"))[0]

    def log_in_by_token(
        self, token: Any, mechanism: str = "SCRAM-SHA-256"
    ) -> tuple[Wire, SaslAuthenticateResponse]:
        """Return a connection of a token's owner, and the last response of the login."""
        password = base64.b64encode(token.hmac).decode()
        client = ScramClient(mechanism, token.token_id, password, "nonce", is_token=True)
        return self._log_in(mechanism, client)

    def _log_in(self, mechanism: str, client: SaslClient) -> tuple[Wire, SaslAuthenticateResponse]:
        wire = Wire(self.sasl)
        handshake = SaslHandshakeRequest(mechanism=mechanism)
        assert wire.ask(ApiKey.SASL_HANDSHAKE, 1, handshake, SaslHandshakeResponse).error_code == 0
        token: bytes | None = client.first()
        response = SaslAuthenticateResponse()
        while token is not None and response.error_code == 0:
            message = SaslAuthenticateRequest(auth_bytes=token)
            response = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, message, SaslAuthenticateResponse)
            if response.error_code == 0:
                token = client.answer(bytes(response.auth_bytes))
        return wire, response


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    plain, sasl = free_port(), free_port()
    users = " ".join(f'user_{user}="s3cret-pw"' for user in USERS)
    broker = BrokerProcess(
        tmp_path_factory.mktemp("tokens"),
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f"{PLAIN_MODULE} required {users};"
            ),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS;User:root",
            "delegation.token.master.key": SECRET,
            "delegation.token.expiry.time.ms": "60000",
            "delegation.token.expiry.check.interval.ms": "100",
        },
    )
    try:
        broker.wait_for_event(READY_EVENT)
        yield Served(broker, plain, sasl)
    finally:
        broker.kill()
    log = "".join(broker.output)
    assert SECRET not in log
    assert "Traceback" not in log


def create(wire: Wire, *renewers: str, owner: str = "", **more: Any) -> Any:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else None,
        owner_principal_name=owner or None,
        renewers=[
            CreatableRenewers(principal_type="User", principal_name=name) for name in renewers
        ],
        **{"max_lifetime_ms": -1, **more},
    )
    return wire.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, request, CreateDelegationTokenResponse)


def renew(wire: Wire, hmac: bytes, period_ms: int = -1) -> RenewDelegationTokenResponse:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return wire.ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, request, RenewDelegationTokenResponse)


def expire(wire: Wire, hmac: bytes, period_ms: int = -1) -> ExpireDelegationTokenResponse:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return wire.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request, ExpireDelegationTokenResponse)


def described(wire: Wire, *owners: str, all_owners: bool = False) -> Any:
    names = [
        DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners
    ]
    request = DescribeDelegationTokenRequest(owners=None if all_owners else names)
    return wire.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, request, DescribeDelegationTokenResponse)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_logs_in_as_its_owner_until_it_is_deleted(served: Served, mechanism: str) -> None:
    with served.log_in("alice") as alice:
        token = create(alice, "bob")
        assert (token.error_code, token.principal_name) == (0, "alice")
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == 60_000
        wire, response = served.log_in_by_token(token, mechanism)
        with wire:
            assert response.error_code == 0
            assert 0 < response.session_lifetime_ms <= 60_000
            # A token may not make or prolong tokens, not even its own.
            refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert create(wire).error_code == refused
            assert renew(wire, token.hmac).error_code == refused
            assert expire(wire, token.hmac).error_code == refused
            assert described(wire, all_owners=True).error_code == refused
        assert expire(alice, token.hmac).error_code == 0
        assert renew(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        wire, response = served.log_in_by_token(token, mechanism)
        with wire:
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_with_another_secret_does_not_log_in(served: Served) -> None:
    with served.log_in("alice") as alice:
        token = create(alice)
        token.hmac = bytes(64)
        wire, response = served.log_in_by_token(token)
        with wire:
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_only_owner_and_renewers_change_a_token(served: Served) -> None:
    with (
        served.log_in("alice") as alice,
        served.log_in("bob") as bob,
        served.log_in("carol") as carol,
    ):
        token = create(alice, "bob")
        for change in (renew, expire):
            mismatch = change(carol, token.hmac)
            assert mismatch.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
            assert mismatch.expiry_timestamp_ms == -1
        later = renew(bob, token.hmac, 100_000)
        assert later.error_code == 0
        assert later.expiry_timestamp_ms > token.expiry_timestamp_ms
        assert expire(bob, token.hmac, 1_000).expiry_timestamp_ms < token.expiry_timestamp_ms
        assert token.token_id in [each.token_id for each in described(alice, "alice").tokens]


def test_an_expired_token_is_deleted_by_the_controller(served: Served) -> None:
    with served.log_in("carol") as carol:
        token = create(carol, max_lifetime_ms=200)
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 200
        wait_until(lambda: not described(carol, "carol").tokens)
        assert renew(carol, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    served.broker.wait_for_event("token.expired")


def test_tokens_of_others_need_rights(served: Served) -> None:
    with served.log_in("alice") as alice, served.log_in("bob") as bob, Wire(served.plain) as admin:
        denied = create(bob, owner="alice")
        assert denied.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (denied.principal_name, denied.token_requester_principal_name) == ("alice", "bob")
        token = create(alice)
        assert token.token_id not in [
            each.token_id for each in described(bob, all_owners=True).tokens
        ]
        # A filter denies nothing that was requested by name. A thread reads the log.
        served.broker.wait_for_event("authorizer.denied")
        denials = [each for each in served.broker.events if each["event"] == "authorizer.denied"]
        assert {str(each["operation"]) for each in denials} == {"CreateTokens"}
        user = ResourcePattern(ResourceType.USER, "User:alice")
        rights = [
            acl(operation, user, principal="User:bob", host="*")
            for operation in (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS)
        ]
        assert set(add(admin, *rights)) == {ErrorCode.NONE}
        made = create(bob, owner="alice")
        assert (made.error_code, made.principal_name) == (0, "alice")
        assert made.token_requester_principal_name == "bob"
        ids = [each.token_id for each in described(bob, "alice").tokens]
        assert {token.token_id, made.token_id} <= set(ids)
        # The requester is neither owner nor renewer.
        assert renew(bob, made.hmac).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_a_requester_sees_the_tokens_that_it_made_for_others(served: Served) -> None:
    user = ResourcePattern(ResourceType.USER, "User:alice")
    right = acl(Operation.CREATE_TOKENS, user, principal="User:carol", host="*")
    with Wire(served.plain) as admin, served.log_in("carol") as carol:
        assert add(admin, right) == [ErrorCode.NONE]
        made = create(carol, owner="alice")
        assert made.error_code == ErrorCode.NONE
        assert [each.token_id for each in described(carol, "carol").tokens] == [made.token_id]
        assert renew(carol, made.hmac).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_one_token_may_be_described_by_its_id(served: Served) -> None:
    with (
        served.log_in("root") as root,
        served.log_in("carol") as carol,
        Wire(served.plain) as admin,
    ):
        token, other = create(root), create(root)
        assert described(carol, "root").tokens == []
        pattern = ResourcePattern(ResourceType.DELEGATION_TOKEN, token.token_id)
        add(admin, acl(Operation.DESCRIBE, pattern, principal="User:carol", host="*"))
        assert [each.token_id for each in described(carol, "root").tokens] == [token.token_id]
        assert {token.token_id, other.token_id} <= {
            each.token_id for each in described(root, all_owners=True).tokens
        }


def test_an_unencrypted_anonymous_connection_gets_no_token(served: Served) -> None:
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with Wire(served.plain) as wire:
        assert create(wire).error_code == refused
        assert renew(wire, b"x").error_code == refused
        assert expire(wire, b"x").error_code == refused
        assert described(wire, all_owners=True).error_code == refused


def test_malformed_requests_have_their_own_errors(served: Served) -> None:
    with served.log_in("alice") as alice:
        for hmac in (b"", b"x" * 1_000):
            assert renew(alice, hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        group = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type="Group", principal_name="x")],
            max_lifetime_ms=-1,
        )
        response = alice.ask(
            ApiKey.CREATE_DELEGATION_TOKEN, 3, group, CreateDelegationTokenResponse
        )
        assert response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert (response.principal_name, response.issue_timestamp_ms) == ("alice", -1)
        assert described(alice).tokens == []


@pytest.mark.parametrize("kind", [None, "", "Group"])
def test_only_a_user_owns_a_token(served: Served, kind: str | None) -> None:
    with served.log_in("root") as root:
        message = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name="alice",
            renewers=[],
            max_lifetime_ms=-1,
        )
        refused = root.ask(
            ApiKey.CREATE_DELEGATION_TOKEN, 3, message, CreateDelegationTokenResponse
        )
        assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert described(root, all_owners=True).error_code == ErrorCode.NONE


def test_a_session_of_a_token_ends_with_it(served: Served) -> None:
    with served.log_in("alice") as alice:
        token = create(alice, max_lifetime_ms=1_500)
        wire, response = served.log_in_by_token(token)
        with wire:
            assert 0 < response.session_lifetime_ms <= 1_500

            def is_closed() -> bool:
                try:
                    wire.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
                    wire.receive(ApiKey.METADATA, 12)
                except ConnectionError:
                    return True
                return False

            wait_until(is_closed)


def test_a_broker_without_a_key_has_no_tokens(tmp_path_factory: pytest.TempPathFactory) -> None:
    sasl = free_port()
    broker = BrokerProcess(
        tmp_path_factory.mktemp("without"),
        {
            "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{sasl}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required user_alice="s3cret-pw";'
            ),
        },
    )
    try:
        broker.wait_for_event(READY_EVENT)
        served = Served(broker, 0, sasl)
        with served.log_in("alice") as alice:
            disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
            assert create(alice).error_code == disabled
            assert renew(alice, b"x").error_code == disabled
            assert expire(alice, b"x").error_code == disabled
            assert described(alice, all_owners=True).error_code == disabled
            token = CreateDelegationTokenResponse(token_id="x", hmac=b"x")
            wire, response = served.log_in_by_token(token)
            with wire:
                assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    finally:
        broker.kill()
