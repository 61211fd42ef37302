"""Reading GGUF files: versions, byte orders, parts, and every way to be damaged."""

from __future__ import annotations

import struct
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.errors import FormatError, InputError
from rlx.gguf import encode, read
from tests.gguf.files import Tensor, f32, gguf_file

W = [1.0, -2.0, 3.5, 0.0]
METADATA = {"general.architecture": "llama", "tokens": ["a", "b"], "n": 7, "eps": 0.5, "on": True}


def written(directory: Path, data: bytes, name: str = "m.gguf") -> Path:
    path = directory / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_versions_and_byte_orders(tmp_path: Path, version: int, order: str) -> None:
    tensor = Tensor((4,), 0, np.asarray(W, order + "f4").tobytes())
    data = gguf_file(METADATA, {"w": tensor}, version=version, order=order)
    file = read(written(tmp_path, data))
    assert file.version == version
    assert file.alignment == 32
    assert dict(file.metadata) == METADATA
    assert file.tensors["w"].dims == (4,)
    assert file.dequant_f32("w").tolist() == W


def test_big_endian_blocks_have_their_scales_swapped(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((2, 256)).astype(np.float32)
    for name, number, fields in (("q4_1", 3, (0, 2)), ("q6_k", 14, (208,))):
        little = encode(weights, name)
        big = little.reshape(-1, 20 if name == "q4_1" else 210).copy()
        for at in fields:
            big[:, [at, at + 1]] = big[:, [at + 1, at]]
        tensor = Tensor((256, 2), number, big.tobytes())
        file = read(written(tmp_path, gguf_file({}, {"w": tensor}, order=">")))
        np.testing.assert_array_equal(file.tensor_bytes("w"), little)


def test_shapes_are_reversed_dims_and_rows_are_bytes(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((3, 2, 64)).astype(np.float32)
    packed = encode(weights, "q8_0")
    file = read(written(tmp_path, gguf_file({}, {"w": Tensor((64, 2, 3), 8, packed.tobytes())})))
    assert file.tensors["w"].shape == (3, 2, 64)
    np.testing.assert_array_equal(file.tensor_bytes("w"), packed)
    assert file.dequant_f32("w").shape == (3, 2, 64)


@pytest.mark.parametrize(("number", "dtype"), [(1, "f2"), (24, "i1"), (26, "i4"), (28, "f8")])
def test_plain_numbers(tmp_path: Path, number: int, dtype: str) -> None:
    tensor = Tensor((3,), number, np.asarray([1, -2, 3], "<" + dtype).tobytes())
    file = read(written(tmp_path, gguf_file({}, {"w": tensor})))
    assert file.dequant_f32("w").tolist() == [1.0, -2.0, 3.0]


def test_bf16_is_the_upper_half_of_f32(tmp_path: Path) -> None:
    tensor = Tensor((2,), 30, np.asarray([0x3F80, 0xC000], "<u2").tobytes())
    file = read(written(tmp_path, gguf_file({}, {"w": tensor})))
    assert file.dequant_f32("w").tolist() == [1.0, -2.0]


def test_bytes_are_mapped_not_copied(tmp_path: Path) -> None:
    data = gguf_file({}, {"w": Tensor((1 << 20,), 24, bytes(1 << 20))})
    path = written(tmp_path, data)
    tracemalloc.start()
    file = read(path)
    file.tensor_bytes("w")
    assert tracemalloc.get_traced_memory()[1] < 1 << 19
    tracemalloc.stop()


def resident_file_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("RssFile"))
    return 1024 * int(line.split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="says what is resident")
def test_pages_are_given_back_while_a_file_is_read(tmp_path: Path) -> None:
    size = 1 << 25
    path = written(tmp_path, gguf_file({}, {"w": Tensor((size,), 24, bytes(size))}))
    file = read(path)
    before = resident_file_bytes()
    with file.releasing():
        assert not file.tensor_bytes("w").any()
        until = time.monotonic() + 30
        while resident_file_bytes() > before + size // 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert resident_file_bytes() <= before + size // 2
    assert not file.tensor_bytes("w").any()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="says what is resident")
