"""Scans that keep their carries, and explicit reverse sweeps, against plain loops."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from rlx.errors import GraphError, RlxError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.segments import checkpoint_steps
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad, grad_with_loss, hvp, jvp
from rlx.passes.vmap import vmap
from tests.loop_programs import Array, everywhere, f64, graph_of
from tests.passes.vmap.checking import assert_is_loop

LENGTH = 11
RNG = np.random.default_rng(3)
FEEDS = {
    "init": RNG.standard_normal(2),
    "ws": np.repeat(RNG.standard_normal((1, 2)), LENGTH, 0),
    "xs": RNG.standard_normal((LENGTH, 2)),
}
UPSTREAM = RNG.standard_normal((LENGTH, 2))


def cell() -> Graph:
    """`tanh(c * w + x + 0.3)`, nonlinear in everything."""
    types = dict.fromkeys(("c", "w", "x"), ((2,), "f64"))
    return graph_of("cell", types, lambda c, w, x: ops.tanh(c * w + x + 0.3))


@functools.cache
def pullback() -> Graph:
    return grad(cell(), ["c", "w", "x"])


def carries() -> Array:
    carry, rows = FEEDS["init"], []
    for w, x in zip(FEEDS["ws"], FEEDS["xs"], strict=True):
        carry = np.tanh(carry * w + x + 0.3)
        rows.append(carry)
    return np.array(rows)


def kept_graph(checkpoints: int) -> Graph:
    types = {name: (array.shape, "f64") for name, array in FEEDS.items()}
    return graph_of(
        "kept",
        types,
        lambda c, w, x: ops.scan_trajectory(
            c, w, x, body=cell(), length=LENGTH, num_checkpoints=checkpoints
        ),
    )


@pytest.mark.parametrize(
    ("length", "count", "steps"),
    [(5, 2, [2, 4]), (7, 3, [2, 4, 6]), (10, 3, [3, 6, 9]), (10, 4, [2, 4, 7, 9]), (6, 2, [2, 5])],
)
def test_checkpoints_are_at_these_steps(length: int, count: int, steps: list[int]) -> None:
    assert checkpoint_steps(length, count) == steps


@pytest.mark.parametrize("checkpoints", range(LENGTH + 1))
def test_a_trajectory_has_the_rows_of_its_checkpoints(checkpoints: int) -> None:
    found = evaluate(kept_graph(checkpoints), FEEDS)[0]
    assert found.shape == (checkpoints or LENGTH, 2)
    np.testing.assert_array_equal(found, carries()[checkpoint_steps(LENGTH, checkpoints)])


@pytest.mark.parametrize("checkpoints", [0, 1, 4, 7, 11])
def test_a_trajectory_runs_natively(checkpoints: int) -> None:
    everywhere(kept_graph(checkpoints), FEEDS)


def sweep_graph(checkpoints: int, upstream: tuple[int, ...], *, saved: bool = True) -> Graph:
    """Return trajectory, dinit and the gradients of both scanned operands."""
    types = {name: (array.shape, "f64") for name, array in FEEDS.items()}

    def formula(c: Value, w: Value, x: Value, u: Value) -> list[Value]:
        options: dict[str, Any] = {"length": LENGTH, "num_checkpoints": checkpoints}
        kept = ops.scan_trajectory(c, w, x, body=cell(), **options)
        options |= {"body_vjp": pullback(), "forward_body": cell(), "save_trajectory": saved}
        first = ops.scan_backward(c, kept, u, w, x, **options)
        rows = [ops.scan_backward_xs(c, kept, u, w, x, xs_idx=i, **options) for i in range(2)]
        return [first, *rows]

    return graph_of("sweep", types | {"upstream": (upstream, "f64")}, formula)


@functools.cache
def plain_sweep(everywhere_added: bool, checkpoints: int) -> list[Array]:
    """Return dinit and both row gradients, by a loop over the pullback."""
    steps = range(LENGTH) if everywhere_added else checkpoint_steps(LENGTH, checkpoints)
    added = dict(zip(steps, UPSTREAM, strict=False))
    entering, d = np.concatenate([FEEDS["init"][None], carries()]), np.zeros(2)
    rows: list[list[Array]] = []
    for t in reversed(range(LENGTH)):
        d = d + added[t] if t in added else d
        given = {"c": entering[t], "w": FEEDS["ws"][t], "x": FEEDS["xs"][t], "d_output": d}
        d, *dx = evaluate(pullback(), given)
        rows.insert(0, dx)
    return [d, np.array([dw for dw, _ in rows]), np.array([dx for _, dx in rows])]


@pytest.mark.parametrize("checkpoints", range(LENGTH + 1))
@pytest.mark.parametrize("every_step", [True, False])
def test_a_sweep_gives_the_bits_of_a_loop_from_any_checkpoints(
    checkpoints: int, every_step: bool
) -> None:
    rows = LENGTH if every_step else checkpoints or LENGTH
    found = evaluate(sweep_graph(checkpoints, (rows, 2)), FEEDS | {"upstream": UPSTREAM[:rows]})
    expected = plain_sweep(every_step or rows == LENGTH, checkpoints)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("checkpoints", [0, 4])
def test_a_sweep_from_the_last_carry_is_the_gradient_of_the_scan(checkpoints: int) -> None:
    types = {name: (array.shape, "f64") for name, array in FEEDS.items()}

    def last(c: Value, w: Value, x: Value) -> Value:
        carry: Value = ops.scan(c, w, x, body=cell(), length=LENGTH, num_carries=1)[0]
        return carry

    scanned = grad_with_loss(graph_of("last", types, last), list(FEEDS))
    expected = evaluate(scanned, FEEDS | {"d_output": UPSTREAM[0]})[1:]
    graph = sweep_graph(checkpoints, (2,), saved=False)
    for a, b in zip(everywhere(graph, FEEDS | {"upstream": UPSTREAM[0]}), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def counting() -> Graph:
    return graph_of("count", {"c": ((2,), "f64")}, lambda c: c + 1.0)


@pytest.mark.parametrize("checkpoints", [0, 2])
def test_a_hand_built_sweep(checkpoints: int) -> None:
    def formula(init: Value, upstream: Value) -> list[Value]:
        options: dict[str, Any] = {"length": 4, "num_checkpoints": checkpoints}
        kept = ops.scan_trajectory(init, body=counting(), **options)
        sweep = {"body_vjp": grad(counting(), ["c"]), "forward_body": counting()}
        return [
            kept,
            ops.scan_backward(init, kept, upstream, save_trajectory=True, **sweep, **options),
        ]

    graph = graph_of("hand", {"init": ((2,), "f64"), "upstream": ((4, 2), "f64")}, formula)
    feeds = {"init": f64(0.5, -0.5), "upstream": 0.1 * np.arange(8.0).reshape(4, 2)}
    kept, found = everywhere(graph, feeds)
    assert kept.shape == (checkpoints or 4, 2)
    np.testing.assert_allclose(found, [1.2, 1.6], rtol=1e-12)


def test_consts_are_between_carry_and_rows() -> None:
    types = {"c": ((), "f64"), "k": ((), "f64"), "x": ((), "f64")}
    body = graph_of("affine", types, lambda c, k, x: c * k + x)
    graph = graph_of(
        "kept",
        {"c": ((), "f64"), "k": ((), "f64"), "xs": ((5,), "f64")},
        lambda c, k, xs: ops.scan_trajectory(
            c, k, xs, body=body, length=5, num_consts=1, num_checkpoints=2
        ),
    )
    feeds = {"c": f64(1.0), "k": f64(2.0), "xs": f64(1, 2, 3, 4, 5)}
    np.testing.assert_array_equal(everywhere(graph, feeds)[0], [8 + 4 + 4 + 3, 19 * 4 + 8 + 5])


def test_a_trajectory_of_no_steps_is_empty_and_its_sweep_gives_zeros() -> None:
    def formula(init: Value, upstream: Value) -> list[Value]:
        kept = ops.scan_trajectory(init, body=counting(), length=0)
        sweep = {"body_vjp": grad(counting(), ["c"]), "length": 0, "save_trajectory": True}
        return [kept, ops.scan_backward(init, kept, upstream, **sweep)]

    graph = graph_of("none", {"init": ((2,), "f64"), "upstream": ((0, 2), "f64")}, formula)
    kept, found = everywhere(graph, {"init": f64(1, 2), "upstream": np.zeros((0, 2))})
    assert kept.shape == (0, 2)
    np.testing.assert_array_equal(found, [0, 0])


@pytest.mark.parametrize("dtype", ["f16", "f32", "c64"])
def test_carries_of_other_dtypes_are_added_in_their_own(dtype: str) -> None:
    types = {"c": ((3,), dtype)}
    body = graph_of("scale", types, lambda c: c * 0.5)

    def formula(init: Value, upstream: Value) -> Value:
        kept = ops.scan_trajectory(init, body=body, length=3)
        sweep = {"body_vjp": grad(body, ["c"]), "length": 3, "save_trajectory": True}
        return ops.scan_backward(init, kept, upstream, **sweep)

    graph = graph_of("typed", {"init": ((3,), dtype), "upstream": ((3, 3), dtype)}, formula)
    kind = graph.inputs[0].dtype.numpy
    feeds = {"init": np.ones(3, kind), "upstream": np.arange(9).reshape(3, 3).astype(kind)}
    expected = [0 / 2 + 3 / 4 + 6 / 8, 1 / 2 + 4 / 4 + 7 / 8, 2 / 2 + 5 / 4 + 8 / 8]
    np.testing.assert_array_equal(everywhere(graph, feeds)[0], np.array(expected, kind))


# Transformations of what is kept


@pytest.mark.parametrize("checkpoints", [0, 4])
def test_a_trajectory_has_derivatives(checkpoints: int) -> None:
    types = {name: (array.shape, "f64") for name, array in FEEDS.items()}

    def loss(c: Value, w: Value, x: Value) -> Value:
        kept = ops.scan_trajectory(c, w, x, body=cell(), length=LENGTH, num_checkpoints=checkpoints)
        return ops.reduce_sum(kept * kept, axes=(0, 1))

    graph = graph_of("loss", types, loss)
    pulled = everywhere(grad_with_loss(graph, list(FEEDS)), FEEDS | {"d_output": f64(1.0)})[1:]
    tangents = {name: np.cos(array) for name, array in FEEDS.items()}
    pushed = evaluate(
        jvp(graph, list(FEEDS)), FEEDS | {f"tangent_{n}": t for n, t in tangents.items()}
    )[1]
    total = sum((d * t).sum() for d, t in zip(pulled, tangents.values(), strict=True))
    np.testing.assert_allclose(total, pushed, rtol=1e-12)


@pytest.mark.parametrize("checkpoints", [0, 4])
def test_a_sweep_may_be_differentiated_again(checkpoints: int) -> None:
    graph = sweep_graph(checkpoints, (2,), saved=False)
    squared = ops.reduce_sum(graph.outputs[0] * graph.outputs[0], axes=(0,))
    graph.set_outputs([squared])
    names = ["init", "xs", "upstream"]
    feeds = FEEDS | {"upstream": UPSTREAM[0]}
    pulled = evaluate(grad_with_loss(graph, names), feeds | {"d_output": f64(1.0)})[1:]
    for name, found in zip(names, pulled, strict=True):
        direction = np.cos(feeds[name])
        ends = [
            evaluate(graph, feeds | {name: feeds[name] + h * direction})[0] for h in (1e-6, -1e-6)
        ]
        slope = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose((found * direction).sum(), slope, rtol=1e-6)
    hvp(graph, names)  # forward over reverse is built, too


@pytest.mark.parametrize("checkpoints", [0, 4])
def test_a_batched_sweep_is_a_loop_that_keeps_its_checkpoints(checkpoints: int) -> None:
    graph = sweep_graph(checkpoints, (LENGTH, 2))
    feeds = FEEDS | {"upstream": UPSTREAM}
    batch = {name: np.stack([a, np.sin(a), 2 * a]) for name, a in feeds.items()}
    assert_is_loop(graph, batch, dict.fromkeys(batch, 0), 3)
    kept = vmap(kept_graph(4), {"init": 0}, size=3)
    assert kept.outputs[0].shape == (3, 4, 2)


# Refusals


def sweep(**changes: Any) -> Any:
    """Append a sweep over 4 steps with 2 rows, with some arguments changed."""
    graph = Graph("refused")
    types = {"init": (2,), "trajectory": (2, 2), "upstream": (4, 2)} | changes.pop("shapes", {})
    operands = [graph.input(name, shape, "f64") for name, shape in types.items()]
    options = {
        "body_vjp": grad(counting(), ["c"]), "length": 4, "save_trajectory": True,
        "num_checkpoints": 2, "forward_body": counting(),
    }  # fmt: skip
    definition = ops.scan_backward_xs if "xs_idx" in changes else ops.scan_backward
    return definition(*operands, **(options | changes))


REFUSED: dict[str, tuple[dict[str, Any], type[RlxError], str]] = {
    "more checkpoints than steps": (
        {"num_checkpoints": 5}, GraphError, r"num_checkpoints is 5; it must be in 0..4",
    ),
    "no forward body": ({"forward_body": None}, GraphError, "forward_body is missing"),
    "another number of rows": (
        {"shapes": {"trajectory": (3, 2)}}, ShapeError,
        r"trajectory has type f64\[3, 2\]; it must be f64\[2, 2\]",
    ),
    "upstream of other rows": (
        {"shapes": {"upstream": (3, 2)}}, ShapeError,
        r"upstream has type f64\[3, 2\]; it must be f64\[4, 2\] or f64\[2, 2\]",
    ),
    "upstream of another shape": (
        {"save_trajectory": False}, ShapeError, r"upstream has type f64\[4, 2\]; .* f64\[2\]",
    ),
    "a pullback without seed": (
        {"body_vjp": counting()}, GraphError, "body 'count' has no input called 'd_output'",
    ),
    "a pullback of a body with rows": (
        {"body_vjp": pullback()}, GraphError, "takes 4 inputs; it must take the carry, 0 rows",
    ),
    "a pullback that returns too much": (
        {"body_vjp": grad_with_loss(counting(), ["c"])}, GraphError,
        r"returns f64\[2\], f64\[2\]; it must return the cotangents of carry and rows, f64\[2\]",
    ),
    "no such rows": ({"xs_idx": 0}, GraphError, "xs_idx is 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_sweep_is_refused(case: str) -> None:
    changes, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        sweep(**dict(changes))


def test_a_trajectory_refuses_rows_of_another_number() -> None:
    with pytest.raises(ShapeError, match=r"has shape \(3, 2\); it must have 4 rows"):
        graph_of(
            "kept",
            {"c": ((2,), "f64"), "xs": ((3, 2), "f64")},
            lambda c, xs: ops.scan_trajectory(c, xs, body=cell(), length=4),
        )
