"""Ops that users define: meaning, kernel, derivative and batching of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.codegen.c.sources import SOURCES
from rlx.codegen.kernels.registry import KERNELS
from rlx.custom import apply, define_composite, define_op
from rlx.custom.kernels import Prim, Reader, Scope, Writer, blocks, const, given, result, row_count
from rlx.errors import GraphError
from rlx.ir import digest, ops
from rlx.ir.digest import graph_digest
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS, OpDef
from rlx.ir.reference.registry import Array
from rlx.ir.types import TensorType
from rlx.passes.autodiff import NoDerivativeError, grad_with_loss
from rlx.passes.autodiff.registry import Pullback
from rlx.passes.vmap import vmap
from tests.loop_programs import everywhere, graph_of

X = np.array([-2, -0.5, 0, 1.5, 3], np.float32)
VECTOR = {"x": ((5,), "f32")}


def custom_square(x: TensorType) -> TensorType:
    """`x * x`, by a kernel in the loop language."""
    return x


def square_kernel(scope: Scope, x: Reader, y: Writer) -> None:
    source, target = x.grouped(((0,),)), y.grouped(((0,),))
    with scope.k.loop("i", source.extent(0)) as i:
        value = scope.k.let("value", source.read_real(i))
        target.write(i, value=value * value)


def custom_power_sum(x: TensorType, y: TensorType, *, scale: float) -> TensorType:
    """`scale * x + y * y`, by C."""
    assert x.shape == y.shape
    assert scale != 0
    return y


POWER_SUM = """
void custom_power_sum(
    const float *x, const double *y, double *z, int64_t n, int64_t m, double scale) {
  (void)m;
  for (int64_t i = 0; i < n; ++i) {
    z[i] = scale * (double)x[i] + y[i] * y[i];
  }
}
"""


def squared(x: Array) -> Array:
    return x * x


@pytest.fixture(scope="module")
def square() -> Iterator[OpDef]:
    def pull(at: Pullback, x: Value) -> Value:
        return at.cotangent * (x + x)

    yield define_op(custom_square, reference=squared, kernel=square_kernel, vjp=pull)
    for table in (OPS, KERNELS):
        table.pop("custom_square")


@pytest.fixture(scope="module")
def power_sum() -> Iterator[OpDef]:
    yield define_op(
        custom_power_sum,
        reference=lambda x, y, scale: scale * x.astype(np.float64) + y * y,
        c_source=POWER_SUM,
    )
    OPS.pop("custom_power_sum")
    KERNELS.pop("custom_power_sum")
    SOURCES.pop("custom_power_sum")


def test_a_kernel_in_the_loop_language_runs_everywhere(square: OpDef) -> None:
    (found,) = everywhere(graph_of("g", VECTOR, lambda x: square(x)), {"x": X}, rtol=1e-6)
    np.testing.assert_array_equal(found, X * X)


def test_a_stated_derivative_is_used(square: OpDef) -> None:
    loss = graph_of("loss", VECTOR, lambda x: ops.reduce_sum(square(x), axes=(0,)))
    feeds = {"x": X, "d_output": np.float32(1)}
    total, dx = everywhere(grad_with_loss(loss, ["x"]), feeds, rtol=1e-6)
    assert total == 15.5
    np.testing.assert_array_equal(dx, 2 * X)


def test_an_op_without_a_batching_rule_is_applied_one_by_one(square: OpDef) -> None:
    batched = vmap(graph_of("g", VECTOR, lambda x: square(x)), [0], size=2)
    (found,) = everywhere(batched, {"x": np.stack([X, 2 * X])}, rtol=1e-6)
    np.testing.assert_array_equal(found, [X * X, 4 * X * X])


def test_c_of_mixed_dtypes_runs_in_both_backends(power_sum: OpDef) -> None:
    types = {"x": ((4,), "f32"), "y": ((4,), "f64")}
    graph = graph_of("g", types, lambda x, y: power_sum(x, y, scale=0.5))
    feeds = {"x": np.array([1, 2, 3, 4], np.float32), "y": np.array([0.5, 4, 1.25, -2])}
    (found,) = everywhere(graph, feeds)
    np.testing.assert_allclose(found, [0.75, 17, 3.0625, 6])


MINMAX = """
void custom_minmax(const double *x, double *packed, int64_t n) {
  packed[0] = packed[1] = x[0];
  for (int64_t i = 1; i < n; ++i) {
    packed[0] = x[i] < packed[0] ? x[i] : packed[0];
    packed[1] = x[i] > packed[1] ? x[i] : packed[1];
  }
}
"""

PICKED = """
void custom_picked(const int32_t *index, const double *x, double *y, int64_t n, int64_t m) {
  (void)m;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = (double)index[i] * x[i];
  }
}
"""


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Forget the ops that a test defines."""
    before = set(OPS)
    yield
    for name in set(OPS) - before:
        for table in (OPS, KERNELS, SOURCES):
            table.pop(name, None)


