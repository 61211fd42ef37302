"""Params that only `setup` reads leave the arena; programs with one layout share theirs."""

from __future__ import annotations

import math
import mmap
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.registry import KERNELS, Scope
from rlx.custom import define_op
from rlx.errors import UnsupportedError
from rlx.gguf import encode
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import block_type
from rlx.ir.graph import Graph
from rlx.ir.op import OPS, OpDef
from rlx.ir.shape import Dim
from rlx.ir.types import TensorType
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.compile import compile_together
from rlx.runtime.executable import Executable

SIZE = 160
WEIGHTS = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
PACKED = encode(WEIGHTS, "q8_0")


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a copy that cannot be written."""
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def product(rows: int | Dim, *, scale: float = 1.0) -> Graph:
    """Return `x @ (scale * w)^T`, which is added to `total`; `setup` alone reads `w`."""
    g = Graph("product")
    x, w = g.input("x", (rows, SIZE)), g.param("w", (SIZE, SIZE))
    total = g.param("total", (SIZE,))
    y = g.matmul(x, g.transpose(w * scale, perm=(1, 0)))
    after = total + g.reduce_sum(y, axes=(0,))
    g.set_outputs([y, after], donated={total: after})
    return g


def compiled(w: np.ndarray) -> Executable:
    params = {"w": w, "total": np.zeros(SIZE, np.float32)}
    program = compile_graph(product(8), params=params, threads=1)
    assert isinstance(program, Executable)
    return program


def in_arena(program: Executable, name: str) -> np.ndarray:
    return program.residents.views[name]


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux")
def test_a_frozen_param_leaves_the_arena_after_setup() -> None:
    program = compiled(read_only(WEIGHTS))
    assert program._image.passing == ("w",)
    x = np.ones((8, SIZE), np.float32)
    (y, _) = program(x)
    np.testing.assert_allclose(y[0], WEIGHTS.sum(axis=1), rtol=1e-4, atol=1e-4)
    assert (in_arena(program, "w") == 0).mean() > 0.9  # all pages but the first and the last
    np.testing.assert_array_equal(program.params["w"], WEIGHTS)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux")
def test_temporaries_of_the_first_setup_are_given_back() -> None:
    """What `setup` made on its way is not in memory when a run is short of it."""
    g, size = Graph("prepared"), 1024
    w = g.param("w", (size, size))
    prepared = g.cumsum(g.transpose(g.cumsum(g.tanh(w), axis=1), perm=(1, 0)), axis=1)
    g.set_outputs([g.matmul(g.input("x", (1, size)), prepared)])
    weights = np.random.default_rng(0).uniform(0, 1e-3, (size, size)).astype(np.float32)
    program = compile_graph(g, params={"w": weights}, threads=1)
    assert isinstance(program, Executable)
    resident = program._image.resident_bytes
    assert program._image.arena_bytes - resident >= 4 * size * size
    (y,) = program(np.ones((1, size), np.float32))
    expected = np.cumsum(np.cumsum(np.tanh(weights), axis=1).T, axis=1).sum(axis=0)
    np.testing.assert_allclose(y[0], expected, rtol=1e-3)
    assert (program.arena.bytes[resident:] == 0).mean() > 0.9
    program.set_param("w", 0 * weights)
    np.testing.assert_array_equal(program(np.ones((1, size), np.float32))[0], np.zeros((1, size)))


def test_params_are_there_again_when_setup_runs_again() -> None:
    program = compiled(read_only(WEIGHTS))
    x = np.ones((8, SIZE), np.float32)
    program(x)
    program.set_param("total", np.zeros(SIZE, np.float32))
    np.testing.assert_allclose(program(x)[0][0], WEIGHTS.sum(axis=1), rtol=1e-4, atol=1e-4)
    program.set_param("w", read_only(2 * WEIGHTS))
    np.testing.assert_allclose(program(x)[0][0], 2 * WEIGHTS.sum(axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(program.clone().params["w"], 2 * WEIGHTS)


LARGE = np.random.default_rng(3).standard_normal((1024, 1024)).astype(np.float32)


def large_product() -> Graph:
    """Return `x @ (2 * w)^T` for a `w` that is worth an entry of its own."""
    g = Graph("large")
    w = g.param("w", LARGE.shape)
    g.set_outputs([g.matmul(g.input("x", (2, 1024)), g.transpose(w * 2.0, perm=(1, 0)))])
    return g


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("place", ["file", "columns", "memory"])
def test_setup_reads_large_params_in_place(backend: str, place: str, tmp_path: Path) -> None:
    """If that is in rows of which none is written: others are copied as ever."""
    w = read_only(LARGE)
    if place == "file":
        (tmp_path / "w").write_bytes(b"odd" * 4 + LARGE.tobytes())
        w = np.memmap(tmp_path / "w", np.float32, "r", 12, LARGE.shape)
    elif place == "columns":
        w = read_only(LARGE.T).T
    program = compile_graph(large_product(), params={"w": w}, threads=1, backend=backend)
    assert isinstance(program, Executable)
    assert program._image.setup_takes_places
    x = np.random.default_rng(4).standard_normal((2, 1024)).astype(np.float32)
    for run in (program, program.clone()):
        np.testing.assert_allclose(run(x)[0], 2 * x @ LARGE.T, rtol=1e-4, atol=1e-3)
    assert bool(in_arena(program, "w").any()) == (place == "columns" or sys.platform != "linux")
    program.set_param("w", LARGE + 1)
    np.testing.assert_allclose(program(x)[0], 2 * x @ (LARGE + 1).T, rtol=1e-4, atol=1e-3)


def test_edited_c_without_that_entry_copies_params(tmp_path: Path) -> None:
    """`rlx inspect` prints C with the entries `setup` and `run` alone."""
    program = compile_graph(large_product(), params={"w": read_only(LARGE)}, threads=1)
    assert isinstance(program, Executable)
    assert "large_setup_at" in program.c_source
    (tmp_path / "edited.c").write_text(program.c_source.replace("large_setup_at", "large_other"))
    x = np.ones((2, 1024), np.float32)
    edited = program.rebuild(tmp_path / "edited.c")
    edited.set_param("w", read_only(LARGE))
    np.testing.assert_allclose(edited(x)[0], program(x)[0], rtol=1e-4, atol=1e-3)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists which pages there are")
def test_state_of_zeros_takes_memory_as_it_is_written() -> None:
    """Though NumPy asks for pages of 2 MB, and keys and values are much shorter than that."""
    g, length, width = Graph("remember"), 65536, 256  # 64 MB, which come from the system
    new, at = g.input("rows", (Dim("rows", max=9), width)), g.input("at", (2,), "i32")
    kept = g.param("kept", (length, width))
    after = g.dynamic_update_slice(kept, new, at)
    first = g.narrow(after, axis=0, start=0, length=1)
    g.set_outputs([g.reduce_sum(first, axes=(1,)), after], donated={kept: after})
    zeros = np.broadcast_to(np.float32(0), (length, width))
    program = compile_graph(g, params={"kept": zeros}, threads=1)
    assert isinstance(program, Executable)
    feeds = {"rows": np.ones((2, width), np.float32), "at": np.array([4000, 0], np.int32)}
    (found,) = program.advance(feeds)
    assert not found.any()
    state = program.state("kept")
    assert state[4000:4002].all()
    assert pages_there(state) < state.nbytes // mmap.PAGESIZE // 8


def pages_there(array: np.ndarray) -> int:
    """Return how many pages of an array are in memory."""
    first, last = (
        array.ctypes.data // mmap.PAGESIZE,
        (array.ctypes.data + array.nbytes) // mmap.PAGESIZE,
    )
    with open("/proc/self/pagemap", "rb") as pages:
        pages.seek(first * 8)
        entries = np.frombuffer(pages.read((last - first) * 8), np.uint64)
    return int(np.count_nonzero(entries >> np.uint64(63)))


def in_memory(path: Path) -> int:
    """Return how many kilobytes of a mapped file this process has in memory."""
    mappings = Path("/proc/self/smaps").read_text()
    _, _, mine = mappings.partition(f"{path}\n")
    (size,) = re.findall(r"^Rss: +(\d+) kB", mine, re.MULTILINE)[:1]
    return int(size)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux")
def test_pages_of_a_mapped_file_are_given_back_as_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(WEIGHTS.tobytes())
    mapped = np.memmap(path, np.float32, "r", shape=WEIGHTS.shape)
    program = compiled(mapped)
    np.testing.assert_array_equal(mapped, WEIGHTS)
    assert in_memory(path) >= WEIGHTS.nbytes // 1024
    (y, _) = program(np.ones((8, SIZE), np.float32))
    assert in_memory(path) <= 8  # the first page and the last
    np.testing.assert_allclose(y[0], WEIGHTS.sum(axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(mapped, WEIGHTS)


def test_what_was_written_over_a_mapped_file_stays(tmp_path: Path) -> None:
    """Such pages are private: given back, they would be those of the file again."""
    path = tmp_path / "w"
    path.write_bytes(np.zeros_like(WEIGHTS).tobytes())
    mapped = np.memmap(path, np.float32, "c", shape=WEIGHTS.shape)
    mapped[...] = WEIGHTS
    mapped.flags.writeable = False
    (y, _) = compiled(mapped)(np.ones((8, SIZE), np.float32))
    np.testing.assert_allclose(y[0], WEIGHTS.sum(axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(mapped, WEIGHTS)


def test_an_array_that_somebody_can_write_is_copied() -> None:
    """Be it through the array that a read-only one is a view of."""
    mine = WEIGHTS.copy()
    view = mine.view()
    view.flags.writeable = False
    program = compiled(view)
    mine[...] = 0
    (y, _) = program(np.ones((8, SIZE), np.float32))
    np.testing.assert_allclose(y[0], WEIGHTS.sum(axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(in_arena(program, "w"), WEIGHTS)


def packed(rows: int | Dim) -> Graph:
    """Return the same of a packed `w`, which is laid out alike for any number of rows."""
    g = Graph("packed")
    x, w = g.input("x", (rows, SIZE)), g.param("w", PACKED.shape, "u8")
    total = g.param("total", (SIZE,))
    y = g.dequant_matmul(x, w, scheme="q8_0")
    after = total + g.reduce_sum(y, axes=(0,))
    g.set_outputs([y, after], donated={total: after})
    return g


def test_programs_share_params_and_state() -> None:
    params = {"w": read_only(PACKED), "total": np.broadcast_to(np.float32(0), (SIZE,))}
    one, many = compile_together([packed(1), packed(Dim("rows", max=9))], params=params, threads=1)
    assert one.arena is many.arena
    x = np.random.default_rng(1).standard_normal((6, SIZE)).astype(np.float32)
    (first,) = one.advance({"x": x[:1]})
    (rest,) = many.advance({"x": x[1:]})
    expected = x @ decode_blocks(PACKED, block_type("q8_0")).T
    np.testing.assert_allclose(np.concatenate([first, rest]), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(one.state("total"), expected.sum(axis=0), rtol=1e-3, atol=1e-3)
    many.set_param("total", np.zeros(SIZE, np.float32))
    assert not one.state("total").any()


def test_a_param_set_on_one_program_is_set_up_for_the_other() -> None:
    params = {"w": PACKED, "total": np.zeros(SIZE, np.float32)}
    one, many = compile_together([packed(1), packed(Dim("rows", max=9))], params=params, threads=1)
    x = np.ones((7, SIZE), np.float32)
    assert many.run({"x": x})[0].any()
    one.set_param("w", np.zeros_like(PACKED))
    assert not many.run({"x": x})[0].any()


def test_programs_that_lay_their_params_out_otherwise_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="differ in the layout of their params"):
        compile_together([product(1), product(7, scale=2.0)], threads=1)


@pytest.mark.parametrize("order", [(False, True), (True, False)])
def test_a_param_that_one_of_several_runs_reads_stays_in_the_arena(
    order: tuple[bool, bool],
) -> None:
    """`setup` of both packs `w`; `run` of one alone reads it, too."""
    large = encode(np.random.default_rng(2).standard_normal((512, 512)).astype(np.float32), "q8_0")

    def reads(w_itself: bool) -> Graph:
        g = Graph("product")
        x, w = g.input("x", (1, 512)), g.param("w", large.shape, "u8")
        sums = g.reduce_sum(g.cast(w, to="f32") * g.narrow(x, axis=1, start=0, length=1), axes=(0,))
        product = g.dequant_matmul(x, w, scheme="q8_0")
        g.set_outputs([product, sums] if w_itself else [product])
        return g

    programs = compile_together(list(map(reads, order)), params={"w": read_only(large)}, threads=1)
    x = np.ones((1, 512), np.float32)
    for program, w_itself in zip(programs, order, strict=True):
        found = program.run({"x": x})
        if w_itself:
            np.testing.assert_allclose(found[1], large.astype(np.float32).sum(axis=0), rtol=1e-6)


def raised(x: TensorType, *, power: int) -> TensorType:
    """`x ** power`, by a kernel of the user's own."""
    assert power > 0
    return x


def raised_kernel(scope: Scope, x: Reader, y: Writer, *, power: int) -> None:
    source, target = x.grouped(((0,),)), y.grouped(((0,),))
    with scope.k.loop("i", source.extent(0)) as i:
        value = scope.k.let("value", source.read_real(i))
        target.write(i, value=math.prod([value] * (power - 1), start=value))


@pytest.fixture
def power_op() -> Iterator[OpDef]:
    yield define_op(raised, reference=lambda x, power: x**power, kernel=raised_kernel)
    for table in (OPS, KERNELS):
        table.pop("raised")


def test_programs_whose_residents_cannot_be_compared_are_refused(power_op: OpDef) -> None:
    """What an op of the user's own makes of params is code, of which there is no digest."""

    def product(power: int) -> Graph:
        g = Graph("product")
        x, w = g.input("x", (SIZE,)), g.param("w", (SIZE,))
        g.set_outputs([x * power_op(w, power=power)])
        return g

    with pytest.raises(UnsupportedError, match="differ in the layout of their params"):
        compile_together([product(2), product(3)], threads=1)
