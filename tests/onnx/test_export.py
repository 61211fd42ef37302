"""Graphs of ours as models: checked, read back, and run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import rlx  # noqa: E402
import rlx.numpy as rnp  # noqa: E402
from rlx import lax, nn  # noqa: E402
from rlx.errors import NoRuleError  # noqa: E402
from rlx.ir.reference import evaluate  # noqa: E402
from tests.onnx.models import perceptron  # noqa: E402
from tests.onnx.round_trips import trips  # noqa: E402

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def attention(x: Any, w: Any) -> Any:
    q, k, v = (x @ w[i] for i in range(3))
    return nn.softmax(q @ rnp.swapaxes(k, -1, -2) / 2.0, -1) @ v


def normalized(x: Any, w: Any) -> Any:
    return nn.gelu(nn.layer_norm(x, w[0], w[1]), approximate=False)


def moved(x: Any, w: Any) -> Any:
    rolled = rnp.concatenate([x[:, 1:], x[:, :1]], 1)[::-1]
    return rnp.where(rolled > 0, rnp.pad(w, ((0, 1), (0, 0))), rnp.cumsum(rolled, 0))


def contracted(x: Any, w: Any) -> Any:
    return rnp.einsum("bij,bkj->bik", x, w), rnp.isfinite(x / (x - x[0, 0, 0]))


def statistics(x: Any, w: Any) -> Any:
    return rnp.std(x, 0) + rnp.max(x, 0), rnp.argmax(x * w, -1), nn.silu(rnp.mean(x)) ** 2


def looped(x: Any, w: Any) -> Any:
    """A scan with constants, forward and backward, one without rows, and a loop that may end."""

    def step(state: Any, row: Any) -> Any:
        state = rnp.tanh(state @ w + row)
        return state, state * 2

    def grow(state: Any) -> Any:
        return state[0] + 1, state[1] * 1.5 + w[0]

    last, rows = lax.scan(step, x[0], x)
    first, back = lax.scan(step, x[0], x, reverse=True)
    powers, squares = lax.scan(lambda c, _: (c @ w, c**2), x, None, length=3)
    trips, grown = lax.while_loop(lambda s: rnp.sum(s[1]) < 20, grow, (0, rnp.abs(x[0])))
    return last, rows, first, back, powers, squares, trips, grown


def branched(x: Any, w: Any) -> Any:
    branches = [lambda: x + w, lambda: x * w, lambda: rnp.stack([x[0]] * x.shape[0])]
    found = [lax.switch(rnp.asarray(which), branches) for which in (-1, 1, 2)]
    return *found, lax.cond(rnp.sum(x) > 0, lambda: x, lambda: w)


def indexed(x: Any, w: Any) -> Any:
    rows = rnp.astype(rnp.argsort(x[:, 0]), "i32")
    block = lax.dynamic_slice(x, (rows[0], 1), (2, 2))
    filled = lax.dynamic_update_slice(w, block, (rows[1], 3))
    ends = x.at[rows[:2]].add(w[:2]).at[rows[1:3]].max(w[1:3])
    return block, filled, ends, rnp.sort(x, 1), rlx.grad(lambda t: rnp.sum(t[rows] * w))(x)


def numeric(x: Any, w: Any) -> Any:
    small = rnp.concatenate([x, x * 1e-6, x * 60])
    return rnp.expm1(small), rnp.log1p(rnp.abs(small)), rnp.trunc(w * 3), rnp.exp2(x)


CASES = [
    (attention, floats(2, 5, 4), floats(3, 4, 4)),
    (normalized, floats(3, 6), floats(2, 6)),
    (moved, floats(4, 5), floats(3, 5)),
    (contracted, floats(2, 3, 4), floats(2, 5, 4)),
    (statistics, floats(4, 5), floats(4, 5)),
    (looped, floats(4, 3), 0.5 * floats(3, 3)),
    (branched, floats(3, 4), floats(3, 4)),
    (indexed, floats(4, 4), floats(4, 4)),
    (numeric, floats(3, 4), floats(3, 4)),
]


def computed(function: Any, x: Any, w: Any) -> Any:
    graph, _ = rlx.jit(function).named_graph(x, w)
    return rlx.compile(graph, backend="reference")(x, w)


@pytest.mark.parametrize(("function", "x", "w"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_models_read_back_mean_the_same(function: Any, x: Any, w: Any) -> None:
    model = rlx.onnx.export(rlx.jit(function), example_inputs=(x, w))
    graph = rlx.onnx.load(model)
    feeds = dict(zip([str(v.node.name) for v in graph.inputs], (x, w), strict=True))
    expected = computed(function, x, w)
    for ours, meant in zip(
        rlx.compile(graph, backend="reference").run(feeds), expected, strict=True
    ):
        np.testing.assert_allclose(ours, meant, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("function", "x", "w"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_onnx_runtime_computes_the_same(function: Any, x: Any, w: Any) -> None:
    peer = pytest.importorskip("onnxruntime")
    model = rlx.onnx.export(rlx.jit(function), example_inputs=(x, w))
    session = peer.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    outputs = session.run(None, dict(zip(names, (x, w), strict=True)))
    expected = computed(function, x, w)
    for theirs, meant in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(theirs, meant, rtol=1e-5, atol=1e-5)


def test_a_model_survives_the_way_there_and_back(tmp_path: Path) -> None:
    graph = rlx.onnx.load(perceptron(), dims={"batch": 2})
    rlx.onnx.export(graph, tmp_path / "again.onnx")
    again = rlx.onnx.load(tmp_path / "again.onnx")
    assert again.output_names == ("y",)
    assert list(again.param_values) == ["w.1", "b.1", "w.2"]
    x = floats(2, 4)
    (first,), (second,) = (rlx.compile(g, backend="reference")(x) for g in (graph, again))
    np.testing.assert_array_equal(first, second)


def test_convolutions_and_pooling_keep_their_geometry() -> None:
    graph = rlx.Graph("image")
    x, w = graph.input("x", (1, 2, 9, 8)), graph.input("w", (4, 1, 3, 2))
    y = graph.conv(x, w, stride=(2, 1), padding=((1, 0), (0, 1)), dilation=(1, 2), groups=2)
    pooled = graph.max_pool(y, kernel_size=(2, 2), stride=(2, 2), ceil_mode=True)
    mean = graph.mean_pool(y, kernel_size=(2, 2), padding=((1, 1), (0, 0)), divisor="inside")
    graph.set_outputs([pooled, mean])
    again = rlx.onnx.load(rlx.onnx.export(graph))
    arrays = floats(1, 2, 9, 8), floats(4, 1, 3, 2)
    runs = [rlx.compile(g, backend="reference")(*arrays) for g in (graph, again)]
    for first, second in zip(*runs, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-6)


@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 60), *(pytest.param(n, 150, marks=pytest.mark.slow) for n in range(1000, 1600, 150))],
)
def test_random_programs_come_back_with_their_bits(first: int, count: int) -> None:
    """Programs of the fuzzer; ONNX Runtime computes the same where it is installed."""
    found = trips(range(first, first + count))
    count -= found["beyond"]
    assert sum(n for how, n in found.items() if how.startswith("exact")) > 0.85 * count
    assert found["refused"] < 0.1 * count


@pytest.mark.parametrize("lead", [(3,), (2, 3, 2)])
def test_pools_take_any_axes_in_front_of_their_planes(lead: tuple[int, ...]) -> None:
    graph = rlx.Graph("pools")
    x = graph.input("x", (*lead, 5, 7))
    how: Any = {"kernel_size": (2, 2), "padding": ((0, 1), (0, 1))}
    graph.set_outputs([graph.max_pool(x, **how), graph.mean_pool(x, divisor="inside", **how)])
    again = rlx.onnx.load(rlx.onnx.export(graph))
    given = {"x": floats(*lead, 5, 7)}
    for first, second in zip(evaluate(graph, given), evaluate(again, given), strict=True):
        np.testing.assert_array_equal(first, second)


INTEGERS = np.asarray([-(2**31), -9, -1, 0, 1, 7, 31, 32, 40, 2**31 - 1], np.int32)
FLOATS = np.asarray([-np.inf, -2.5, -0.0, 0.0, 1.5, np.inf, np.nan], np.float32)


KINDS = {"div": "f32 i32 u8 i8", "mod": "f32 i32 u8 i8", "shift_left": "i32 u8 i8",
         "shift_right": "i32 u8 i8", "atan2": "f32"}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, ks in KINDS.items() for k in ks.split()])
def test_values_at_which_operators_leave_off_are_written_out(name: str, kind: str) -> None:
    """Integers divided by zero, the least one by -1, shifts beyond all bits, zeros with signs."""
    dtype = np.dtype({"f32": "f4", "i32": "i4", "u8": "u1", "i8": "i1"}[kind])
    x = FLOATS if kind == "f32" else np.clip(INTEGERS, *limits_of(dtype)).astype(dtype)
    a, b = (np.ascontiguousarray(each) for each in np.meshgrid(x, x))
    graph = rlx.Graph("ends")
    left, right = graph.input("a", a.shape, kind), graph.input("b", b.shape, kind)
    graph.set_outputs([getattr(graph, name)(left, right)])
    again = rlx.onnx.load(rlx.onnx.export(graph))
    with np.errstate(all="ignore"):
        (ours,), (theirs,) = (rlx.compile(g, backend="reference")(a, b) for g in (graph, again))
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(theirs, ours, rtol=2e-7 if name == "atan2" else 0)
    np.testing.assert_array_equal(np.signbit(theirs[ours == 0]), np.signbit(ours[ours == 0]))


def limits_of(dtype: Any) -> tuple[int, int]:
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def test_integers_are_whole_and_logarithms_of_minus_infinity_are_none() -> None:
    graph = rlx.Graph("ends")
    n, x = graph.input("n", (10,), "i32"), graph.input("x", (7,))
    rounded = [getattr(graph, name)(n) for name in ("ceil", "floor", "round", "trunc")]
    graph.set_outputs([*rounded, graph.log1p(x)])
    again = rlx.onnx.load(rlx.onnx.export(graph))
    with np.errstate(all="ignore"):
        found = rlx.compile(again, backend="reference")(INTEGERS, FLOATS)
        expected = [INTEGERS] * 4 + [np.log1p(FLOATS)]
    for ours, numpys in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, numpys, rtol=1e-6)


def test_dtypes_that_operators_do_not_take_are_computed_in_wider_ones() -> None:
    graph = rlx.Graph("narrow")
    x = graph.input("x", (2, 3), "bf16")
    flags = graph.input("flags", (3, 3), "bool")
    graph.set_outputs([graph.asinh(x), graph.maximum(flags, flags)])
    again = rlx.onnx.load(rlx.onnx.export(graph))
    given = floats(2, 3).astype(graph.inputs[0].dtype.numpy), floats(3, 3) > 0
    runs = [rlx.compile(g, backend="reference")(*given) for g in (graph, again)]
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)
    graph = rlx.Graph("refused")
    y = graph.input("y", (2,), "bf16")
    graph.set_outputs([graph.atan2(y, y)])
    with pytest.raises(NoRuleError, match=r"(?s)Atan of ONNX takes no bf16.*test_export\.py"):
        rlx.onnx.export(graph)


def test_a_scan_of_no_steps_keeps_the_types_of_its_rows() -> None:
    def none(x: Any) -> Any:
        return lax.scan(lambda c, _: (c * 2, rnp.astype(c > 0, "i32")), x, None, length=0)

    x = floats(3)
    again = rlx.onnx.load(rlx.onnx.export(rlx.jit(none), example_inputs=(x,)))
    last, rows = rlx.compile(again, backend="reference")(x)
    np.testing.assert_array_equal(last, x)
    assert rows.shape == (0, 3)
    assert rows.dtype == np.dtype(np.int32)


def test_what_onnx_cannot_say_is_an_error_with_the_op_and_the_line() -> None:
    graph = rlx.Graph("swept")
    x = graph.input("x", (4, 4))
    graph.set_outputs([graph.cholesky(x)])
    with pytest.raises(NoRuleError, match=r"(?s)cholesky has no form in ONNX.*test_export\.py"):
        rlx.onnx.export(graph)