def test_pages_are_given_back_at_the_end_where_no_thread_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    size = 1 << 25
    path = written(tmp_path, gguf_file({}, {"w": Tensor((size,), 24, bytes(size))}))
    file = read(path)
    before = resident_file_bytes()
    monkeypatch.setattr(threading.Thread, "start", refused)
    with file.releasing():
        assert not file.tensor_bytes("w").any()
        assert resident_file_bytes() > before + size // 2
    assert resident_file_bytes() <= before + size // 2


def test_files_of_the_gguf_package_read_equal(tmp_path: Path) -> None:
    gguf: Any = pytest.importorskip("gguf")
    path = tmp_path / "theirs.gguf"
    weights = np.random.default_rng(3).standard_normal((4, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("a.number", 5)
    writer.add_array("a.floats", [0.5, 1.5])
    writer.add_array("a.texts", ["x", "yz"])
    writer.add_bool("a.bool", True)
    writer.add_tensor("plain", weights)
    q8 = gguf.quantize(weights, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed", q8, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read(path)
    assert file.metadata["a.number"] == 5
    assert file.metadata["a.floats"].tolist() == [0.5, 1.5]
    assert file.metadata["a.texts"] == ["x", "yz"]
    assert file.metadata["a.bool"] is True
    np.testing.assert_array_equal(file.dequant_f32("plain"), weights)
    np.testing.assert_array_equal(file.tensor_bytes("packed"), q8)


def test_parts_of_a_split_file_are_one(tmp_path: Path) -> None:
    for part in (1, 2):
        data = gguf_file({"split.count": 2, "split.no": part - 1}, {f"w{part}": f32(W)})
        written(tmp_path, data, f"m-{part:05}-of-00002.gguf")
    file = read(tmp_path / "m-00001-of-00002.gguf")
    assert set(file.tensors) == {"w1", "w2"}
    assert file.dequant_f32("w2").tolist() == W
    assert dict(file.metadata) == {"split.count": 1}


def test_parts_that_share_a_tensor_are_refused(tmp_path: Path) -> None:
    for part in (1, 2):
        data = gguf_file({"split.count": 2}, {"w": f32(W)})
        written(tmp_path, data, f"m-{part:05}-of-00002.gguf")
    with pytest.raises(FormatError, match="tensor 'w' is in"):
        read(tmp_path / "m-00001-of-00002.gguf")


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    data = gguf_file({"split.count": 2}, {"w": f32(W)})
    written(tmp_path, data, "m-00001-of-00002.gguf")
    with pytest.raises(FormatError, match="m-00002-of-00002"):
        read(tmp_path / "m-00001-of-00002.gguf")


def damaged(tmp_path: Path, data: bytes, match: str) -> None:
    with pytest.raises(FormatError, match=match):
        read(written(tmp_path, data))


def test_sixteen_zero_bytes_are_no_file(tmp_path: Path) -> None:
    damaged(tmp_path, bytes(16), "magic")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    damaged(tmp_path, b"", "magic")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read(tmp_path / "none.gguf")


def test_version_4_is_refused(tmp_path: Path) -> None:
    damaged(tmp_path, b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "version: 4")


@pytest.mark.parametrize("count", [2**64 - 1, 2**63, 2**40])
def test_counts_are_not_believed(tmp_path: Path, count: int) -> None:
    head = b"GGUF" + struct.pack("<I", 3)
    damaged(tmp_path, head + struct.pack("<QQ", count, 0), "tensor_count")
    damaged(tmp_path, head + struct.pack("<QQ", 0, count), "kv_count")
    key = struct.pack("<QQQ", 0, 1, 1) + b"k"
    damaged(tmp_path, head + struct.pack("<QQQ", 0, 1, count), "length of a string")
    damaged(tmp_path, head + key + struct.pack("<IQ", 8, count), "key 'k': length of a string")
    damaged(tmp_path, head + key + struct.pack("<IIQ", 9, 4, count), "key 'k'")
    damaged(tmp_path, head + key + struct.pack("<IIQ", 9, 8, count), "key 'k'")


def test_types_of_metadata_are_checked(tmp_path: Path) -> None:
    head = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k"
    damaged(tmp_path, head + struct.pack("<I", 13) + bytes(8), "13 is not a type")
    damaged(tmp_path, head + struct.pack("<IB", 7, 2) + bytes(8), "a bool is 0 or 1, not 2")
    deep = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 40 + bytes(8)
    damaged(tmp_path, head + deep, "nests 33 deep; the limit nesting is 32")


def test_keys_and_tensors_are_unique(tmp_path: Path) -> None:
    one = struct.pack("<Q", 1) + b"k" + struct.pack("<II", 4, 1)
    damaged(tmp_path, b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + one + one, "key 'k': occurs twice")
    tensor = struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 4, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 0)
    damaged(tmp_path, head + tensor + tensor + bytes(64), "tensor 'w': occurs twice")


def test_alignment_is_a_power_of_two(tmp_path: Path) -> None:
    damaged(tmp_path, gguf_file({"general.alignment": 24}, {}), "general.alignment")


def test_another_alignment_is_obeyed(tmp_path: Path) -> None:
    data = gguf_file({"general.alignment": 64}, {"a": f32([1]), "w": f32(W)}, alignment=64)
    assert read(written(tmp_path, data)).dequant_f32("w").tolist() == W


def test_a_tensor_is_inside_of_its_file(tmp_path: Path) -> None:
    data = gguf_file({}, {"w": f32(W)})
    damaged(tmp_path, data[:-1], "tensor 'w' ends at byte 16 of the data, which has 15")
    huge = gguf_file({}, {"w": Tensor((2**40, 2**20), 0, b"")})
    damaged(tmp_path, huge, "tensor 'w' ends at")


def test_extents_are_those_of_an_array(tmp_path: Path) -> None:
    empty = gguf_file({}, {"w": Tensor((0, 2**62), 0, b"")})
    damaged(tmp_path, empty, "tensor 'w': it claims extents .*, which no array can have")


def test_rows_are_whole_blocks(tmp_path: Path) -> None:
    damaged(tmp_path, gguf_file({}, {"w": Tensor((33,), 8, bytes(34))}), "no whole blocks of 32")


def test_types_that_cannot_be_read_fail_when_asked_for(tmp_path: Path) -> None:
    file = read(written(tmp_path, gguf_file({}, {"w": Tensor((128,), 41, bytes(18))})))
    with pytest.raises(FormatError, match="tensor 'w': its type, q1_0, cannot be read"):
        file.dequant_f32("w")


def test_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no tensor 'v'"):
        read(written(tmp_path, gguf_file({}, {"w": f32(W)}))).tensor_bytes("v")


def test_every_truncation_is_a_format_error(tmp_path: Path) -> None:
    data = gguf_file(METADATA, {"w": f32(W)})
    for size in range(len(data)):
        with pytest.raises(FormatError):
            read(written(tmp_path, data[:size]))


@pytest.mark.slow
def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    """Thousands of files with a few bytes changed, or a length near 2^64: a FormatError or a file.

    No file of 500 bytes makes its reader take more than a few pages of memory.
    """
    packed = encode(np.ones((2, 32), np.float32), "q4_0").tobytes()
    original = gguf_file(METADATA, {"w": f32(W), "q": Tensor((32, 2), 2, packed)})
    rng = np.random.default_rng(0)
    path = tmp_path / "m.gguf"
    extremes = (0, 1, 0x7F, 0x80, 0xFF)
    refused = most = 0
    for _ in range(3000):
        data = bytearray(original)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            data[at] = rng.choice(extremes) if rng.random() < 0.5 else rng.integers(0, 256)
        if rng.random() < 0.1:
            at = rng.integers(0, len(data) - 8)
            data[at : at + 8] = (2**64 - int(rng.integers(1, 1000))).to_bytes(8, "little")
        path.write_bytes(bytes(data))
        tracemalloc.start()
        try:
            file = read(path)
            for name in file.tensors:
                file.dequant_f32(name)
        except FormatError:
            refused += 1
        most = max(most, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most < 1 << 18
    assert 500 < refused < 3000
