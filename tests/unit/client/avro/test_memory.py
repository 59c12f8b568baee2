"""A memory forgets the value that was used least recently."""

from ottla.client.avro.memory import Memory


def test_the_least_recently_used_value_is_forgotten() -> None:
    memory: Memory[str, int] = Memory(2)
    memory.put("a", 1)
    memory.put("b", 2)
    assert memory.get("a") == 1
    memory.put("c", 3)
    assert (memory.get("a"), memory.get("b"), memory.get("c")) == (1, None, 3)
    memory.put("a", 4)
    memory.put("d", 5)
    assert (memory.get("a"), memory.get("c"), memory.get("d")) == (4, None, 5)
