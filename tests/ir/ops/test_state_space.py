"""Recurrent layers against known values."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, Extent
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.vmap import vmap
from tests.loop_programs import Array, everywhere, graph_of

ONE = {"d_output": np.float32(1)}


def ramp(start: float, step: float, shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape))
    return (start + step * np.arange(count)).astype(np.float32).reshape(shape)


def types_of(feeds: dict[str, Array]) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (array.shape, "f32") for name, array in feeds.items()}


def mamba(feeds: dict[str, Array], size: int, *, loss: bool = False) -> Graph:
    def layer(*given: Value) -> Value:
        y = ops.selective_scan(*given, state_size=size)
        return ops.reduce_sum(y, axes=(0, 1, 2)) if loss else y

    return graph_of("mamba", types_of(feeds), layer)


def mamba_feeds() -> dict[str, Array]:
    return {
        "x": ramp(0.1, 0.05, (1, 4, 2)),
        "delta": ramp(0.1, 0.02, (1, 4, 2)),
        "a": ramp(-0.5, 0.1, (2, 3)),
        "b": ramp(0.1, 0.03, (1, 4, 3)),
        "c": ramp(0.2, 0.04, (1, 4, 3)),
    }


def test_selective_scan_of_one_state() -> None:
    feeds = {
        "x": np.array([1, 2, 3, 4], np.float32).reshape(1, 2, 2),
        "delta": np.array([0.1, 0.2, 0.3, 0.4], np.float32).reshape(1, 2, 2),
        "a": np.array([[-1], [-2]], np.float32),
        "b": np.array([0.5, 0.6], np.float32).reshape(1, 2, 1),
        "c": np.array([1, 1.5], np.float32).reshape(1, 2, 1),
    }
    (y,) = everywhere(mamba(feeds, 1), feeds, rtol=1e-5)
    np.testing.assert_allclose(y.ravel(), [0.05, 0.2, 0.8655614, 1.5747988], rtol=1e-5)


def test_selective_scan_of_two_states() -> None:
    ones = np.ones((1, 2, 2), np.float32)
    feeds = {
        "x": ones, "delta": ones, "a": -np.ones((2, 2), np.float32),
        "b": np.array([1, 0, 0, 1], np.float32).reshape(1, 2, 2), "c": ones,
    }  # fmt: skip
    (y,) = everywhere(mamba(feeds, 2), feeds, rtol=1e-5)
    np.testing.assert_allclose(y.ravel(), [1, 1, 1.3678794, 1.3678794], rtol=1e-6)


def test_selective_scan_is_its_recurrence() -> None:
    rng = np.random.default_rng(7)
    x, delta = rng.standard_normal((1, 4, 3)), 0.05 * rng.uniform(-1, 1, (1, 4, 3))
    a, (b, c) = -rng.uniform(0.1, 0.6, (3, 2)), rng.standard_normal((2, 1, 4, 2))
    state, expected = np.zeros((3, 2)), []
    for t in range(4):
        decay = np.exp(delta[0, t, :, None] * a)
        state = decay * state + delta[0, t, :, None] * b[0, t] * x[0, t, :, None]
        expected.append((c[0, t] * state).sum(axis=1))
    values = {"x": x, "delta": delta, "a": a, "b": b, "c": c}
    feeds = {name: array.astype(np.float32) for name, array in values.items()}
    (y,) = everywhere(mamba(feeds, 2), feeds, rtol=1e-5)
    np.testing.assert_allclose(y[0], expected, atol=1e-5)


def test_selective_scan_and_its_gradient() -> None:
    feeds = mamba_feeds()
    (y,) = everywhere(mamba(feeds, 3), feeds, rtol=1e-5)
    wanted = [0.00096, 0.001728, 0.0080746, 0.0121389, 0.0342544, 0.0472873, 0.1028431, 0.1358337]
    np.testing.assert_allclose(y.ravel(), wanted, rtol=1e-5, atol=1e-7)
    step = grad_with_loss(mamba(feeds, 3, loss=True), list(feeds))
    _, dx, ddelta, da, db, dc = everywhere(step, feeds | ONE, rtol=1e-5)
    np.testing.assert_allclose(
        da.ravel(),
        [0.003422089, 0.004355615, 0.005428144, 0.005759230, 0.007418006, 0.009341056],
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        dx.ravel(),
        [0.059211867, 0.077629375, 0.123107332, 0.150013737, 0.173394070, 0.199488104,
         0.158928, 0.173376],
        rtol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(
        ddelta.ravel(),
        [0.059211867, 0.097036719, 0.173997099, 0.233635218, 0.280753660, 0.346196031,
         0.273790459, 0.320120762],
        rtol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(db[0, 3], [0.10976, 0.1176, 0.12544], rtol=1e-5)
    np.testing.assert_allclose(dc[0, 0], [0.0028, 0.00364, 0.00448], rtol=1e-5)


def test_selective_scan_of_no_steps_is_empty() -> None:
    feeds = {name: array[:, :0] for name, array in mamba_feeds().items() if name != "a"}
    ordered = {"x": feeds["x"], "delta": feeds["delta"], "a": mamba_feeds()["a"]} | feeds
    assert evaluate(mamba(ordered, 3), ordered)[0].shape == (1, 0, 2)


def test_selective_scan_refuses_a_wrong_state_size() -> None:
    with pytest.raises(ShapeError, match=r"a has shape \(2, 3\); it must be \(2, 4\)"):
        mamba(mamba_feeds(), 4)


def delta_feeds(steps: int = 4) -> dict[str, Array]:
    whole = {
        "q": ramp(0.05, 0.03, (1, 4, 2, 3)),
        "k": ramp(0.10, 0.02, (1, 4, 2, 3)),
        "v": ramp(0.30, 0.05, (1, 4, 2, 3)),
        "g": ramp(-0.20, -0.01, (1, 4, 2)),
        "beta": ramp(0.40, 0.02, (1, 4, 2)),
    }
    return {name: array[:, :steps] for name, array in whole.items()}


def delta_net(feeds: dict[str, Array]) -> Graph:
    return graph_of(
        "delta", types_of(feeds), lambda *given: ops.gated_delta_net(*given, state_size=3)
    )


def test_gated_delta_net_gives_outputs_and_the_last_state() -> None:
    feeds = delta_feeds()
    y, state = everywhere(delta_net(feeds), feeds, rtol=1e-5)
    np.testing.assert_allclose(
        y[0].reshape(4, 6),
        [
            [0.0020785, 0.0024249, 0.0027713, 0.0101481, 0.0112756, 0.0124032],
            [0.0335850, 0.0367895, 0.0399940, 0.0774197, 0.0832227, 0.0890256],
            [0.1550629, 0.1651211, 0.1751792, 0.2697931, 0.2844718, 0.2991505],
            [0.4298395, 0.4502486, 0.4706578, 0.6299890, 0.6558469, 0.6817049],
        ],
        rtol=1e-5,
        atol=1e-7,
    )
    np.testing.assert_allclose(state[0, 0, 0], [0.3789508, 0.3967715, 0.4145922], rtol=1e-5)
    np.testing.assert_allclose(state[0, 1, 2], [0.5350989, 0.5571887, 0.5792785], rtol=1e-5)


def test_gradient_of_gated_delta_net() -> None:
    feeds = delta_feeds()

    def loss(*given: Value) -> Value:
        return ops.reduce_sum(ops.gated_delta_net(*given, state_size=3)[0], axes=(0, 1, 2, 3))

    step = grad_with_loss(graph_of("loss", types_of(feeds), loss), list(feeds))
    _, dq, dk, dv, dg, dbeta = everywhere(step, feeds | ONE, rtol=2e-5)
    np.testing.assert_allclose(dq[0, 0, 0], [0.024248711, 0.029098454, 0.033948196], rtol=1e-5)
    np.testing.assert_allclose(
        dg.ravel(),
        [0, 0, 0.048122678, 0.112167296, 0.201825990, 0.332534770, 0.344251173, 0.459862672],
        rtol=1e-5,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        dbeta.ravel(),
        [0.138493229, 0.347605353, 0.591117232, 0.987121047, 1.232027135, 1.721734529,
         1.563506190, 2.028302064],
        rtol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose([dk.sum(), dv.sum()], [9.604388527, 4.889124881], rtol=1e-5)


def test_two_carried_calls_are_one_long_call() -> None:
    whole = delta_feeds()
    y, state = evaluate(delta_net(whole), whole)
    first = delta_feeds(2)
    y1, middle = evaluate(delta_net(first), first)
    second = {name: array[:, 2:] for name, array in whole.items()} | {"state": middle}
    y2, last = evaluate(delta_net(second), second)
    np.testing.assert_allclose(np.concatenate([y1, y2], axis=1), y, rtol=1e-6)
    np.testing.assert_allclose(last, state, rtol=1e-6)


def test_the_state_starts_anew_for_every_batch_row() -> None:
    feeds = {name: np.concatenate([a, a]) for name, a in delta_feeds().items()}
    y, _ = everywhere(delta_net(feeds), feeds, rtol=1e-5)
    np.testing.assert_array_equal(y[0], y[1])


def test_batched_calls_are_the_calls_one_by_one() -> None:
    feeds = mamba_feeds()
    batch = {name: np.stack([a, a * 0.5]) for name, a in feeds.items()}
    batched = vmap(mamba(feeds, 3), [0] * 5, size=2)
    (found,) = everywhere(batched, batch, rtol=1e-5)
    for index in range(2):
        one = {name: array[index] for name, array in batch.items()}
        np.testing.assert_allclose(found[index], evaluate(mamba(feeds, 3), one)[0], rtol=1e-5)


def symbolic(op: str, batch: Extent, steps: Extent, heads: Extent, *, loss: bool = False) -> Graph:
    g = Graph("symbolic")
    if op == "selective_scan":
        x, delta = (g.input(name, (batch, steps, heads)) for name in ("x", "delta"))
        a = g.input("a", (heads, 3))
        b, c = (g.input(name, (batch, steps, 3)) for name in "bc")
        outputs: tuple[Value, ...] = (g.selective_scan(x, delta, a, b, c, state_size=3),)
    else:
        q, k, v = (g.input(name, (batch, steps, heads, 3)) for name in "qkv")
        gate, beta = (g.input(name, (batch, steps, heads)) for name in ("gate", "beta"))
        outputs = g.gated_delta_net(q, k, v, gate, beta, state_size=3)
    if loss:
        sums = [ops.reduce_sum(o * o, axes=tuple(range(o.rank))) for o in outputs]
        outputs = (functools.reduce(ops.add, sums),)
    g.set_outputs(outputs)
    return g


def at_extent(graph: Graph, size: int) -> dict[str, Array]:
    shapes = {
        str(x.node.name): tuple(e if isinstance(e, int) else size for e in x.shape)
        for x in graph.inputs
    }
    return {name: ramp(-0.3, 0.01, shape) for name, shape in shapes.items()}


N = rlx.Dim("n", max=4)
SYMBOLIC = [(N, 5, 2), (2, N, 2), (2, 5, N), (N, N, N)]


@pytest.mark.parametrize("extents", SYMBOLIC, ids=["batch", "steps", "heads", "all"])
@pytest.mark.parametrize("op", ["selective_scan", "gated_delta_net"])
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_extents_may_be_symbolic(backend: str, op: str, extents: tuple[Extent, ...]) -> None:
    graph = symbolic(op, *extents)
    compiled = rlx.compile(graph, backend=backend)
    for size in (0, 1, 3, 4):
        feeds = at_extent(graph, size)
        fixed = symbolic(op, *(e if isinstance(e, int) else size for e in extents))
        for got, expected in zip(compiled.run(feeds), evaluate(fixed, feeds), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["selective_scan", "gated_delta_net"])
def test_gradients_over_symbolic_steps_are_those_of_the_steps_that_run(op: str) -> None:
    def gradient(steps: Extent) -> Graph:
        graph = symbolic(op, 2, steps, 2, loss=True)
        return grad_with_loss(graph, [str(leaf.node.name) for leaf in graph.inputs])

    graph = gradient(N)
    compiled = rlx.compile(graph)
    for size in (0, 1, 3, 4):
        feeds = at_extent(graph, size)
        for got, expected in zip(compiled.run(feeds), evaluate(gradient(size), feeds), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def by_steps(*given: Any) -> Any:
    """The delta rule as it is defined, in f64."""
    q, k, v, g, beta, state = given
    state, out = state.astype(np.float64), []
    for t in range(q.shape[1]):
        state = state * np.exp(g[:, t])[..., None, None]
        read = np.einsum("bhk,bhkv->bhv", k[:, t], state)
        state = state + np.einsum("bhk,bhv->bhkv", k[:, t], beta[:, t, :, None] * (v[:, t] - read))
        out.append(np.einsum("bhk,bhkv->bhv", q[:, t], state) / np.sqrt(q.shape[-1]))
    return np.stack(out, axis=1), state


@pytest.mark.parametrize("steps", [8, 64, 65, 150])
@pytest.mark.parametrize("symbolic", [False, True])
def test_chunks_of_the_delta_rule_are_its_steps(steps: int, symbolic: bool) -> None:
    """With gates that forget nothing and all, and fewer steps than there may be."""
    rng = np.random.default_rng(steps)
    q, k, v = (rng.standard_normal((1, steps, 2, 8)).astype(np.float32) for _ in range(3))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    g = -rng.choice([0.0, 0.1, 3.0, 200.0], (1, steps, 2)).astype(np.float32)
    beta = rng.random((1, steps, 2), np.float32)
    state = rng.standard_normal((1, 2, 8, 8)).astype(np.float32)
    extent: Extent = Dim("steps", max=200) if symbolic else steps
    graph = Graph("delta")
    given = [
        graph.input(name, (1, extent, *array.shape[2:]))
        for name, array in (("q", q), ("k", k), ("v", v), ("g", g), ("beta", beta))
    ]
    given.append(graph.input("state", state.shape))
    graph.set_outputs(ops.gated_delta_net(*given, state_size=8))
    feeds = [q, k, v, g, beta, state]
    expected = by_steps(*feeds)
    for found, wanted in zip(rlx.compile(graph)(*feeds), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_gradient_through_chunks_is_that_through_steps() -> None:
    """A sum of results by the gate of each step, against differences in f64."""
    rng = np.random.default_rng(0)
    shapes = {"q": (1, 12, 1, 4), "k": (1, 12, 1, 4), "v": (1, 12, 1, 4), "g": (1, 12, 1),
              "beta": (1, 12, 1)}  # fmt: skip
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    feeds["g"] = -np.abs(feeds["g"])
    feeds["k"] /= np.linalg.norm(feeds["k"], axis=-1, keepdims=True)

    def loss(*given: Value) -> Value:
        return ops.reduce_sum(ops.gated_delta_net(*given, state_size=4)[0], axes=(0, 1, 2, 3))

    step = grad_with_loss(graph_of("loss", types_of(feeds), loss), list(feeds))
    _, *found = rlx.compile(step)(*feeds.values(), np.float32(1))
    zero = np.zeros((1, 1, 4, 4))
    for name, gradient in zip(feeds, found, strict=True):
        for at in [(0, 0, 0), (0, 5, 0), (0, 11, 0)]:
            sums = []
            for change in (1e-5, -1e-5):
                moved = {key: value.astype(np.float64) for key, value in feeds.items()}
                moved[name][at] += change
                sums.append(by_steps(*moved.values(), zero)[0].sum())
            wanted = (sums[0] - sums[1]) / 2e-5
            np.testing.assert_allclose(gradient[at].sum(), wanted, rtol=1e-3, atol=1e-3)
