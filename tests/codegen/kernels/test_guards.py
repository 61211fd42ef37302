"""Movement inside fused bodies: exact, never outside an operand, with loops split at borders."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.codegen.c.emit import emit_kernel
from rlx.codegen.kernels import build_kernel
from rlx.codegen.loops.evaluate import numpy_dtype
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import For, Kernel, LoopKind, Select, Status
from rlx.codegen.loops.verify import verify_kernel
from rlx.codegen.loops.visit import all_expressions, walk
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.ir.shape import evaluate as bound
from tests.codegen.kernels.native import Array, thunk_of
from tests.codegen.kernels.test_fused import Formula, Shape, check, fused_graph, unfused

N = Dim("n", max=9)


def kernel_of(graph: Graph) -> Kernel:
    kernel = build_kernel(thunk_of(graph.nodes[-1])[0], "kernel")
    verify_kernel(kernel)
    return kernel


def interpret(graph: Graph, n: int = 0) -> None:
    """Compare a fused kernel with the reference, in memory that ends where operands end."""
    rng = np.random.default_rng(3)
    feeds: dict[str, Array] = {}
    for leaf in graph.inputs:
        shape = tuple(bound(extent, {"n": n}) for extent in leaf.shape)
        feeds[str(leaf.node.name)] = rng.standard_normal(shape).astype(leaf.dtype.numpy)
        feeds[str(leaf.node.name)].flat[::5] = np.nan
    expected = evaluate(unfused(graph), feeds)
    kernel = kernel_of(graph)
    # Memory is planned for the largest extents: an operand that is empty at the call has some.
    operands = [x if x.size else np.zeros(99, x.dtype) for x in feeds.values()]
    memory = {
        buffer.name: array.reshape(-1).view(numpy_dtype(buffer.prim))
        for buffer, array in zip(
            kernel.buffers, [*operands, *map(np.zeros_like, expected)], strict=True
        )
    }
    assert run_kernel(kernel, memory, {"n": n} if graph.symbols else {}).status is Status.OK
    results = list(memory.values())[len(feeds) :]
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def shifted(x: Value, axis: int, by: int) -> Value:
    """Return `x` moved by one place along `axis`, zeros after it."""
    length = x.shape[axis] - 1
    part = ops.narrow(x, axis=axis, start=max(-by, 0), length=length)
    sides = [0] * x.rank
    sides[axis] = 1
    low, high = (sides, [0] * x.rank) if by > 0 else ([0] * x.rank, sides)
    return ops.pad(part, low=tuple(low), high=tuple(high))


def rolled(x: Value, axis: int) -> Value:
    first = x.shape[axis] - 2
    parts = (
        ops.narrow(x, axis=axis, start=first, length=2),
        ops.narrow(x, axis=axis, start=0, length=first),
    )
    return ops.concat(*parts, axis=axis)


def laplacian(x: Value) -> Value:
    total = x * -2.0 * x.rank
    for axis in range(x.rank):
        total = total + shifted(x, axis, 1) + shifted(x, axis, -1)
    return total


_MOST_READS = 4000


@st.composite
def formulas(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], Formula]:
    """A chain of up to five ops, with steps drawn beforehand, on one or two operands.

    Steps that would read more than `_MOST_READS` elements are left out: each of some multiplies
    the elements by three and what an element reads by two.
    """
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    steps = draw(st.lists(st.tuples(st.sampled_from(_STEPS), st.integers(0, 59)), max_size=5))

    def formula(x: Value, y: Value) -> Value:
        value, reads = x + y, 2
        for step, number in steps:
            moved = step(value, number)
            more = reads * (2 if step is _with_itself else 3 if step is _concat else 1)
            if math.prod(moved.type.static_shape) * more <= _MOST_READS:
                value, reads = moved, more
        return value * 2.0

    return [shape, shape], formula


def _narrow(x: Value, number: int) -> Value:
    axis = number % x.rank
    extent = int(x.type.static_shape[axis])
    start = number // 3 % extent
    return ops.narrow(x, axis=axis, start=start, length=max(extent - start - number % 2, 1))


def _pad(x: Value, number: int) -> Value:
    low = tuple((number >> axis) % 2 for axis in range(x.rank))
    high = tuple((number >> (axis + 2)) % 2 for axis in range(x.rank))
    return ops.pad(x, low=low, high=high, value=float("inf") if number % 5 else 1.5)


def _concat(x: Value, number: int) -> Value:
    axis = number % x.rank
    return ops.concat(x, ops.neg(x), _narrow(x, axis), axis=axis)


def _reverse(x: Value, number: int) -> Value:
    return ops.reverse(x, axes=tuple({number % x.rank, number // 4 % x.rank}))


def _slice(x: Value, number: int) -> Value:
    start = tuple((number + axis) % 2 % int(e) for axis, e in enumerate(x.type.static_shape))
    step = tuple(1 + (number >> axis) % 2 for axis in range(x.rank))
    return ops.slice(x, start=start, stop=x.shape, step=step)


def _transpose(x: Value, _: int) -> Value:
    return ops.transpose(x, perm=tuple(reversed(range(x.rank))))


def _with_itself(x: Value, number: int) -> Value:
    back = ops.reverse(x, axes=(number % x.rank,))
    return x + back


_STEPS = (_narrow, _pad, _concat, _reverse, _slice, _transpose, _with_itself)


@pytest.mark.slow
@given(formulas())
@settings(max_examples=150, deadline=None)
def test_chains_of_movement_are_exact_and_stay_inside(case: tuple[list[Shape], Formula]) -> None:
    shapes, formula = case
    interpret(fused_graph(shapes, formula))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 9])
def test_symbolic_borders_are_in_order_at_the_call(n: int) -> None:
    def around(x: Value) -> Value:
        padded = ops.pad(x * 2.0, low=(1, 0), high=(2, 0), value=7.0)
        joined = ops.concat(padded, ops.reverse(x, axes=(0,)), axis=0)
        return joined * 3.0

    def along_rows(x: Value, y: Value) -> Value:
        wide = ops.pad(x, low=(0, 2), high=(0, 1)) + ops.pad(x, low=(0, 0), high=(0, 3))
        joined = ops.concat(y, x, axis=1)
        return joined * wide

    interpret(fused_graph([(N, 3)], around), n)
    interpret(fused_graph([(2, N), (2, 3)], along_rows), n)


@pytest.mark.parametrize("axes", [(5,), (4, 6), (3, 4, 5)])
def test_the_interior_of_a_stencil_has_no_guards(axes: tuple[int, ...]) -> None:
    """Along the innermost axis a guard is a border of its own; the loop between has none."""
    kernel = kernel_of(fused_graph([axes], laplacian))
    loops = [node for node in walk(kernel.body) if isinstance(node, For)]
    assert [loop.kind for loop in loops].count(LoopKind.SIMD) == 1
    interpret(fused_graph([axes], laplacian))
    if len(axes) == 1:
        assert not [node for node in all_expressions(kernel.body) if isinstance(node, Select)]


def test_a_stencil_reads_as_its_golden(golden: Callable[[str, str], None]) -> None:
    graph = fused_graph([(4, 8)], laplacian)
    kernel = build_kernel(thunk_of(graph.nodes[-1])[0], "laplacian_4x8", ["laplacian -> %1"])
    golden("laplacian_4x8.c", emit_kernel(kernel) + "\n")


@pytest.mark.parametrize(("extent", "loops"), [(32, 12), (3, 1)], ids=["long", "short"])
def test_joins_of_many_pieces_have_a_loop_for_each_that_is_long(extent: int, loops: int) -> None:
    def joined(*pieces: Value) -> Value:
        return ops.relu(ops.concat(*pieces, axis=1) * 2.0)

    graph = fused_graph([(4, extent)] * 12, joined)
    kernel = kernel_of(graph)
    kinds = [node.kind for node in walk(kernel.body) if isinstance(node, For)]
    assert kinds.count(LoopKind.SIMD) == loops
    selects = [node for node in all_expressions(kernel.body) if isinstance(node, Select)]
    assert bool(selects) == (loops == 1)
    interpret(graph)


def test_a_roll_along_rows_copies_two_runs() -> None:
    kernel = kernel_of(fused_graph([(6, 5)], lambda x: rolled(x, 0) * 2.0))
    assert not [node for node in all_expressions(kernel.body) if isinstance(node, Select)]
    interpret(fused_graph([(6, 5)], lambda x: rolled(x, 0) * 2.0))


def test_large_stencils_take_the_parallel_paths() -> None:
    check(fused_graph([(40_000,)], laplacian))
    check(fused_graph([(70, 600)], laplacian))
    check(fused_graph([(3, 20_000)], laplacian))
    check(fused_graph([(40, 40, 40)], laplacian))
    check(fused_graph([(300, 200)], lambda x: x + rolled(x, 0) + rolled(x, 1)))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.I32, DType.BOOL, DType.C64])
def test_the_value_of_a_pad_is_an_element_of_its_dtype(dtype: DType) -> None:
    def formula(x: Value) -> Value:
        padded = ops.pad(ops.concat(x, x, axis=0), low=(1,), high=(2,), value=1)
        return padded if dtype is DType.BOOL else -padded

    graph = fused_graph([(5,)], formula, dtype)
    feeds = {"x0": np.arange(5).astype(dtype.numpy)}
    (expected,) = evaluate(unfused(graph), feeds)
    kernel = kernel_of(graph)
    arrays = [feeds["x0"], np.zeros_like(expected)]
    memory = {
        buffer.name: array.view(numpy_dtype(buffer.prim))
        for buffer, array in zip(kernel.buffers, arrays, strict=True)
    }
    run_kernel(kernel, memory, {})
    np.testing.assert_array_equal(arrays[1], expected)
