"""Loop nests: bodies too large for registers are one kernel on local buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.codegen.loops.nodes import For, Local, LoopKind, While
from rlx.codegen.loops.visit import walk
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.types import TensorType
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.loops.nests import LARGEST_NEST, fits_nest
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.codegen.kernels.test_small_loops import Step, feeds_of, looped
from tests.loop_programs import Types, everywhere, graph_of

Shaped = tuple[tuple[int, ...], str]
F: Shaped = ((9, 10), "f64")
BODIES: Shaped = ((12, 3), "f64")


def pull(at: Value, moving: Value, masses: Value) -> list[Value]:
    """A step of bodies that attract each other: pairs, sums over a short and a long axis."""
    apart = ops.reshape(at, shape=(1, 12, 3)) - ops.reshape(at, shape=(12, 1, 3))
    squared = ops.reduce_sum(apart * apart, axes=(2,)) + 0.05
    weights = ops.reshape(masses, shape=(1, 12)) / (squared * ops.sqrt(squared))
    force = ops.reduce_sum(ops.reshape(weights, shape=(12, 12, 1)) * apart, axes=(1,))
    faster = moving + 0.01 * force
    return [at + 0.01 * faster, faster]


def layer(c: Value, w: Value, bias: Value, x: Value) -> list[Value]:
    """A recurrent cell: a product over a long axis, a function of the library, a row of results."""
    hidden = ops.tanh(ops.matmul(c, w) + bias + x)
    return [hidden, ops.reduce_max(hidden, axes=(1,))]


def moved(c: Value, x: Value) -> list[Value]:
    """Movement of every kind, read by elementwise ops and by each other."""
    rolled = ops.concat(
        ops.narrow(c, axis=1, start=4, length=6), ops.narrow(c, axis=1, start=0, length=4), axis=1
    )
    turned = ops.reverse(ops.transpose(ops.reshape(c, shape=(10, 9)), perm=(1, 0)), axes=(0,))
    inner = ops.slice(c, start=(1, 0), stop=(8, 10), step=(2, 3))
    padded = ops.pad(inner, low=(2, 3), high=(3, 3), value=1.5)
    counts = ops.cast(c.graph.iota(type=TensorType(DType.I64, (9, 10)), axis=1), to="f64")
    chosen = ops.where(ops.gt(c, 0.1), rolled * x, turned - 0.01 * counts)
    return [chosen * 0.5 + padded * 0.25, ops.transpose(chosen, perm=(1, 0))]


def folded(c: Value, x: Value) -> list[Value]:
    """Reductions along rows, columns and everything, kept and dropped, of every kind."""
    rows = ops.reduce_mean(c, axes=(1,), keepdims=True)
    columns = ops.reduce_min(c * x, axes=(0,))
    scale = ops.reduce_sum(c, axes=(0, 1)) * 0.01
    product = ops.reduce_prod(ops.narrow(c, axis=1, start=0, length=6), axes=(1,))
    following = c * 0.5 + rows - 0.1 * columns + scale
    return [following, ops.reshape(product, shape=(9, 1)) + ops.reduce_max(c, axes=(0, 1))]


def exchanged(a: Value, b: Value, w: Value) -> list[Value]:
    """Each carry's next value reads the other one; one of them is a count."""
    return [ops.matmul(b, w) * 0.3, a + 1.0]


def split(c: Value, x: Value) -> list[Value]:
    """Reshapes that merge and split axes."""
    cubes = ops.reshape(c, shape=(3, 3, 10))
    total = ops.reduce_sum(cubes, axes=(1,))
    spread = ops.expand(ops.reshape(total, shape=(3, 1, 10)), shape=(3, 3, 10))
    return [ops.reshape(spread, shape=(9, 10)) * 0.2 + x, ops.reshape(total, shape=(30,))]


def counted(n: Value, c: Value) -> list[Value]:
    """Integers and bools: a count, sums of masks."""
    above = ops.cast(ops.gt(c, ops.cast(n, to="f64")), to="i64")
    return [n + ops.reduce_sum(above, axes=(0, 1)), c * 1.5]


PROGRAMS: dict[str, tuple[Types, Step, int, int]] = {
    "pull": ({"at": BODIES, "moving": BODIES, "masses": ((12,), "f64")}, pull, 2, 1),
    "layer": (
        {"c": F, "w": ((10, 10), "f64"), "bias": ((10,), "f64"), "x": F}, layer, 1, 2,
    ),
    "moved": ({"c": F, "x": F}, moved, 1, 1),
    "folded": ({"c": F, "x": F}, folded, 1, 1),
    "exchanged": ({"a": F, "b": F, "w": ((10, 10), "f64")}, exchanged, 2, 1),
    "split": ({"c": F, "x": F}, split, 1, 0),
    "counted": ({"n": ((), "i64"), "c": F}, counted, 2, 0),
}  # fmt: skip


def program(name: str, **attributes: Any) -> Graph:
    types, step, carries, consts = PROGRAMS[name]
    return looped(types, step, carries=carries, consts=consts, **attributes)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bodies_compute_what_they_mean(name: str, reverse: bool) -> None:
    graph = program(name, reverse=reverse)
    feeds = feeds_of(graph)
    if name == "counted":
        feeds["n"] = feeds["n"].astype("int64")
    everywhere(graph, feeds, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "counted"])
