"""Control flow, derivatives and batching of unusual programs, in the reference, LLVM and C."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.blocks import packed_swiglu
from rlx.custom import define_op
from rlx.errors import NoRuleError, UnsupportedError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.ir.types import TensorType
from rlx.language.experts import ExpertMonitor, ResidencyStats
from rlx.passes.autodiff import grad, grad_with_loss
from rlx.passes.precision.mixed_precision import at_precision
from rlx.tracing.apply import emit
from tests.codegen.kernels.test_packed import packed_rows

Array = NDArray[Any]
BACKENDS = ("llvm", "c")
RANDOM = np.random.default_rng(11)
FIRST = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Draw the same numbers in each test, whatever ran before."""
    RANDOM.bit_generator.state = FIRST


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape)


def compiled(graph: Graph, inputs: dict[str, Array], **options: Any) -> list[tuple[Array, ...]]:
    """Return the outputs of each back end."""
    return [rlx.compile(graph, backend=b, **options).run(inputs) for b in BACKENDS]


def assert_compiles_to_the_reference(graph: Graph, inputs: dict[str, Array]) -> list[Array]:
    expected = evaluate(graph, inputs)
    for outputs in compiled(graph, inputs):
        for output, exact in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(output, exact, rtol=2e-5, atol=1e-5)
    return list(expected)


def assert_derivative(f: Callable[..., Any], *args: Array) -> None:
    """Compare the gradient by all arguments, and its own product, with differences in f64."""
    argnums = tuple(range(len(args)))
    directions = [normal(*x.shape) for x in args]

    def along(t: float, of: Callable[..., Any]) -> Any:
        return of(*(x + t * d for x, d in zip(args, directions, strict=True)))

    def slope(*at: Array) -> Any:
        gradients = rlx.grad(f, argnums=argnums)(*at)
        return sum(rnp.sum(g * d) for g, d in zip(gradients, directions, strict=True))

    step, valued, sloped = 1e-5, rlx.jit(f), rlx.jit(slope)
    for backend in BACKENDS:
        first = rlx.jit(slope, backend=backend)(*args)
        np.testing.assert_allclose(
            first, (along(step, valued) - along(-step, valued)) / (2 * step), rtol=2e-5, atol=1e-7
        )
        _, second = rlx.jit(lambda *at: rlx.jvp(slope, at, tuple(directions)), backend=backend)(
            *args
        )
        difference = (along(step, sloped) - along(-step, sloped)) / (2 * step)
        np.testing.assert_allclose(second, difference, rtol=5e-5, atol=1e-6)


def mel(spectrum: Array, filters: Array) -> Any:
    """`log_mel` in f64, as NumPy writes it."""
    power = spectrum[:, :5] ** 2 + spectrum[:, 8:13] ** 2
    levels = np.log10(np.maximum(power @ filters.T, 1e-10))
    return ((np.maximum(levels, levels.max(axis=1, keepdims=True) - 8) + 4) / 4).sum()


# Programs and passes


def test_one_function_runs_every_kind_of_thunk() -> None:
    g = Graph("kinds")
    x, w = g.input("x", (6, 8), "f32"), g.input("w", (8, 8), "f32")
    i = g.input("i", (5,), "i32")
    values, indices = g.topk(g.matmul(x, w), k=3)
    rows = g.gather(g.transpose(x, perm=(1, 0)), i)
    chosen = g.where(g.gt(rows, g.reduce_mean(rows, axes=(1,), keepdims=True)), rows, g.neg(rows))
    ordered, order = g.sort(chosen), g.argsort(chosen)
    g.set_outputs(
        [
            values,
            indices,
            g.narrow(chosen, axis=1, start=1, length=4),
            g.cumsum(rows, axis=0),
            ordered,
            order,
        ]
    )
    inputs = {"x": normal(6, 8).astype("f4"), "w": normal(8, 8).astype("f4")}
    assert_compiles_to_the_reference(g, {**inputs, "i": np.array([7, 0, 3, 3, 1], np.int32)})


