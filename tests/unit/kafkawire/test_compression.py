"""The codecs: their output, input of other programs, and refused input."""

import gzip
import random
import resource
import struct
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard

from kafkawire.compression import Codec, Decompressor, compress, decompress, is_linked_lz4
from kafkawire.errors import CorruptBatchError, TooLargeError
from kafkawire.units import MIB

TEXT = b"the log is partitioned, replicated and committed. " * 4000
NOISE = random.Random(1).randbytes(70_000)
WORDS = b" ".join(random.Random(2).choices([NOISE[n : n + 5] for n in range(900)], k=20_000))
CODECS = [codec for codec in Codec if codec is not Codec.NONE]
LIMIT = 10 * MIB


def xerial(*blocks: bytes) -> bytes:
    header = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def zstd_stream(*pieces: bytes) -> bytes:
    """Return a frame without its size, as from Java's streaming compressor, a block per piece."""
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    blocks = b"".join(
        stream.compress(piece) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for piece in pieces
    )
    return blocks + stream.flush()


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "data",
    [b"", b"x", TEXT, NOISE, NOISE[:32768], NOISE[:65536], NOISE[:65537]],
    ids=lambda data: str(len(data)),
)
def test_compressed_data_round_trips(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, LIMIT) == data
    assert decompress(codec, memoryview(bytearray(packed)), len(data)) == data


@pytest.mark.parametrize("codec", Codec)
def test_a_byte_over_the_limit_is_refused(codec: Codec) -> None:
    name = codec.name.lower()
    with pytest.raises(CorruptBatchError, match=f"{name} data expands beyond {len(TEXT) - 1}"):
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)


def test_other_programs_read_our_compressed_data() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(Codec.LZ4, TEXT)) == TEXT
    assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, TEXT)) == TEXT


def test_lz4_frames_are_readable_in_java() -> None:
    """Independent blocks: bit 5 of the flags. The last header byte is the header's checksum."""
    frame = compress(Codec.LZ4, TEXT)
    assert frame[:7] == bytes.fromhex("04224d18604082")
    assert lz4.frame.get_frame_info(frame)["block_linked"] is False
    assert frame[-4:] == bytes(4)


@pytest.mark.parametrize("level", [1, 9, 17])
def test_lz4_blocks_are_independent_at_every_level(level: int) -> None:
    frame = compress(Codec.LZ4, TEXT, level)
    assert frame[4] & 0x20
    assert lz4.frame.decompress(frame) == TEXT


@pytest.mark.parametrize(
    ("head", "is_linked"),
    [
        pytest.param("04224d1860", False, id="independent blocks"),
        pytest.param("04224d187c", False, id="with checksums and a size"),
        pytest.param("04224d1840", True, id="dependent blocks"),
        pytest.param("04224d1861", True, id="a dictionary"),
        pytest.param("04224d18", False, id="cut before the flags"),
        pytest.param("ff" * 5, False, id="no frame"),
    ],
)
def test_lz4_frames_that_java_refuses_are_known(head: str, is_linked: bool) -> None:
    assert is_linked_lz4(memoryview(bytes.fromhex(head))) is is_linked


@pytest.mark.parametrize("bit", range(8))
def test_damaged_lz4_frames_of_one_block_are_judged_as_by_another_decoder(bit: int) -> None:
    frame = compress(Codec.LZ4, TEXT[:300] * 2)
    assert decompress(Codec.LZ4, frame, 600) == TEXT[:300] * 2
    with pytest.raises(TooLargeError):
        decompress(Codec.LZ4, frame, 599)
    outcomes = set()
    for position in range(len(frame)):
        damaged = bytearray(frame)
        damaged[position] ^= 1 << bit
        outcomes.add(outcome := lz4_outcome(lz4.frame.decompress, bytes(damaged)))
        ours = lz4_outcome(lambda data: decompress(Codec.LZ4, data, LIMIT), bytes(damaged))
        assert ours == outcome, position
    assert len(outcomes) > 2


