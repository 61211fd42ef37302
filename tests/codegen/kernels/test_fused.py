"""Fused bodies, symbolic extents and in-place results through the kernels of their anchors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.loops.nodes import For, LoopKind
from rlx.codegen.loops.visit import walk
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import make_attrs
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, Extent
from rlx.target import detect_target
from tests.codegen.kernels.native import Array, case_of, module_of, run_case

Shape = tuple[Extent, ...]
Formula = Callable[..., "Value | tuple[Value, ...]"]

N = Dim("n", max=70)


def fused_graph(shapes: Sequence[Shape], formula: Formula, dtype: DType = DType.F32) -> Graph:
    """Return a graph of one `fused` node whose body is `formula`."""
    body = Graph("body")
    inputs = [body.input(f"x{i}", shape, dtype) for i, shape in enumerate(shapes)]
    result = formula(*inputs)
    body.set_outputs(result if isinstance(result, tuple) else (result,))
    graph = Graph("fused")
    operands = [graph.input(f"x{i}", shape, dtype) for i, shape in enumerate(shapes)]
    graph.set_outputs(graph.append(ops.fused, operands, make_attrs(ops.fused, {"body": body})))
    return graph


def unfused(graph: Graph) -> Graph:
    """Return the graph with the nodes of the body in place of the `fused` node."""
    plain = Graph("plain")
    operands = [plain.input(str(v.node.name), v.shape, v.dtype) for v in graph.inputs]
    plain.set_outputs(plain.inline(graph.nodes[-1].attribute("body"), operands))
    return plain


def random_feeds(graph: Graph, n: int | None = None) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    binding = {} if n is None else {"n": n}
    shapes = {
        str(v.node.name): tuple(e if isinstance(e, int) else e.evaluate(binding) for e in v.shape)
        for v in graph.inputs
    }
    return {
        name: rng.standard_normal(shape).astype(graph.leaf(name).dtype.numpy)
        for name, shape in shapes.items()
    }


def check(graph: Graph, n: int | None = None, *, in_place: bool = False) -> None:
    """Run the graph's one kernel through LLVM and compare with the reference."""
    feeds = random_feeds(graph, n)
    expected = evaluate(unfused(graph), feeds)
    case = case_of(graph, "case", in_place=in_place)
    native = LlvmBackend().load(module_of([case]), detect_target())
    extents = {} if n is None else {"n": n}
    status, found = run_case(case, native.address("run_case"), list(feeds.values()), extents)
    assert status == 0
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def softmax_between(x: Value, mask: Value) -> Value:
    scaled = x * 0.5 + mask
    weights = ops.softmax(scaled, axis=-1)
    return weights * 2.0 - x


def residual_layer_norm(x: Value, y: Value, gamma: Value, beta: Value) -> tuple[Value, ...]:
    total = x + y
    return total, ops.layer_norm(total, gamma, beta, axis=-1, eps=1e-5)


BODIES: dict[str, tuple[list[Shape], Formula]] = {
    "softmax with a mask that broadcasts over the middle": (
        [(2, 3, 4, 40), (2, 1, 1, 40)],
        softmax_between,
    ),
    "softmax of columns": ([(5, 7, 70)], lambda x: ops.softmax(ops.tanh(x), axis=1) + 1.0),
    "log_softmax": ([(5, 33)], lambda x: ops.log_softmax(x * 2.0, axis=-1) * x),
    "residual and layer_norm": ([(6, 48), (6, 48), (48,), (48,)], residual_layer_norm),
    "layer_norm of columns": (
        [(3, 48, 5), (48,), (48,)],
        lambda x, g, b: ops.tanh(ops.layer_norm(x * x, g, b, axis=1, eps=1e-5)),
    ),
    "rms_norm": ([(6, 48), (48,)], lambda x, g: ops.rms_norm(x + 1.0, g, axis=-1, eps=1e-5) * x),
    "two operands that broadcast alike": (
        [(3, 7, 16), (3, 1, 16), (3, 1, 16)],
        lambda x, g, b: ops.softmax(x, axis=-1) * g + b,
    ),
    "mean of squares": (
        [(6, 300)],
        lambda x: ops.sqrt(ops.reduce_mean(x * x, axes=(1,)) + 1e-5),
    ),
    "sum of outer axes": (
        [(6, 7, 90), (90,)],
        lambda x, y: ops.reduce_sum(ops.exp(x), axes=(0, 1)) * y,
    ),
    "maximum with several outputs": (
        [(6, 30)],
        lambda x: (m := ops.reduce_max(ops.abs(x), axes=(1,), keepdims=True), m * 2.0),
    ),
    "cumsum": ([(4, 30)], lambda x: ops.cumsum(x * x, axis=1) - x),
    "region with two outputs": (
        [(4, 5, 6), (5, 1)],
        lambda x, y: (s := x + y, ops.sigmoid(s) * s),
    ),
    "region that moves": (
        [(4, 5), (5, 4)],
        lambda x, y: ops.transpose(x, perm=(1, 0)) * ops.reverse(y, axes=(0,)),
    ),
}


@pytest.mark.parametrize("body", BODIES)
def test_a_fused_kernel_computes_what_surrounds_its_anchor(body: str) -> None:
    shapes, formula = BODIES[body]
    check(fused_graph(shapes, formula))