@pytest.mark.parametrize("mask_kind", ["none", "causal"])
def test_keys_and_values_of_a_fused_attention_may_be_results(mask_kind: str) -> None:
    g = Graph("exported_cache")
    x = g.input("x", (2, 5, 8), "f32")
    q, k, v = (g.matmul(x, g.input(n, (8, 8), "f32")) for n in ("wq", "wk", "wv"))
    out = g.attention(q, k, v, num_heads=2, head_dim=4, mask_kind=mask_kind)
    g.set_outputs([g.add(g.matmul(out, g.input("wo", (8, 8), "f32")), x), k, v])
    inputs = {n: normal(8, 8).astype("f4") for n in ("wq", "wk", "wv", "wo")}
    assert_compiles_to_the_reference(g, {"x": normal(2, 5, 8).astype("f4"), **inputs})


@pytest.mark.parametrize("biased", [(), ("q",), ("out",), ("q", "out")])
@pytest.mark.parametrize("keys", [5, 7])
def test_a_fused_attention_keeps_the_biases_and_lengths_that_it_has(
    biased: tuple[str, ...], keys: int
) -> None:
    g = Graph("cross")
    x, memory, mask = (
        g.input(n, s) for n, s in (("x", (2, 5, 8)), ("m", (2, keys, 8)), ("b", (2, keys)))
    )
    inputs = {"x": normal(2, 5, 8), "m": normal(2, keys, 8), "b": np.ones((2, keys))}
    inputs["b"][1, keys - 2 :] = 0.0

    def projected(value: Any, name: str) -> Any:
        inputs[f"w{name}"] = normal(8, 8)
        product = g.matmul(value, g.input(f"w{name}", (8, 8)))
        if name not in biased:
            return product
        inputs[f"b{name}"] = normal(8)
        return product + g.input(f"b{name}", (8,))

    q, k, v = projected(x, "q"), projected(memory, "k"), projected(memory, "v")
    y = g.attention(q, k, v, mask, num_heads=2, head_dim=4, mask_kind="custom")
    g.set_outputs([projected(y, "out"), k])
    (out, _) = assert_compiles_to_the_reference(g, {n: a.astype("f4") for n, a in inputs.items()})

    def rows(name: str, given: Any) -> Any:
        return given @ inputs[f"w{name}"] + inputs.get(f"b{name}", 0.0)

    split = [
        rows(n, given).reshape(2, -1, 2, 4)
        for n, given in zip("qkv", (inputs["x"], inputs["m"], inputs["m"]), strict=True)
    ]
    scores = np.einsum("bqhd,bkhd->bhqk", split[0], split[1]) / 2.0
    scores = np.where(inputs["b"][:, None, None] > 0.5, scores, -1e9)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    heads = np.einsum("bhqk,bkhd->bqhd", weights, split[2]).reshape(2, 5, 8)
    np.testing.assert_allclose(out, rows("out", heads), rtol=1e-4, atol=1e-5)


def test_accounts_of_experts_are_a_program_s_own_and_include_packed_matrices() -> None:
    feeds = {"x": normal(4, 32).astype("f4"), "e": np.array([0, 1, 1, 2], np.int32)}
    g = Graph("mixture")
    x, e = g.input("x", (4, 32)), g.input("e", (4,), "i32")
    w = g.constant(packed_rows("q8_0", 6, 32).reshape(3, 2, -1))
    plain = g.grouped_matmul(x, g.input("w", (3, 32, 2)), e)
    g.set_outputs([plain + g.grouped_dequant_matmul(x, w, e, scheme="q8_0")])
    feeds["w"] = normal(3, 32, 2).astype("f4")
    first, second = (ExpertMonitor(g, num_experts=3, products_per_layer=2) for _ in range(2))
    first.set_resident([False, True, True])
    first.run(feeds)
    second.run(feeds)
    assert first.take_stats() == ResidencyStats(4, 6, 2, 2)
    assert second.take_stats() == ResidencyStats(6, 8, 0, 0)


