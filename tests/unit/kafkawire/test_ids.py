import pytest

from kafkawire.ids import (
    MAX_TOPIC_NAME_CHARS,
    ZERO_TOPIC_ID,
    TopicId,
    TopicPartition,
    topic_id_from_text,
    topic_id_to_text,
    validate_topic_name,
)


def test_a_partition_is_named_like_its_directory() -> None:
    assert str(TopicPartition("a-b", 12)) == "a-b-12"


@pytest.mark.parametrize(
    ("topic_id", "text"),
    [
        (ZERO_TOPIC_ID, "AAAAAAAAAAAAAAAAAAAAAA"),
        (TopicId(int=1), "AAAAAAAAAAAAAAAAAAAAAQ"),
        (TopicId("fbf0efbe-ff7e-4d3c-a0e9-8a1f6c2b3d4e"), "-_Dvvv9-TTyg6YofbCs9Tg"),
    ],
)
def test_a_topic_id_has_kafkas_text(topic_id: TopicId, text: str) -> None:
    assert topic_id_to_text(topic_id) == text
    assert topic_id_from_text(text) == topic_id


@pytest.mark.parametrize(
    "text",
    ["", "AAAA", "A" * 22 + "==", "A" * 23, "+/" + "A" * 20, "é" * 22, "*" * 22],
)
def test_malformed_topic_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="22 base64 characters"):
        topic_id_from_text(text)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * MAX_TOPIC_NAME_CHARS])
def test_legal_topic_names(name: str) -> None:
    assert validate_topic_name(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "directory"),
        ("..", "directory"),
        ("x" * (MAX_TOPIC_NAME_CHARS + 1), "at most 249 characters, got 250"),
        ("a/b", "ASCII letters"),
        ("a b", "ASCII letters"),
        ("é", "ASCII letters"),
        ("a\n", "ASCII letters"),
    ],
)
def test_illegal_topic_names_are_refused_with_the_reason(name: str, reason: str) -> None:
    assert reason in (validate_topic_name(name) or "")
