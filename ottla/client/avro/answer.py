"""The answers of a schema registry (decision)."""

import json
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.argument import MAX_INT32
from ottla.client.avro.wire_format import MAX_SCHEMA_ID
from ottla.client.errors import SchemaRegistryError

AVRO: Final = "AVRO"
"""The type of a schema whose answer names none."""
MAX_SHOWN_CHARACTERS: Final = 300
MAX_REFERENCES: Final = 100
"""Limit of the schemas that one schema needs, directly or not."""
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)
_SERVER_ERRORS: Final = range(500, 600)
_TOO_MANY_REQUESTS: Final = 429
_UNAUTHORIZED: Final = (401, 403)


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema, whose types a schema names."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in the registry."""

    text: str
    references: tuple[Reference, ...] = ()


def answer_of(request: str, status: int, body: bytes) -> Any:
    """Return the JSON of an answer; errors begin with `request`, its method and URL.

    Raises:
        SchemaRegistryError: the registry refused, or the body is not JSON.
    """
    if status == _OK:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise no_answer(request, "the body is not JSON") from error
    code, message = _refusal(body)
    if status in _UNAUTHORIZED:
        message = message or "check basic_auth and the rights of the user"
    elif status in _REDIRECTS:
        message = "it redirects; give the address itself"
    raise SchemaRegistryError(
        f"{request}: the registry answered {status}{'' if code is None else f' ({code})'}"
        f"{f': {message}' if message else ''}",
        status=status,
        code=code,
        retriable=status in _SERVER_ERRORS or status == _TOO_MANY_REQUESTS,
    )


def schema_id_of(request: str, answer: Any) -> int:
    """Return the id of the schema that was registered or looked up.

    Raises:
        SchemaRegistryError: there is none.
    """
    found = _number(answer.get("id"), MAX_SCHEMA_ID) if isinstance(answer, dict) else None
    if found is None:
        raise no_answer(request, "it has no schema id")
    return found


def schema_of(request: str, answer: Any) -> RegisteredSchema:
    """Return the schema in an answer.

    Raises:
        SchemaRegistryError: there is none, it is no Avro schema, or its references are invalid.
    """
    fields = answer if isinstance(answer, dict) else {}
    text, references = fields.get("schema"), fields.get("references") or []
    if not isinstance(text, str) or not isinstance(references, list):
        raise no_answer(request, "it has no schema")
    kind = fields.get("schemaType") or AVRO
    if kind != AVRO:
        raise SchemaRegistryError(f"{request}: the schema is of the type {shown(kind)}, not {AVRO}")
    if len(references) > MAX_REFERENCES:
        raise no_answer(request, f"the schema has more than {MAX_REFERENCES} references")
    return RegisteredSchema(text, tuple(_reference(request, each) for each in references))


def subjects_of(request: str, answer: Any) -> list[str]:
    """Return a list of subjects.

    Raises:
        SchemaRegistryError: the answer is none.
    """
    if not isinstance(answer, list) or not all(isinstance(each, str) for each in answer):
        raise no_answer(request, "it is no list of subjects")
    return answer


def no_answer(request: str, reason: str) -> SchemaRegistryError:
    """Return the error for an answer that no registry gives."""
    return SchemaRegistryError(
        f"{request}: the answer is not from a schema registry: {reason}. Check the address"
    )


def shown(value: object) -> str:
    """Return text of a peer on one line, shortened, with unprintable characters escaped."""
    text = " ".join(str(value).split())[:MAX_SHOWN_CHARACTERS]
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _reference(request: str, fields: Any) -> Reference:
    if isinstance(fields, dict):
        name, subject = fields.get("name"), fields.get("subject")
        version = _number(fields.get("version"), MAX_INT32)
        if isinstance(name, str) and isinstance(subject, str) and version is not None:
            return Reference(name, subject, version)
    raise no_answer(request, "a reference has no name, subject or version")


def _refusal(body: bytes) -> tuple[int | None, str]:
    """Return the registry's own code and message, as far as the body has them."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(fields, dict):
        return None, ""
    return _number(fields.get("error_code"), MAX_INT32), shown(fields.get("message") or "")


def _number(value: object, limit: int) -> int | None:
    """Return a number from 0 to `limit`, None for everything else."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= limit
    return value if isinstance(value, int) and is_number else None