def test_products_of_a_loop_are_not_left_out_of_accounts_in_silence() -> None:
    body = Graph("step")
    x, w, e = body.input("c", (4, 3)), body.input("w", (3, 3, 3)), body.input("e", (4,), "i32")
    body.set_outputs([body.grouped_matmul(x, w, e)])
    g = Graph("mixture")
    operands = g.input("x", (4, 3)), g.input("w", (3, 3, 3)), g.input("e", (4,), "i32")
    g.set_outputs(g.scan(*operands, body=body, length=2, num_carries=1, num_consts=2))
    with pytest.raises(UnsupportedError, match="scan: its body multiplies by matrices of experts"):
        ExpertMonitor(g, num_experts=3, products_per_layer=1)


def test_lower_precision_leaves_integers_bools_doubles_and_indices() -> None:
    g = Graph("mixed")
    x, w = g.input("x", (4, 8), "f32"), g.input("w", (8, 8), "f32")
    i, d = g.input("i", (3,), "i64"), g.input("d", (4,), "f64")
    product = g.matmul(x, w)
    kept = [g.add(i, i), g.logical_not(g.gt(d, d)), g.mul(d, d), g.cast(d, to="i32")]
    g.set_outputs([g.gather(product, i), *kept])
    low = at_precision(g, "f16")
    assert [o.dtype for o in low.outputs] == [o.dtype for o in g.outputs]
    assert {n.result.dtype for n in low.nodes if n.op.name == "matmul"} == {DType.F16}
    inputs = {"x": normal(4, 8).astype("f4"), "w": normal(8, 8).astype("f4"), "d": normal(4)}
    exact = evaluate(g, {**inputs, "i": np.array([3, 0, 1])})
    for outputs in compiled(low, {**inputs, "i": np.array([3, 0, 1])}):
        np.testing.assert_allclose(outputs[0], exact[0], atol=2e-2)
        for output, same in zip(outputs[1:], exact[1:], strict=True):
            np.testing.assert_array_equal(output, same)


def test_a_backward_program_reads_the_params_that_the_forward_one_reads() -> None:
    g = Graph("loss")
    x = g.input("x", (4, 8), "f64")
    hidden = g.tanh(g.matmul(x, g.param("w", (8, 8), "f64")))
    g.set_outputs([g.reduce_sum(g.mul(hidden, g.param("scale", (8,), "f64")), axes=(0, 1))])
    params = {"w": normal(8, 8), "scale": normal(8)}
    backward = grad_with_loss(g, ["w", "scale"])
    inputs = {"x": normal(4, 8), "d_output": np.array(1.0)}
    exact = evaluate(backward, {**inputs, **params})
    for backend in BACKENDS:
        run = rlx.compile(backward, params=params, backend=backend)
        for _ in range(2):
            for output, same in zip(run.run(inputs), exact, strict=True):
                np.testing.assert_allclose(output, same, rtol=1e-12)


# Control flow


def nested(x: Any) -> Any:
    """An `if` in a `while` in a `scan` in a function of its own derivative."""

    @rlx.custom_jvp
    def inner(c: Any) -> Any:
        def step(carry: Any, u: Any) -> tuple[Any, Any]:
            def once(state: Any) -> Any:
                i, s = state
                grown = rlx.cond(rnp.sum(s) > 0, lambda a: a * 0.5, lambda a: a - u, s)
                return i + 1, grown

            _, carry = rlx.while_loop(lambda s: s[0] < 3, once, (0, carry))
            return carry, rnp.sum(carry)

        return rlx.scan(step, c, rnp.arange(4.0))[1]

    @inner.defjvp
    def tangents(primals: Any, tangents: Any) -> Any:
        return inner(primals[0]), inner(primals[0]) * rnp.sum(tangents[0])

    return inner(x)