@pytest.mark.usefixtures("forgotten")
def test_several_results_may_be_packed_into_one() -> None:
    def custom_minmax(x: TensorType) -> TensorType:
        """Least and largest element."""
        return x.with_shape((2,))

    minmax = define_op(
        custom_minmax, reference=lambda x: np.array([x.min(), x.max()]), c_source=MINMAX
    )

    def halves(x: Value) -> list[Value]:
        packed = minmax(x)
        return [ops.narrow(packed, axis=0, start=i, length=1) for i in range(2)]

    graph = graph_of("g", {"x": ((6,), "f64")}, halves)
    least, largest = everywhere(graph, {"x": np.array([3, -1, 7, 2.5, -4, 0])})
    assert (least.item(), largest.item()) == (-4, 7)


@pytest.mark.usefixtures("forgotten")
def test_integers_and_floats_promote_in_one_op() -> None:
    def custom_picked(index: TensorType, x: TensorType) -> TensorType:
        """`index * x`."""
        assert index.shape == x.shape
        return x

    picked = define_op(custom_picked, reference=lambda i, x: i * x, c_source=PICKED)
    graph = graph_of("g", {"i": ((4,), "i32"), "x": ((4,), "f64")}, lambda i, x: picked(i, x))
    feeds = {"i": np.array([3, -1, 7, 2], np.int32), "x": np.array([0.5, 4, 1.25, -2])}
    assert everywhere(graph, feeds)[0].tolist() == [1.5, -4, 8.75, -4]


@pytest.mark.usefixtures("forgotten")
def test_a_kernel_in_the_loop_language_serves_wide_and_narrow_floats() -> None:
    def custom_reciprocal(x: TensorType) -> TensorType:
        """`1 / x`."""
        return x

    def kernel(scope: Scope, x: Reader, y: Writer) -> None:
        source, target = x.grouped(((0,),)), y.grouped(((0,),))
        with scope.k.loop("i", source.extent(0)) as i:
            target.write(i, value=1.0 / scope.k.let("value", source.read_real(i)))

    reciprocal = define_op(custom_reciprocal, reference=lambda x: 1 / x, kernel=kernel)
    for dtype in ("f64", "f16"):
        graph = graph_of("g", {"x": ((4,), dtype)}, lambda x: reciprocal(x))
        given = np.array([1, 2, -4, 0.5], graph.inputs[0].dtype.numpy)
        assert everywhere(graph, {"x": given})[0].tolist() == [1, 0.5, -0.25, 2]


def test_an_op_without_a_derivative_says_so(power_sum: OpDef) -> None:
    types = {"x": ((4,), "f32"), "y": ((4,), "f64")}

    def loss(x: Value, y: Value) -> Value:
        return ops.reduce_sum(power_sum(x, y, scale=1.0), axes=(0,))

    graph: Graph = graph_of("loss", types, loss)
    with pytest.raises(NoDerivativeError, match="custom_power_sum"):
        grad_with_loss(graph, ["y"])


def test_a_name_that_is_taken_is_refused(square: OpDef) -> None:
    with pytest.raises(GraphError, match=f"op {square.name} exists already"):
        define_op(custom_square, reference=squared, kernel=square_kernel)