def test_gradients_of_nests_agree(name: str) -> None:
    graph = program(name)
    loss = graph_of(
        "loss",
        {str(v.node.name): (v.type.static_shape, "f64") for v in graph.inputs},
        lambda *given: _squares(name, given),
    )
    wanted = [str(value.node.name) for value in loss.inputs]
    step = grad_with_loss(loss, wanted)
    everywhere(step, feeds_of(step), rtol=1e-9)


def _squares(name: str, given: tuple[Value, ...]) -> Value:
    types, step, carries, consts = PROGRAMS[name]
    body = graph_of("step", types, step)
    results = ops.scan(*given, body=body, length=7, num_carries=carries, num_consts=consts)
    sums = [ops.reduce_sum(r * r, axes=tuple(range(r.rank))) for r in results]
    total: Value = sums[0]
    for each in sums[1:]:
        total = total + each
    return total


def kernel_of(graph: Graph) -> Any:
    kernels = lower_for(graph, detect_target()).module.kernels
    (kernel,) = [kernel for kernel in kernels if kernel.name.startswith("scan")]
    return kernel


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_with_such_a_body_is_one_kernel(name: str) -> None:
    kernel = kernel_of(program(name))
    steps = [s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == "step"]
    assert len(steps) == 1


def test_pairs_are_one_nest_along_the_bodies_and_never_stored() -> None:
    kernel = kernel_of(program("pull"))
    locals_ = [s.buffer.extent for s in walk(kernel.body) if isinstance(s, Local)]
    assert max(extent or 0 for extent in locals_) == 12 * 3
    (step,) = [s for s in walk(kernel.body) if isinstance(s, For) and s.var.name == "step"]
    nests = [s for s in step.body if isinstance(s, For) and s.kind is LoopKind.SERIAL]
    assert len(nests) == 1
    assert [s.kind for s in nests[0].body if isinstance(s, For)] == [LoopKind.SIMD]


def test_cotangents_of_pairs_are_summed_where_they_are_computed() -> None:
    """Along the lanes for one body of each pair, across the loop around for the other."""
    given: Types = {"at": BODIES, "moving": BODIES, "masses": ((12,), "f64")}
    loss = graph_of("loss", given, lambda *values: _squares("pull", values))
    kernels = lower_for(grad_with_loss(loss, ["at", "moving"]), detect_target()).module.kernels
    scans = [kernel for kernel in kernels if kernel.name.startswith("scan")]
    assert len(scans) == 2
    for scan in scans:
        extents = [s.buffer.extent or 0 for s in walk(scan.body) if isinstance(s, Local)]
        assert max(extents) == 12 * 3


def test_a_body_beyond_the_caches_stays_thunks() -> None:
    side = int((LARGEST_NEST / 8) ** 0.5) + 1
    types: Types = {"c": ((side, side), "f64")}
    assert not fits_nest(graph_of("step", types, lambda c: [c * 0.5]))
    small: Types = {"c": ((side // 2, side // 2), "f64")}
    assert fits_nest(graph_of("step", small, lambda c: [c * 0.5]))


def solving(limit: int | None) -> Graph:
    """Return a loop that solves a system step by step until what is left is small."""
    types: Types = {
        "x": ((12,), "f64"), "left": ((), "f64"), "a": ((12, 12), "f64"), "b": ((12,), "f64")
    }  # fmt: skip

    def going(x: Value, left: Value, a: Value, b: Value) -> Value:
        del x, a, b
        return ops.gt(left, 1e-6)

    def step(x: Value, left: Value, a: Value, b: Value) -> list[Value]:
        del left
        rest = b - ops.reshape(ops.matmul(a, ops.reshape(x, shape=(12, 1))), shape=(12,))
        return [x + 0.4 * rest, ops.reduce_sum(rest * rest, axes=(0,))]

    condition, body = graph_of("going", types, going), graph_of("step", types, step)

    def loop(*given: Value) -> list[Value]:
        return list(
            ops.while_loop(*given, condition=condition, body=body, num_consts=2, max_trips=limit)
        )

    return graph_of("solving", types, loop)


@pytest.mark.parametrize("limit", [None, 5])
def test_a_conditional_loop_is_one_nest(limit: int | None) -> None:
    graph = solving(limit)
    feeds = feeds_of(graph)
    feeds |= {"left": np.float64(1.0), "a": np.eye(12) + 0.1 * feeds["a"]}
    trips = everywhere(graph, feeds)[-1]
    assert trips == 5 if limit else trips > 5
    (kernel,) = lower_for(graph, detect_target()).module.kernels
    assert sum(isinstance(s, While) for s in walk(kernel.body)) == 1


def searched(c: Value, x: Value) -> list[Value]:
    """A search along an axis, which no lanes and no nest may take for a sum."""
    places = ops.cast(ops.argmax(c, axis=1), to="f64")
    return [ops.tanh(c * 0.5 + x), places]


def test_a_search_in_a_body_is_along_its_axis() -> None:
    graph = looped({"c": F, "x": F}, searched, carries=1, consts=0)
    everywhere(graph, feeds_of(graph), rtol=1e-12)