def test_control_flow_is_lowered_in_bodies_of_bodies() -> None:
    x = np.array([0.5, -2.0, 1.0])
    expected, carry = [], x.copy()
    for u in np.arange(4.0):
        for _ in range(3):
            carry = carry * 0.5 if carry.sum() > 0 else carry - u
        expected.append(carry.sum())
    for backend in BACKENDS:
        np.testing.assert_allclose(rlx.jit(nested, backend=backend)(x), expected, rtol=1e-14)
        _, tangent = rlx.jit(lambda x: rlx.jvp(nested, (x,), (x,)), backend=backend)(x)
        np.testing.assert_allclose(tangent, np.array(expected) * x.sum(), rtol=1e-13)


def test_constants_of_bodies_keep_each_of_their_bytes() -> None:
    flags, halves = np.array([True, False, True]), np.array([1, 2, 3], np.float16)
    bytes_ = np.arange(5, dtype=np.int8)

    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> tuple[Any, Any]:
            c = rnp.where(rnp.asarray(flags), c + rnp.asarray(halves), c)
            return c, rnp.asarray(bytes_) + 1

        return rlx.scan(step, x, None, length=3)

    for backend in BACKENDS:
        carry, rows = rlx.jit(f, backend=backend)(np.zeros(3, np.float16))
        np.testing.assert_array_equal(carry, np.array([3, 0, 9], np.float16))
        np.testing.assert_array_equal(rows, np.tile(bytes_ + 1, (3, 1)))


def test_a_custom_op_without_a_derivative_is_an_error_and_complex_ones_run() -> None:
    def spun(z: TensorType) -> TensorType:
        """`z` times the imaginary unit."""
        return z

    source = (
        "void spun(const float *z, float *y, int64_t n)"
        "{ for (int64_t i = 0; i < n; ++i) { y[2 * i] = -z[2 * i + 1]; y[2 * i + 1] = z[2 * i]; } }"
    )
    op = define_op(spun, reference=lambda z: z * 1j, c_source=source)
    try:
        z = (normal(5) + 1j * normal(5)).astype(np.complex64)
        g = Graph("spin")
        g.set_outputs([op(g.input("z", (5,), "c64"))])
        assert_compiles_to_the_reference(g, {"z": z})
        real = Graph("real")
        real.set_outputs([real.reduce_sum(real.real(op(real.input("z", (5,), "c64"))), axes=(0,))])
        with pytest.raises(NoRuleError, match="spun"):
            grad_with_loss(real, ["z"])
    finally:
        del OPS["spun"]


# Derivatives and batching


@pytest.mark.slow
def test_a_reduction_over_several_axes_may_be_followed_by_anything() -> None:
    def loss(x: Any) -> Any:
        middle = rnp.max(x, axis=(0, 2)) * rnp.sum(rnp.sin(x), axis=(1, 2), keepdims=True)
        return rnp.sum(rnp.tanh(middle) * rnp.mean(x, axis=(0, 1)))

    assert_derivative(loss, normal(3, 4, 5)[:, :3, :3])
    slope = rlx.grad(lambda x: rnp.max(x) * 2.0)
    thirds = np.array([[2, 2], [2, 0]]) / 3
    for backend in BACKENDS:
        found = rlx.jit(slope, backend=backend)(np.array([[3.0, 3.0], [3.0, 2.0]]))
        np.testing.assert_allclose(found, thirds, rtol=1e-15)


@pytest.mark.slow
def test_rules_of_one_mode_serve_within_control_flow_in_the_other() -> None:
    @rlx.custom_jvp
    def own(x: Any) -> Any:
        return rnp.sin(x)

    @own.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return own(primals[0]), rnp.cos(primals[0]) * tangents[0]

    def loss(x: Any) -> Any:
        def step(c: Any, _: Any) -> tuple[Any, None]:
            return rlx.cond(rnp.sum(c) > 0, own, lambda a: nn.softmax(a), c), None

        return rnp.sum(rlx.scan(step, x, None, length=3)[0] ** 2)

    assert_derivative(loss, np.array([0.3, 0.9, -0.2]))


