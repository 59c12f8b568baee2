"""The epoch history agrees with a plain list of the epoch of each offset."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.ids import LeaderEpoch, Offset
from storage.log.leader_epochs import LeaderEpochs

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(st.just("cut end"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("cut start"), st.integers(0, 8), st.just(0)),
    ),
    max_size=25,
)


@given(OPERATIONS, st.integers(-1, 12))
def test_history_matches_the_written_offsets(
    operations: list[tuple[str, int, int]], asked: int
) -> None:
    history = LeaderEpochs()
    writer: dict[int, int] = {}
    start = end = epoch = 0
    for name, amount, count in operations:
        match name:
            case "write":
                epoch += amount
                history.assign(LeaderEpoch(epoch), Offset(end))
                writer.update(dict.fromkeys(range(end, end + count), epoch))
                end += count
            case "cut end":
                end = max(start, end - amount)
                history.truncate_from_end(Offset(end))
            case _:
                start = min(end, start + amount)
                history.truncate_from_start(Offset(start))
        writer = {offset: by for offset, by in writer.items() if start <= offset < end}
    for offset, by in writer.items():
        assert history.epoch_for(Offset(offset)) == by
    entries = history.entries
    assert list(entries) == sorted(set(entries))
    assert all(a.start_offset < b.start_offset for a, b in pairwise(entries))
    check_query(history, writer, asked, end)


def check_query(history: LeaderEpochs, writer: dict[int, int], asked: int, end: int) -> None:
    """If both sides hold records of the epoch, the result is the end of the records up to it."""
    epochs = set(writer.values())
    if asked not in epochs:
        return
    found, end_offset = history.end_offset_for(asked, Offset(end))
    assert found == asked
    assert end_offset == max(offset for offset, by in writer.items() if by == asked) + 1