def lz4_outcome(decode: Callable[[bytes], bytes | memoryview], data: bytes) -> bytes | None:
    """Return the decoded data, or None if the decoder refuses it."""
    try:
        return bytes(decode(data))
    except (RuntimeError, CorruptBatchError):
        return None


def test_lz4_stores_incompressible_data() -> None:
    stored = struct.pack("<I", 1000 | 1 << 31) + NOISE[:1000]
    assert compress(Codec.LZ4, NOISE[:1000])[7:-4] == stored


def test_snappy_is_framed_as_xerial_does() -> None:
    framed = compress(Codec.SNAPPY, TEXT[:40_000])
    assert framed[:16] == bytes.fromhex("82534e41505059000000000100000001")
    first = struct.unpack_from(">i", framed, 16)[0]
    assert bytes(cramjam.snappy.decompress_raw(framed[20 : 20 + first])) == TEXT[:32768]


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        pytest.param(Codec.GZIP, gzip.compress(TEXT), id="gzip with a time"),
        pytest.param(Codec.GZIP, gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:]), id="members"),
        pytest.param(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), id="bare snappy"),
        pytest.param(Codec.LZ4, bytes(cramjam.lz4.compress(TEXT)), id="dependent blocks"),
        pytest.param(
            Codec.LZ4,
            lz4.frame.compress(TEXT, block_size=7, content_checksum=True, block_checksum=True),
            id="lz4 with checksums",
        ),
        pytest.param(Codec.LZ4, lz4.frame.compress(TEXT, store_size=False), id="lz4 without size"),
        pytest.param(Codec.ZSTD, zstd_stream(TEXT[:9], TEXT[9:150_000], TEXT[150_000:]), id="zstd"),
        pytest.param(
            Codec.ZSTD,
            zstandard.ZstdCompressor(write_checksum=True).compress(TEXT[:300])
            + struct.pack("<II", 0x184D2A53, 3)
            + b"abc"
            + zstandard.ZstdCompressor().compress(TEXT[300:]),
            id="zstd frames and one to skip",
        ),
    ],
)
def test_compressed_data_of_other_programs_is_read(codec: Codec, packed: bytes) -> None:
    assert decompress(codec, packed, LIMIT) == TEXT


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("cut", [1, 4, 5, 10, 60])
def test_data_that_ends_too_early_is_refused(codec: Codec, cut: int) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(codec, compress(codec, TEXT)[:-cut], LIMIT)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"\1", b"\xff" * 30, bytes(30)], ids=["", "1", "ff", "00"])
def test_data_that_is_not_of_the_codec_is_refused(codec: Codec, data: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(codec, data, LIMIT)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(xerial(bytes(cramjam.snappy.compress_raw(TEXT))) + b"\0", id="half a length"),
        pytest.param(xerial() + struct.pack(">i", 9) + b"x", id="block that is cut"),
        pytest.param(xerial() + struct.pack(">i", -1), id="negative length"),
        pytest.param(b"\xff\xff\xff\x07" + bytes(9), id="block that claims 16 million bytes"),
    ],
)
def test_damaged_snappy_frames_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(Codec.SNAPPY, data, 1 << 30)