@pytest.mark.guarantee("Derivatives", "No gradient is dropped silently.")
@pytest.mark.slow
def test_nothing_drops_a_gradient_in_silence() -> None:
    def by_statistics(x: Any, mean: Any, variance: Any) -> Any:
        ones = rnp.ones(3)
        y = nn.batch_norm(x, ones, ones, mean, rnp.exp(variance), layout="NHWC")
        return rnp.sum(y**3)

    def by_tables(x: Any, angle: Any) -> Any:
        turned: Any = emit(ops.rope, x, rnp.cos(angle), rnp.sin(angle), head_dim=4)
        return rnp.sum(turned**3)

    spectrum, filters = normal(1, 16), 0.1 + normal(3, 5) ** 2
    filters[2] *= 1e-12  # below the floor, which moves with the largest level
    given = (spectrum.astype("f4"), filters.astype("f4"))
    for argument, x in enumerate((spectrum, filters)):
        slope = rlx.grad(lambda *at: rnp.sum(emit(ops.log_mel, *at)), argnums=argument)
        direction = normal(*x.shape) * np.abs(x)
        ends = []
        for sign in (1, -1):
            at = [spectrum, filters]
            at[argument] = x + sign * 1e-5 * direction
            ends.append(mel(*at))
        for backend in BACKENDS:
            found = np.sum(rlx.jit(slope, backend=backend)(*given) * direction)
            np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-5, rtol=1e-4)
    assert_derivative(by_statistics, normal(2, 4, 4, 3), normal(3), normal(3))
    assert_derivative(by_tables, normal(3, 8), normal(3, 2))


def test_a_gate_that_comes_first_keeps_its_place_in_derivatives() -> None:
    x, packed = normal(3, 4), normal(4, 6)
    gradients = []
    for gate_first, weights in ((True, packed), (False, np.roll(packed, 3, axis=1))):
        g = Graph("gated")
        product = g.matmul(g.input("x", (3, 4), "f64"), g.input("w", (4, 6), "f64"))
        y = packed_swiglu(product, gate_first=gate_first)
        g.set_outputs([g.reduce_sum(y * y, axes=(0, 1))])
        inputs = {"x": x, "w": weights, "d_output": np.array(1.0)}
        gradients.append(assert_compiles_to_the_reference(grad_with_loss(g, ["x", "w"]), inputs))
    (loss, dx, dw), (same_loss, same_dx, swapped) = gradients
    np.testing.assert_allclose(loss, same_loss, rtol=1e-12)
    np.testing.assert_allclose(dx, same_dx, rtol=1e-12)
    np.testing.assert_allclose(dw, np.roll(swapped, -3, axis=1), rtol=1e-12)


def test_a_value_of_higher_rank_reaches_its_smaller_operand() -> None:
    def loss(x: Any, y: Any) -> Any:
        return rnp.sum(rnp.broadcast_to(x, (2, 3, 4)) * y[:, None] + x)

    assert_derivative(loss, normal(4), normal(2, 4))


def test_gradients_alone_skip_ops_that_have_none() -> None:
    g = Graph("aux")
    x, y = g.input("x", (4,), "f64"), g.input("y", (4,), "f64")
    g.set_outputs([g.reduce_sum(x * x, axes=(0,)), g.cast(y, to="i32")])
    found = grad(g, ["x"])
    (dx,) = evaluate(found, {"x": np.arange(4.0), "y": normal(4), "d_output": np.array(1.0)})
    np.testing.assert_array_equal(dx, 2 * np.arange(4.0))


def test_derivatives_are_of_the_function_itself() -> None:
    x = np.array([-3.0, -0.4, 0.0, 0.7, 2.5])
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    below = np.array([0.5 * (1 + math.erf(v / np.sqrt(2))) for v in x])
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    rise = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2) / np.cosh(inner) ** 2
    near = 0.5 * (1 + np.tanh(inner)) + 0.5 * x * rise
    exact: list[tuple[Callable[..., Any], Array]] = [
        (rnp.tan, 1 + np.tan(x) ** 2),
        (rnp.abs, np.sign(x)),
        (lambda v: nn.gelu(v, approximate=False), below + x * density),
        (lambda v: nn.gelu(v, approximate=True), near),
    ]
    for backend in BACKENDS:
        for f, slope in exact:
            found = rlx.jit(rlx.grad(lambda v, f=f: rnp.sum(f(v))), backend=backend)(x)
            np.testing.assert_allclose(found, slope, rtol=1e-13, atol=1e-15)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", BACKENDS)
