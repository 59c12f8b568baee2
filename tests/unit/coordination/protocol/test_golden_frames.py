"""Frames captured from ZooKeeper 3.8.0, zkCli and kazoo re-encode to the same bytes."""

import json
from pathlib import Path
from typing import Any

import pytest

from coordination.errors import JuteError
from coordination.protocol import frames, jute, multi
from coordination.protocol.messages import (
    SHAPES,
    ConnectRequest,
    ConnectResponse,
    OpCode,
    ReplyHeader,
    RequestHeader,
    WatcherEvent,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "zookeeper_frames.json").read_text())
SETS = ("frames", "extra_frames", "java_client_frames", "kazoo_frames")
OPS = {
    "".join(
        part.capitalize() if i else part for i, part in enumerate(op.name.lower().split("_"))
    ): op
    for op in OpCode
}
OPS |= {"getACL": OpCode.GET_ACL, "setACL": OpCode.SET_ACL, "createTTL": OpCode.CREATE_TTL}


def captured() -> list[Any]:
    return [
        pytest.param(item, id=f"{group}-{index}-{item['name']}")
        for group in SETS
        for index, item in enumerate(GOLDEN[group])
        if item.get("hex") and item["decoded"].get("record")
    ]


def reencode(item: dict[str, Any]) -> bytes:
    decoded, payload = item["decoded"], bytes.fromhex(item["hex"])[4:]
    match decoded["record"]:
        case "ConnectRequest":
            return frames.encode_handshake(frames.decode_handshake(ConnectRequest, payload))
        case "ConnectResponse":
            return frames.encode_handshake(frames.decode_handshake(ConnectResponse, payload))
        case "Request":
            header, start = jute.decode(RequestHeader, payload)
            body = _request_body(header.type, payload, start)
            return frames.encode_request(header.xid, header.type, body)
        case _:
            reply, start = jute.decode(ReplyHeader, payload)
            if "event" in decoded:
                event, _ = jute.decode(WatcherEvent, payload, start)
                return frames.frame(jute.encode(reply) + jute.encode(event))
            body = _response_body(OPS[decoded["op"]], reply.err, payload, start)
            return frames.encode_reply(reply.xid, reply.zxid, reply.err, body)


def _request_body(op: int, payload: bytes, start: int) -> bytes:
    if op in (OpCode.MULTI, OpCode.MULTI_READ):
        return multi.encode_ops(multi.decode_ops(op, payload, start))
    kind = SHAPES[op].request
    return b"" if kind is None else jute.encode(jute.decode(kind, payload, start)[0])


def _response_body(op: OpCode, err: int, payload: bytes, start: int) -> bytes:
    if err:
        return b""
    if op in (OpCode.MULTI, OpCode.MULTI_READ):
        return multi.encode_results(multi.decode_results(payload, start))
    kind = SHAPES[op].response
    return b"" if kind is None else jute.encode(jute.decode(kind, payload, start)[0])


@pytest.mark.parametrize("item", captured())
def test_a_captured_frame_survives_decoding_and_encoding(item: dict[str, Any]) -> None:
    assert reencode(item).hex() == item["hex"]


def test_the_capture_is_not_vacuous() -> None:
    assert len(captured()) > 400


@pytest.mark.parametrize(
    "item", [item for item in captured() if "event" in item.values[0]["decoded"]]
)
def test_an_encoded_event_equals_the_captured_one(item: dict[str, Any]) -> None:
    event = item["decoded"]["event"]
    assert frames.encode_event(event["type"], event["path"]).hex() == item["hex"]


def test_every_truncated_request_is_refused() -> None:
    for item in GOLDEN["frames"]:
        if item["decoded"].get("record") != "Request" or item["decoded"].get("opcode") in (0, None):
            continue
        payload = bytes.fromhex(item["hex"])[4:]
        for end in range(8, len(payload)):
            with pytest.raises(JuteError):
                _request_body(item["decoded"]["opcode"], payload[:end], 8)
