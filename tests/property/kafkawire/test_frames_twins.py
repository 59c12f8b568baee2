"""The compiled and the plain functions for frames and headers agree on any bytes."""

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.apis import APIS, ApiKey
from kafkawire.headers import RequestHeader, encode_request
from tests.property.kafkawire.record_strategies import calmly, damaged
from tests.property.kafkawire.twins import agreed, twins_of

TWINS = twins_of("_frames")

keys = st.sampled_from(list(APIS))
client_ids = st.none() | st.text("abcé€", max_size=50)
int32 = st.integers(-(2**31), 2**31 - 1)


def header_read_by_all(frame: bytes) -> object:
    return agreed(TWINS, lambda twin: twin.decode_request_header(memoryview(frame)))


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Draw a request of any decodable API and version, without its size."""
    api = APIS[draw(keys)]
    version = draw(st.integers(*api.decodable))
    return encode_request(api.key, version, draw(int32), draw(client_ids), api.request())[4:]


@calmly
@given(frames())
def test_both_read_the_same_header(frame: bytes) -> None:
    header_read_by_all(frame)


@calmly
@given(st.data(), frames())
def test_both_refuse_the_same_damage(data: st.DataObject, frame: bytes) -> None:
    header_read_by_all(data.draw(damaged(frame)))
    header_read_by_all(frame[: data.draw(st.integers(0, len(frame)))])


@calmly
@given(st.binary(max_size=40))
def test_both_agree_whether_arbitrary_bytes_have_a_header(frame: bytes) -> None:
    header_read_by_all(frame)


@calmly
@given(
    st.lists(st.binary(max_size=20), max_size=6),
    st.binary(max_size=8),
    st.integers(0, 8),
    st.integers(0, 30),
    st.data(),
)
def test_both_split_the_same_frames(
    bodies: list[bytes], rest: bytes, limit: int, most: int, data: st.DataObject
) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies) + rest
    start = data.draw(st.integers(0, len(stream)))
    end = data.draw(st.integers(start, len(stream)))
    view = memoryview(stream)
    agreed(TWINS, lambda twin: twin.split_frames(view, start, end, limit, most))


@calmly
@given(keys, st.integers(0, 20), int32, st.binary(max_size=40))
def test_both_frame_the_same_response(
    key: ApiKey, version: int, correlation_id: int, body: bytes
) -> None:
    header = RequestHeader(key, version, correlation_id, None)
    agreed(TWINS, lambda twin: twin.frame_response(header, body))