def test_examples_with_weights_of_their_own_do_not_mix(backend: str) -> None:
    x, w = normal(3, 1, 2, 6, 6), normal(3, 4, 2, 3, 3)
    gamma, beta = normal(3, 6), normal(3, 6)

    def convolved(x: Any, w: Any) -> Any:
        return nn.conv(x, w, padding=1)

    def normed(x: Any, gamma: Any, beta: Any) -> Any:
        return nn.layer_norm(x, gamma, beta)

    def rounded(x: Any, gamma: Any) -> Any:
        return emit(ops.fake_quantize, x.astype("f4"), bits=8) * gamma[0]

    def adapted(x: Any, gamma: Any, beta: Any) -> Any:
        return x @ (gamma[:, None] * beta)

    programs = ((convolved, (x, w)), (normed, (x, gamma, beta)), (adapted, (x, gamma, beta)))
    for f, args in (
        *programs,
        (rounded, (x * np.array([1, 30, 900])[:, None, None, None, None], gamma)),
    ):
        batched = rlx.jit(rlx.vmap(f), backend=backend)(*args)
        single = [rlx.jit(f, backend="reference")(*(a[i] for a in args)) for i in range(3)]
        np.testing.assert_allclose(batched, np.stack(single), rtol=1e-11, atol=1e-12)
        slope = rlx.grad(lambda *a, f=f: rnp.sum(f(*a) ** 2), argnums=1)
        slopes = rlx.jit(rlx.vmap(slope), backend=backend)(*args)
        each = [rlx.jit(slope, backend="reference")(*(a[i] for a in args)) for i in range(3)]
        np.testing.assert_allclose(slopes, np.stack(each), rtol=1e-10, atol=1e-11)


def test_recurrent_layers_and_branches_are_batched() -> None:
    x, delta, b, c = (normal(3, 1, 4, n) for n in (2, 2, 3, 3))
    a, last = -np.exp(normal(2, 3)), normal(3)

    def mamba(x: Any, delta: Any, b: Any, c: Any, last: Any) -> Any:
        y = emit(ops.selective_scan, x, rnp.exp(delta), a, b, c, state_size=3)
        y = rlx.cond(last > 0, lambda v: v * 2.0, rnp.sin, y)
        return rlx.while_loop(lambda s: rnp.sum(s * s) > 1, lambda s: s * 0.5, y)

    args = (x, delta, b, c, last)
    single = [rlx.jit(mamba, backend="reference")(*(v[i] for v in args)) for i in range(3)]
    for backend in BACKENDS:
        batched = rlx.jit(rlx.vmap(mamba), backend=backend)(*args)
        np.testing.assert_allclose(batched, np.stack(single), rtol=1e-12)


J3: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "scan": (
        lambda x: rlx.fori_loop(0, 3, lambda _, c: rnp.sin(c * c), x).sum(),
        (normal(3),),
    ),
    "scatter add": (
        lambda x: rnp.sum(rnp.zeros(4).at[np.array([0, 2, 0])].add(x) ** 3),
        (normal(3),),
    ),
    "rounding": (
        lambda x: rnp.sum((x * rlx.stop_gradient(rnp.round(x * 8) / 8)) ** 2),
        (normal(3),),
    ),
    "max pool": (lambda x: rnp.sum(nn.max_pool(x, 2) ** 3), (normal(1, 2, 4, 4),)),
    "stop_gradient": (lambda x: rnp.sum(x**3 + rlx.stop_gradient(0 * x)), (normal(3),)),
}


@pytest.mark.parametrize("case", J3)
def test_second_derivatives_pass_through(case: str) -> None:
    f, args = J3[case]
    assert_derivative(f, *args)
