"""Mixed precision: what is lowered, what stays f32, and how far results move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.op import Trait
from rlx.ir.verify import verify
from rlx.passes.phases import setup_nodes
from rlx.passes.pipeline import pipeline
from rlx.passes.precision.mixed_precision import at_precision, mixed_precision
from rlx.passes.precision.policy import MixedPrecision
from rlx.passes.rewrite import bodies_of
from rlx.runtime.lower import claimed_ops
from rlx.target import named_target
from tests.aot.building import Loaded, needs_compiler

BACKENDS = ("reference", "c", "llvm")
STEPS = {"bf16": 2.0**-8, "f16": 2.0**-11}
"""Half a unit in the last place at 1: what rounding once costs, relative to the number."""


def two_layers() -> Graph:
    g = Graph("mlp")
    x = g.input("x", (8, 32))
    hidden = g.relu(g.matmul(x, g.param("w", (32, 48))))
    g.set_outputs([g.softmax(g.matmul(hidden, g.param("v", (48, 16))), axis=-1)])
    return g


def arrays(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def ops_of(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes if not node.op.has(Trait.LEAF)]


def product_dtypes(graph: Graph) -> list[DType]:
    """Return the dtypes of all products, those of bodies included."""
    found = [n.result.dtype for n in graph.nodes if n.op.name == "matmul"]
    inner = (body for node in graph.nodes for body in bodies_of(node.attrs))
    return found + [dtype for body in inner for dtype in product_dtypes(body)]


# What is lowered


def test_products_are_lowered_and_all_else_stays_f32() -> None:
    low = at_precision(two_layers(), "bf16")
    verify(low)
    for node in low.nodes:
        expected = DType.BF16 if node.op.name in ("matmul",) else DType.F32
        if node.op.name != "cast":
            assert node.results[0].dtype is expected, node.title


def test_a_cast_that_the_next_undoes_goes_with_it() -> None:
    g = Graph("g")
    x, w = g.input("x", (4, 4)), g.param("w", (4, 4))
    g.set_outputs([g.matmul(g.matmul(x, w), w)])
    # x and w once each, and the result: nothing between the products.
    low = at_precision(g, "bf16")
    assert ops_of(low) == ["cast", "cast", "matmul", "matmul", "cast"]


def test_classes_of_ops_are_chosen_by_name() -> None:
    policy = MixedPrecision("f16", classes=("row_wise", "elementwise"))
    dtypes = {n.op.name: n.result.dtype for n in at_precision(two_layers(), policy).nodes}
    assert (dtypes["softmax"], dtypes["relu"], dtypes["matmul"]) == (
        DType.F16, DType.F16, DType.F32,
    )  # fmt: skip


def test_casts_and_comparisons_are_not_lowered_with_the_elementwise_ops() -> None:
    g = Graph("g")
    x = g.input("x", (4,))
    g.set_outputs([g.cast(x, to=DType.I32), g.gt(x, g.input("y", (4,)))])
    policy = MixedPrecision(classes=("elementwise", "contraction"))
    assert ops_of(at_precision(g, policy)) == ops_of(g)


@pytest.mark.parametrize("dtype", ["f64", "i32", "f16", "c64"])
def test_only_f32_is_touched(dtype: str) -> None:
    g = Graph("g")
    g.set_outputs([g.matmul(g.input("x", (4, 4), dtype), g.input("y", (4, 4), dtype))])
    assert at_precision(g, "bf16") is g


def test_the_pass_is_done_after_one_run() -> None:
    lower = mixed_precision(MixedPrecision())
    once = lower(two_layers())
    assert lower(once) is once


def test_what_is_lowered_is_reported() -> None:
    names: list[str] = []
    at_precision(two_layers(), "bf16", lambda node: names.append(node.op.name))
    assert names == ["matmul", "matmul"]


def test_casts_of_params_run_in_setup() -> None:
    done = pipeline(claimed_ops(), named_target("x86-64-v3")).run(at_precision(two_layers(), "f16"))
    early = setup_nodes(done)
    read = {node: {o.node.op.name for o in node.operands} for node in done.nodes}
    for_params = [n for n in done.nodes if n.op.name in ("cast", "fused") and "param" in read[n]]
    assert len(for_params) == 2
    assert early.issuperset(for_params)


# Results


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_product_differs_by_the_rounding_of_its_operands_and_result(
    backend: str, dtype: str
) -> None:
    a, b = arrays(0, (24, 40), (40, 16))
    found = rlx.jit(rnp.matmul, backend=backend, precision=dtype)(a, b)
    step = STEPS[dtype]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = (2 * step + step**2) * (np.abs(a) @ np.abs(b)) + step * np.abs(exact)
    assert found.dtype == np.float32
    assert (np.abs(found - exact) <= 1.01 * bound).all()
    assert np.abs(found - exact).max() > step / 4  # it was rounded, indeed


def training_step() -> Callable[..., Any]:
    def loss(params: dict[str, Any], x: Any, y: Any) -> Any:
        hidden = rnp.tanh(x @ params["w"])
        return ((hidden @ params["v"] - y) ** 2).mean()

    def step(params: dict[str, Any], x: Any, y: Any) -> Any:
        value, slopes = rlx.value_and_grad(loss)(params, x, y)
        return value, {name: params[name] - 0.05 * slopes[name] for name in params}

    return step


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_keeps_master_weights_in_f32(backend: str) -> None:
    x, y, w, v = arrays(1, (16, 8), (16, 4), (8, 12), (12, 4))
    plain = rlx.jit(training_step(), backend=backend)
    mixed = rlx.jit(training_step(), backend=backend, precision="bf16")
    exact = rough = {"w": w, "v": v}
    for _ in range(20):
        value, exact = plain(exact, x, y)
        low_value, rough = mixed(rough, x, y)
    for name, weights in rough.items():
        assert weights.dtype == np.float32
        # Updates smaller than a step of bf16 add up: the weights are not rounded to it.
        rounded = weights.astype(DType.BF16.numpy).astype(np.float32)
        assert (weights != rounded).mean() > 0.9
        np.testing.assert_allclose(weights, exact[name], atol=20 * 0.05 * STEPS["bf16"])
    assert abs(low_value - value) <= 4 * STEPS["bf16"] * abs(value)


def recurrent(h: Any, w: Any, xs: Any) -> Any:
    return rlx.scan(lambda c, x: (rnp.tanh(c @ w + x), rnp.sum(c)), h, xs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_bodies_of_loops_are_lowered_and_carry_f32(backend: str) -> None:
    h, w, xs = arrays(2, (4, 16), (16, 16), (10, 4, 16))
    mixed = rlx.jit(recurrent, backend=backend, precision="bf16")
    low = at_precision(mixed.graph(h, w, xs), "bf16")
    assert product_dtypes(low) == [DType.BF16]
    assert all(output.dtype is DType.F32 for output in low.outputs)
    last, sums = mixed(h, w * 0.2, xs)
    exact, exact_sums = rlx.jit(recurrent, backend="reference")(h, w * 0.2, xs)
    np.testing.assert_allclose(last, exact, atol=8 * STEPS["bf16"])
    np.testing.assert_allclose(sums, exact_sums, atol=16 * 8 * STEPS["bf16"])


def test_the_gradient_of_a_loop_is_lowered_with_it() -> None:
    h, w, xs = arrays(3, (4, 16), (16, 16), (10, 4, 16))
    slope = rlx.grad(lambda w, h, xs: rnp.sum(recurrent(h, w, xs)[0]))
    mixed = rlx.jit(slope, precision="bf16")
    low = at_precision(mixed.graph(w * 0.2, h, xs), "bf16")
    assert set(product_dtypes(low)) == {DType.BF16}
    exact = rlx.jit(slope)(w * 0.2, h, xs)
    np.testing.assert_allclose(
        mixed(w * 0.2, h, xs), exact, atol=16 * STEPS["bf16"] * np.abs(exact).max()
    )


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_backends_agree_with_the_reference(backend: str) -> None:
    x, w, v = arrays(4, (8, 32), (32, 48), (48, 16))
    params = {"w": w, "v": v}
    (expected,) = rlx.compile(two_layers(), backend="reference", params=params, precision="bf16")(x)
    (found,) = rlx.compile(two_layers(), backend=backend, params=params, precision="bf16")(x)
    (exact,) = rlx.compile(two_layers(), backend="reference", params=params)(x)
    assert np.abs(found - expected).max() < np.abs(exact - expected).max() / 4
    # A sum that falls on the other side of a rounding moves its result by one step of bf16.
    np.testing.assert_allclose(found, expected, rtol=32 * STEPS["bf16"], atol=STEPS["bf16"])


# Choosing it


def test_the_cache_of_programs_distinguishes_precisions() -> None:
    a, b = arrays(5, (8, 8), (8, 8))
    exact = rlx.jit(rnp.matmul)(a, b)
    assert not np.array_equal(rlx.jit(rnp.matmul, precision="bf16")(a, b), exact)
    assert np.array_equal(rlx.jit(rnp.matmul, precision="f32")(a, b), exact)


@pytest.mark.parametrize("dtype", ["f64", "i8", "f32", "bfloat"])
def test_a_policy_of_no_16_bit_float_is_refused(dtype: str) -> None:
    with pytest.raises(DTypeError, match=f"(?s)unknown precision '{dtype}'.*use 'bf16'"):
        MixedPrecision(dtype)


def test_a_refused_precision_names_the_line_that_gave_it() -> None:
    with pytest.raises(DTypeError) as caught:
        rlx.jit(rnp.matmul, precision="f64")
    source = caught.value.source
    assert source is not None
    assert source.file == __file__


def test_an_unknown_class_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"(?s)called 'matmul'.*contraction, elementwise"):
        MixedPrecision(classes=("matmul",))


def test_a_precision_that_is_no_policy_is_refused() -> None:
    with pytest.raises(InputError, match=r"(?s)precision is a int.*rlx.MixedPrecision"):
        rlx.compile(two_layers(), precision=16)  # type: ignore[call-overload]


@needs_compiler
def test_an_artifact_computes_as_the_reference_does(tmp_path: Path) -> None:
    x, w, v = arrays(6, (8, 32), (32, 48), (48, 16))
    params = {"w": w, "v": v}
    artifact = rlx.aot(two_layers(), tmp_path, params=params, weights="embed", precision="bf16")
    native = Loaded(artifact, "int mlp_call(void *, const float *, float *);")
    assert native.call("init", native.arena, native.block.size) == 0
    assert native.call("setup", native.arena) == 0
    found = np.zeros((8, 16), np.float32)
    assert native.call("call", native.arena, native.pointer(x), native.pointer(found)) == 0
    (exact,) = rlx.compile(two_layers(), backend="reference", params=params)(x)
    (expected,) = rlx.compile(two_layers(), backend="reference", params=params, precision="bf16")(x)
    np.testing.assert_allclose(found, expected, rtol=32 * STEPS["bf16"], atol=STEPS["bf16"])
    assert np.abs(found - expected).max() < np.abs(found - exact).max() / 4