@pytest.mark.parametrize("n", [0, 1, 5, 70])
def test_one_kernel_serves_every_extent_up_to_the_bound(n: int) -> None:
    if n:
        check(fused_graph([(3, N, N), (3, 1, N)], softmax_between), n)
    check(fused_graph([(N, 48), (N, 48), (48,), (48,)], residual_layer_norm), n)
    check(fused_graph([(N, 3, N)], lambda x: ops.reduce_sum(x, axes=(0, 2)) * 2.0), n)
    check(fused_graph([(2, N, 3)], lambda x: ops.transpose(x, perm=(0, 2, 1)) + 1.0), n)


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: ops.softmax(x * 2.0, axis=-1),
        lambda x: ops.softmax(x * 2.0, axis=0),
        lambda x: ops.softmax(x, axis=-1) + x,
        lambda x: ops.log_softmax(x, axis=-1),
        lambda x: ops.sigmoid(x) * x,
    ],
)
def test_a_result_may_replace_its_operand(formula: Formula) -> None:
    check(fused_graph([(7, 90)], formula), in_place=True)


def test_large_rows_and_many_elements_take_the_parallel_paths() -> None:
    check(fused_graph([(3, 20_000)], lambda x: ops.softmax(x, axis=-1) * 2.0))
    check(fused_graph([(3, 20_000)], lambda x: ops.reduce_sum(x * x, axes=(1,))))
    check(fused_graph([(9_000, 5)], lambda x: ops.reduce_sum(x, axes=(0,)) / 9_000.0))
    check(fused_graph([(3, 20_000), (3, 1)], lambda x, y: ops.tanh(x) + y))
    check(fused_graph([(40_000,)], lambda x: x * x + 1.0))


ROWS = [
    ([(6, 70, 3), (6, 1, 3)], None),
    ([(12_000, 3), (12_000, 1)], None),
    ([(N, 3), (N, 1)], 51),
    ([(5, N, 2), (5, 1, 2)], 70),
]


@pytest.mark.parametrize(("shapes", "n"), ROWS)
def test_short_rows_of_costly_elements_are_the_lanes_of_vectors(
    shapes: Sequence[Shape], n: int | None
) -> None:
    graph = fused_graph(shapes, lambda x, y: ops.mod(x - y, 0.7) + ops.tanh(x))
    check(graph, n)
    check(graph, n, in_place=True)
    loops = [s for s in walk(case_of(graph, "case").kernel.body) if isinstance(s, For)]
    assert any(
        isinstance(inner, For) and inner.kind is LoopKind.UNROLL
        for loop in loops if loop.kind is LoopKind.SIMD for inner in loop.body
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F64, DType.C64])
def test_a_region_computes_every_float_dtype(dtype: DType) -> None:
    graph = fused_graph([(5, 40), (40,)], lambda x, y: (x + y) * (x - y), dtype)
    feeds = {
        name: np.linspace(-1.0, 1.0, array.size).reshape(array.shape).astype(array.dtype)
        for name, array in random_feeds(graph).items()
    }
    case = case_of(graph, "case")
    native = LlvmBackend().load(module_of([case]), detect_target())
    _, (found,) = run_case(case, native.address("run_case"), list(feeds.values()))
    x, y = (array.astype(np.complex128) for array in feeds.values())
    bound = {DType.F16: 1e-3, DType.BF16: 1e-2, DType.F64: 1e-14}.get(dtype, 1e-6)
    np.testing.assert_allclose(found.astype(np.complex128), (x + y) * (x - y), bound, bound)


def test_gather_reads_a_computed_table_and_adds_to_what_it_took() -> None:
    body = Graph("body")
    table, indices = body.input("x0", (9, 20)), body.input("x1", (4,), "i32")
    bias = body.input("x2", (20,))
    body.set_outputs((ops.gather(table * 2.0, indices, axis=0) + bias,))
    graph = Graph("fused")
    operands = [graph.input(str(v.node.name), v.shape, v.dtype) for v in body.inputs]
    graph.set_outputs(graph.append(ops.fused, operands, make_attrs(ops.fused, {"body": body})))
    feeds = {**random_feeds(graph), "x1": np.array([8, 0, 3, 3], np.int32)}
    case = case_of(graph, "case")
    native = LlvmBackend().load(module_of([case]), detect_target())
    status, (found,) = run_case(case, native.address("run_case"), list(feeds.values()))
    assert status == 0
    np.testing.assert_allclose(found, feeds["x0"][feeds["x1"]] * 2.0 + feeds["x2"], 1e-6)


EMPTY: list[tuple[list[Shape], Formula]] = [
    ([(0, 4)], lambda x: ops.transpose(x, perm=(1, 0))),
    ([(4, 0)], lambda x: ops.softmax(ops.transpose(x, perm=(1, 0)), axis=1)),
    ([(0, 3), (0, 3)], lambda x, y: ops.concat(x, y, axis=0)),
    ([(3, 0, 5)], lambda x: ops.reduce_sum(x, axes=(1,)) + 1.0),
    ([(3, 0, 5)], lambda x: ops.cumsum(x, axis=0)),
    ([(3, 0), (1, 1)], lambda x, y: x + y),
]


@pytest.mark.parametrize("number", range(len(EMPTY)))
def test_empty_axes_are_computed_too(number: int) -> None:
    check(fused_graph(*EMPTY[number]))


def test_a_reshape_to_a_scalar_is_read_at_every_point() -> None:
    def formula(x: Value, most: Value) -> Value:
        scalar = ops.reshape(most, shape=())
        return x - scalar

    check(fused_graph([(3, 4), (1,)], formula))