def test_an_op_needs_one_kernel() -> None:
    def custom_nothing(x: TensorType) -> TensorType:
        return x

    with pytest.raises(GraphError, match="needs either a kernel or a C source"):
        define_op(custom_nothing, reference=squared)


@pytest.mark.usefixtures("forgotten")
def test_results_that_no_annotation_declares_are_refused() -> None:
    """The second one was dropped."""

    def custom_pair(x):  # type: ignore[no-untyped-def]  # what the test is about
        return x, x

    pair = define_op(custom_pair, reference=lambda x: (x, x), c_source="void custom_pair(void);")
    with pytest.raises(GraphError, match="returns 2 types, and its return annotation declares 1"):
        pair(Graph().input("x", (3,)))


def own_kernel(scope: Scope, x: Reader, y: Writer, z: Writer) -> None:
    """Write each element twice, through memory of its own."""
    k, count = scope.k, row_count(x)
    assert scope.scratch is not None
    with (
        blocks(k, const(count, Prim.I64), count) as (start, stop),
        k.loop("i", stop, start=start) as i,
    ):
        k.store(scope.scratch, i, k.load(given(x), i))
        k.store(result(y), i, k.load(scope.scratch, i))
        k.store(result(z), i, k.load(scope.scratch, i) * 2.0)


@pytest.mark.usefixtures("forgotten")
def test_an_op_may_have_several_results_scratch_and_a_version() -> None:
    def custom_twice(x: TensorType) -> tuple[TensorType, TensorType]:
        """`x` and `2 * x`."""
        return x, x

    op = define_op(
        custom_twice,
        reference=lambda x: (x, 2 * x),
        kernel=own_kernel,
        scratch=lambda operands, _: 4 * operands[0].shape[0],
        no_derivative="it is for a test",
        version="1",
    )
    graph = graph_of("g", VECTOR, lambda x: op(x))
    found = everywhere(graph, {"x": X})
    np.testing.assert_array_equal(found, [X, 2 * X])
    first = graph_digest(graph)
    digest.VERSIONS[op.name] = "2"
    assert first is not None
    assert graph_digest(graph_of("g", VECTOR, lambda x: op(x))) not in (first, None)
    loss = graph_of("loss", VECTOR, lambda x: ops.reduce_sum(op(x)[0], axes=(0,)))
    with pytest.raises(NoDerivativeError, match="it is for a test"):
        grad_with_loss(loss, ["x"])


@pytest.mark.usefixtures("forgotten")
def test_an_op_by_its_formula_is_applied_to_arrays_and_traced() -> None:
    def custom_scaled(x: Value, *, by: float) -> Value:
        """`by * x`, whose derivative is said to be 10."""
        return x * by

    op = define_composite(custom_scaled, vjp=lambda at, *_, **__: at.cotangent * 10.0)
    np.testing.assert_array_equal(apply(op, X, by=3.0), 3 * X)
    total, slope = rlx.jit(rlx.value_and_grad(lambda x: apply(op, x, by=3.0).sum()))(X)
    assert total == 3 * X.sum()
    np.testing.assert_array_equal(slope, np.full(5, 10.0))


EXTENSION = """
from rlx.custom import define_composite

def extension_doubled(x):
    \"\"\"`2 * x`.\"\"\"
    return x + x

define_composite(extension_doubled)
"""


def test_ops_of_installed_packages_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "extension_ops.py").write_text(EXTENSION)
    metadata = tmp_path / "extension-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: extension\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[rlx.ops]\nextension = extension_ops\n")
    program = (
        "import rlx; from rlx.ir.parser import parse_graph\n"
        "g = rlx.Graph('g'); x = g.input('x', (2,)); g.set_outputs([g.neg(x)])\n"
        "read = parse_graph(str(g).replace('neg', 'extension_doubled'))\n"
        "assert read.outputs[0].op.name == 'extension_doubled'\n"
        "assert g.extension_doubled(x).shape == (2,)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(rlx.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)
