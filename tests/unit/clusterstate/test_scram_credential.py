"""SCRAM credentials in znodes: `clusterstate.znodes.scram_credential`."""

import pytest

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.scram_credential import decode_credentials, encode_credential
from kafkawire.scram import Credential

# In the form that kafka-configs of Kafka 3.9.1 writes.
KAFKA = "salt=YTFmcg==,stored_key=AQI=,server_key=AwQ=,iterations=8192"


def test_the_text_is_that_of_kafkas_tool() -> None:
    [credential] = decode_credentials({"SCRAM-SHA-256": KAFKA, "producer_byte_rate": "1"}).values()
    assert credential == Credential(
        salt=b"a1fr", stored_key=b"\x01\x02", server_key=b"\x03\x04", iterations=8192
    )
    assert encode_credential(credential) == KAFKA


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3cret",
        KAFKA.replace("salt", "pepper"),
        KAFKA.replace("8192", "many"),
        KAFKA.replace("AQI=", "s3cret!"),
        KAFKA + ",more=x",
        KAFKA.replace("YTFmcg==", ""),
    ],
)
def test_other_texts_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(MalformedZnodeError) as caught:
        decode_credentials({"SCRAM-SHA-512": text})
    assert "s3cret" not in str(caught.value)
