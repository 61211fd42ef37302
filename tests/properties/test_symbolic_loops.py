"""Loops whose carries and rows have symbolic extents: at every extent up to the bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.types import TensorType
from tests.aot.building import Loaded, require, run

BOUND, STEPS = 37, 5
EXTENTS = (0, 1, 3, 36, BOUND)
TOLERANCES = {"f16": 2e-2, "f32": 1e-4, "f64": 1e-10}


def rows(c: Any, xs: Any) -> Any:
    return rlx.scan(lambda c, x: (rnp.tanh(c * 0.5 + x), (x * 2, c)), c, xs)


def unchanged_rows_backwards(c: Any, xs: Any) -> Any:
    return rlx.scan(lambda c, x: (rnp.tanh(c * 0.5 + x), (x, c + 1)), c, xs, reverse=True)


def nested(c: Any, xs: Any) -> Any:
    def outer(c: Any, x: Any) -> Any:
        return rlx.scan(lambda d, _: (rnp.sin(d) + x, d * x), c, None, length=4)

    return rlx.scan(outer, c, xs)


def matrices(c: Any, xs: Any) -> Any:
    return rlx.scan(lambda c, x: (rnp.tanh(c + x), rnp.outer(c, x)), c, xs)


def mapped(c: Any, xs: Any) -> Any:
    return rlx.map(lambda x: rnp.outer(x, c), xs)


def gradients(c: Any, xs: Any) -> Any:
    def loss(c: Any, xs: Any) -> Any:
        return rnp.sum(rlx.scan(lambda c, x: (rnp.tanh(c * 0.5 + x) * c, c * x), c, xs)[1] ** 2)

    return rlx.grad(loss, (0, 1))(c, xs)


def branches(c: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return rlx.cond(rnp.sum(x) > 0, lambda: c + x, lambda: c - x), c

    return rlx.scan(step, c, xs)


def batched(c: Any, xs: Any) -> Any:
    return rlx.vmap(lambda x: rlx.scan(lambda s, _: (rnp.cos(s) + x, s), c, None, length=3)[1])(xs)


PROGRAMS: tuple[Callable[..., Any], ...] = (
    rows, unchanged_rows_backwards, nested, matrices, mapped, gradients, branches, batched
)  # fmt: skip


def graph_of(program: Callable[..., Any], dtype: str) -> Graph:
    n = rlx.Dim("n", min=0, max=BOUND)
    types = (TensorType(DType(dtype), shape) for shape in ((n,), (STEPS, n)))
    graph: Graph = rlx.jit(program).graph(*types)
    return graph


def feeds(dtype: str, extent: int) -> dict[str, Any]:
    random = np.random.default_rng(extent)
    return {
        name: random.normal(size=shape).astype(DType(dtype).numpy)
        for name, shape in (("c", (extent,)), ("xs", (STEPS, extent)))
    }


def assert_near(found: Any, expected: Any, dtype: str) -> None:
    for one, other in zip(found, expected, strict=True):
        tolerance = TOLERANCES[dtype]
        np.testing.assert_allclose(
            np.asarray(one, "f8"), np.asarray(other, "f8"), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_rows_are_stored_for_the_extent_of_the_run(
    program: Callable[..., Any], dtype: str, backend: str
) -> None:
    graph = graph_of(program, dtype)
    executable = rlx.compile(graph, backend=backend)
    for extent in EXTENTS:
        given = feeds(dtype, extent)
        assert_near(executable.run(given), evaluate(graph, given), dtype)


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("target", ["native", "portable"])
def test_exported_rows_are_stored_for_the_extent_of_the_run(
    program: Callable[..., Any], target: str, tmp_path: Path
) -> None:
    graph = graph_of(program, "f32")
    artifact = rlx.aot(graph, tmp_path, name="loops", target=target, emit_only=True)
    library = tmp_path / "loops.so"
    pointers = ", const float *" * 2 + ", float *" * len(graph.outputs)
    flags = ("-std=c11", "-O2", *(("-march=native",) if target == "native" else ()))
    run(require("gcc"), *flags, "-fPIC", "-shared", artifact.source, "-o", library, "-lm")
    native = Loaded(artifact, f"int loops_call(void *, int64_t{pointers});", library=library)
    assert native.call("init", native.arena, native.block.size) == 0
    assert native.call("setup", native.arena) == 0
    for extent in EXTENTS:
        given = feeds("f32", extent)
        expected = evaluate(graph, given)
        found = [np.zeros(each.shape, np.float32) for each in expected]
        arrays = [native.pointer(each) for each in (*given.values(), *found)]
        assert native.call("call", native.arena, extent, *arrays) == 0
        assert_near(found, expected, "f32")
