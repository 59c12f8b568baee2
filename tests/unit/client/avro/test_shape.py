"""Schemas under which a few bytes could become a large value are refused or marked."""

from typing import Any

import pytest

from ottla.client.avro.shape import MAX_DEPTH, MAX_NESTING, check_json, measure
from ottla.client.errors import SchemaError

NODE: Any = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
EMPTY: Any = {"type": "record", "name": "Empty", "fields": []}


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def nested(kind: str, depth: int) -> Any:
    schema: Any = "int"
    for _ in range(depth):
        schema = {"type": kind, "items" if kind == "array" else "values": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "depth", "takes_bytes", "empty_values"),
    [
        ("int", 1, True, 0),
        ("null", 1, False, 1),
        ({"type": "string"}, 1, True, 0),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, 1, True, 0),
        ({"type": "fixed", "name": "F", "size": 4}, 1, True, 0),
        ({"type": "fixed", "name": "F", "size": 0}, 1, False, 1),
        (["null", "int"], 2, True, 0),
        ([], 1, True, 0),
        (EMPTY, 1, False, 1),
        (record("R", "null", "int", "null"), 2, True, 2),
        (record("R", "null", EMPTY), 2, False, 3),
        (nested("array", 3), 4, True, 0),
        (nested("map", 2), 3, True, 0),
        ({"type": "map", "values": "null"}, 2, True, 0),
        (record("R", record("S", "int"), "S"), 3, True, 0),
    ],
)
def test_the_shape_of_a_schema(
    schema: Any, depth: int, takes_bytes: bool, empty_values: int
) -> None:
    named = {"S": record("S", "int")}
    found = measure(schema, named)
    assert (found.depth, found.takes_bytes, found.empty_values) == (
        depth,
        takes_bytes,
        empty_values,
    )
    assert not found.is_recursive


def test_a_name_has_the_shape_of_its_type() -> None:
    assert measure("Empty", {"Empty": EMPTY}).empty_values == 1
    assert not measure({"type": "Empty"}, {"Empty": EMPTY}).takes_bytes


def test_a_type_within_itself_is_marked() -> None:
    assert measure(NODE, {"Node": NODE}).is_recursive
    outer = record("Outer", "int", "Node")
    assert measure(outer, {"Node": NODE, "Outer": outer}).is_recursive


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array", "items": "null"}, "an array of items that take no bytes"),
        ({"type": "array", "items": EMPTY}, "an array of items that take no bytes"),
        (record("R", *["null"] * 17), "record R of the schema has more than 16 values"),
        (nested("array", MAX_DEPTH), f"more than {MAX_DEPTH} deep"),
    ],
)
def test_values_without_a_limit_are_refused(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        measure(schema, {})


def test_a_few_types_cannot_double_the_values_each_time() -> None:
    types = [EMPTY]
    for number in range(40):
        inner = types[-1]["name"]
        types.append(record(f"R{number}", inner, inner))
    named = {each["name"]: each for each in types}
    with pytest.raises(SchemaError, match="record R3 of the schema has more than 16 values"):
        measure(types[-1], named)


def test_a_chain_of_names_counts_as_depth() -> None:
    types = [record("R0", "int")]
    types += [record(f"R{number}", f"R{number - 1}") for number in range(1, MAX_DEPTH + 1)]
    named = {each["name"]: each for each in types}
    everything = record("Top", *(each["name"] for each in types))
    for schema in (types[-1], everything):
        with pytest.raises(SchemaError, match=f"more than {MAX_DEPTH} deep"):
            measure(schema, named)


def test_brackets_within_brackets_have_a_limit() -> None:
    check_json("int")
    check_json(nested("map", MAX_NESTING - 2))
    with pytest.raises(SchemaError, match="brackets that are nested more than 200 deep"):
        check_json(nested("map", MAX_NESTING))


def test_a_schema_cannot_claim_to_be_checked() -> None:
    with pytest.raises(SchemaError, match="a field __fastavro_parsed"):
        check_json(["int", {"type": "record", "__fastavro_parsed": True}])