def test_gzip_members_are_limited() -> None:
    member = gzip.compress(b"x")
    assert decompress(Codec.GZIP, member * 16, LIMIT) == b"x" * 16
    with pytest.raises(CorruptBatchError, match="more than 16 members"):
        decompress(Codec.GZIP, member * 17, LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_does_not_take_memory(codec: Codec) -> None:
    """With 128 MiB of zeros and a limit of 1 MiB, peak memory must not depend on the content."""
    size = 128 * MIB
    bomb = {
        Codec.GZIP: lambda: gzip_bomb(size),
        Codec.SNAPPY: lambda: xerial(*[bytes(cramjam.snappy.compress_raw(bytes(MIB)))] * 128),
        Codec.LZ4: lambda: (
            compress(Codec.LZ4, bytes(64 * 1024))[:-4]
            + compress(Codec.LZ4, bytes(64 * 1024))[7:-4] * (size // 65536)
            + bytes(4)
        ),
        Codec.ZSTD: lambda: zstd_bomb(size),
    }[codec]()
    assert len(bomb) < size // 15
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptBatchError, match="expands beyond 1048576 bytes"):
        decompress(codec, bomb, MIB)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 32 * 1024


def gzip_bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    piece = bytes(MIB)
    return b"".join(packer.compress(piece) for _ in range(size // MIB)) + packer.flush()


def zstd_bomb(size: int) -> bytes:
    """Return one frame of run blocks: 128 KiB of zeros in four bytes each."""
    header = struct.pack("<IBB", 0xFD2FB528, 0, 0x38)
    run = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return header + run * (size // (128 * 1024)) + last


def test_the_hand_made_zstd_bomb_is_a_real_one() -> None:
    assert decompress(Codec.ZSTD, zstd_bomb(MIB), 2 * MIB) == bytes(MIB + 1)


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, 1, 12)]
)
def test_a_level_changes_the_size(codec: Codec, low: int, high: int) -> None:
    packed = compress(codec, WORDS, high)
    assert len(packed) < len(compress(codec, WORDS, low))
    assert decompress(codec, packed, LIMIT) == WORDS


def test_snappy_has_no_levels() -> None:
    assert compress(Codec.SNAPPY, WORDS, 9) == compress(Codec.SNAPPY, WORDS)


@pytest.mark.parametrize("size", [4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 9 * MIB])
@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_large_data_round_trips(codec: Codec, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert decompress(codec, compress(codec, data), size) == data
    with pytest.raises(CorruptBatchError, match="expands beyond"):
        decompress(codec, compress(codec, data), size - 1)


def test_gzip_members_of_any_size_are_joined() -> None:
    sizes = [5 * MIB, 0, 100, 4 * MIB]
    data = b"".join(gzip.compress(bytes([size % 251]) * size) for size in sizes)
    joined = decompress(Codec.GZIP, data, 10 * MIB)
    assert bytes(joined) == b"".join(bytes([size % 251]) * size for size in sizes)


def claiming(size: int, frame: bytes) -> bytes:
    """Return a frame without a size that claims one, in eight bytes."""
    assert frame[4] >> 5 == 0, "the frame has a size"
    return frame[:4] + bytes([frame[4] | 3 << 6]) + frame[5:6] + struct.pack("<Q", size) + frame[6:]


@pytest.mark.parametrize("size", [0, 5, len(TEXT) - 1, len(TEXT) + 1, 1 << 40])
def test_zstd_frame_with_a_false_size_is_refused(size: int) -> None:
    assert decompress(Codec.ZSTD, claiming(len(TEXT), zstd_stream(TEXT)), LIMIT) == TEXT
    with pytest.raises(CorruptBatchError):
        decompress(Codec.ZSTD, claiming(size, zstd_stream(TEXT)), 1 << 41)


def test_zstd_frames_share_the_limit() -> None:
    frames = compress(Codec.ZSTD, b"x" * 600) + zstd_stream(b"y" * 600)
    assert decompress(Codec.ZSTD, frames, 1200) == b"x" * 600 + b"y" * 600
    for limit in (0, 599, 600, 601, 1199):
        with pytest.raises(TooLargeError):
            decompress(Codec.ZSTD, frames, limit)
    with pytest.raises(TooLargeError):
        decompress(Codec.ZSTD, zstd_stream(b"z"), 0)


@pytest.mark.parametrize("codec", Codec)
def test_decompressor_works_after_damaged_data(codec: Codec) -> None:
    decompressor, packed = Decompressor(), compress(codec, TEXT)
    for cut in (1, 5, len(packed) // 2):
        if codec is not Codec.NONE:
            with pytest.raises(CorruptBatchError):
                decompressor.decompress(codec, packed[:-cut], LIMIT)
        assert decompressor.decompress(codec, packed, LIMIT) == TEXT
