"""Answers of a registry become values, or one sentence."""

import json
from typing import Any

import pytest

from ottla.client.avro.answer import (
    Reference,
    RegisteredSchema,
    answer_of,
    schema_id_of,
    schema_of,
    shown,
    subjects_of,
)
from ottla.client.errors import SchemaRegistryError

REQUEST = "GET http://registry/x"


def test_answers_have_their_values() -> None:
    assert schema_id_of(REQUEST, answer_of(REQUEST, 200, b'{"id": 7}')) == 7
    assert subjects_of(REQUEST, ["a", "b"]) == ["a", "b"]
    references = [{"name": "shop.Item", "subject": "items-value", "version": 2}]
    assert schema_of(REQUEST, {"schema": '"int"', "references": references}) == (
        RegisteredSchema('"int"', (Reference("shop.Item", "items-value", 2),))
    )
    assert schema_of(REQUEST, {"schema": '"int"', "schemaType": "AVRO", "references": None}) == (
        RegisteredSchema('"int"')
    )


@pytest.mark.parametrize(
    ("status", "body", "text", "code", "is_retriable"),
    [
        (404, b'{"error_code":40403,"message":"\\u001b!"}', r"404 (40403): \x1b!", 40403, False),
        (409, b'{"error_code":409,"message":"no"}', "409 (409): no", 409, False),
        (503, b"<html>", "503", None, True),
        (429, b"[]", "429", None, True),
        (401, b"", "401: check basic_auth and the rights of the user", None, False),
        (301, b"", "301: it redirects; give the address itself", None, False),
        (400, b'{"error_code":true,"message":null}', "400", None, False),
        (500, b"[" * 100_000, "500", None, True),
    ],
)  # fmt: skip
def test_a_refusal_has_the_message_of_the_registry(
    status: int, body: bytes, text: str, code: int | None, is_retriable: bool
) -> None:
    with pytest.raises(SchemaRegistryError) as raised:
        answer_of(REQUEST, status, body)
    assert str(raised.value) == f"{REQUEST}: the registry answered {text}"
    error = raised.value
    assert (error.status, error.code, error.retriable) == (status, code, is_retriable)


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(SchemaRegistryError, match="not from a schema registry: the body is not"):
        answer_of(REQUEST, 200, body)


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"id": "7"}, {"id": -1}, {"id": True}, {"id": 2**31}]
)
def test_an_answer_without_an_id_is_refused(answer: Any) -> None:
    with pytest.raises(SchemaRegistryError, match="it has no schema id"):
        schema_id_of(REQUEST, answer)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "it has no schema"),
        ({"schema": 5}, "it has no schema"),
        ({"schema": '"int"', "references": 5}, "it has no schema"),
        ({"schema": "{}", "schemaType": "JSON"}, "the schema is of the type JSON, not AVRO"),
        ({"schema": '"int"', "references": [5]}, "a reference has no name, subject or version"),
        ({"schema": '"int"', "references": [{"name": "a"}]}, "a reference has no name"),
        ({"schema": '"int"', "references": [{}] * 101}, "more than 100 references"),
    ],
)
def test_an_answer_without_a_schema_is_refused(answer: Any, reason: str) -> None:
    with pytest.raises(SchemaRegistryError, match=reason):
        schema_of(REQUEST, json.loads(json.dumps(answer)))


@pytest.mark.parametrize("answer", [None, {}, [1]])
def test_an_answer_that_is_no_list_of_subjects_is_refused(answer: Any) -> None:
    with pytest.raises(SchemaRegistryError, match="it is no list of subjects"):
        subjects_of(REQUEST, answer)


def test_text_of_a_peer_is_short_and_on_one_line() -> None:
    assert shown("a\n\tb\x1b\u202e") == r"a b\x1b\u202e"
    assert len(shown("x" * 10_000)) == 300
