"""Kind and base offset of a file, by its name."""

import pytest

from logcheck.file_name import FileKind, FileName, parse_file_name


@pytest.mark.parametrize("name", ["00000000000000000000.other", "notes.txt", ".lock", "log"])
def test_other_file_names_are_not_recognised(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.parametrize("suffix", ["", ".deleted", ".cleaned", ".swap"])
def test_segment_with_a_suffix_is_still_a_segment(suffix: str) -> None:
    parsed = parse_file_name(f"00000000000000000042.log{suffix}")
    assert parsed == FileName(FileKind.SEGMENT, 42)


@pytest.mark.parametrize("stem", ["1000", "0000000000000000100x", "copy", "09223372036854775808"])
def test_segment_whose_name_is_no_offset_is_not_well_formed(stem: str) -> None:
    assert parse_file_name(f"{stem}.log") == FileName(FileKind.SEGMENT, is_well_formed=False)


def test_transaction_index_is_recognised() -> None:
    parsed = parse_file_name("00000000000000000042.txnindex")
    assert parsed == FileName(FileKind.TRANSACTION_INDEX, 42)
