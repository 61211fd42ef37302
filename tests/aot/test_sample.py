"""The sample program runs on the example inputs of the export and prints what they give."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.ir.types import TensorType
from tests.aot.building import STRICT, needs_compiler, require, run
from tests.aot.programs import mlp, params_of

pytestmark = needs_compiler
RANDOM = np.random.default_rng(3)
W, X = RANDOM.standard_normal((5, 3)), RANDOM.standard_normal((2, 5))


def scores(w: Any, x: Any) -> Any:
    return {"scores": x @ w, "best": rnp.argmax(x @ w, axis=1)}


def sample(directory: Path, name: str, *flags: str) -> dict[str, list[float]]:
    """Compile and run the sample; return the numbers of each line."""
    command = (require("gcc"), "-std=c11", *STRICT, *flags, "main.c", f"{name}.c", "-lm")
    run(*command, cwd=directory)
    done = subprocess.run(
        ["./a.out"], cwd=directory, capture_output=True, text=True, check=True, timeout=600
    )
    assert re.fullmatch(r"time of a run: \S+ us\n", done.stderr)
    rows = (line.partition(":") for line in done.stdout.splitlines())
    return {head: [float(x) for x in rest.replace(" ...", "").split()] for head, _, rest in rows}


@pytest.mark.parametrize("weights", ["file", "embed", "argument"])
@pytest.mark.parametrize("vectors", ["auto", "none"])
def test_prints_the_results_of_the_example_inputs(
    tmp_path: Path, weights: str, vectors: str
) -> None:
    inputs = (W.astype(np.float32), X.astype(np.float32))
    rlx.aot(
        rlx.jit(scores), tmp_path, name="model", example_inputs=inputs, param_argnums=(0,),
        weights=weights, vectors=vectors,
    )  # fmt: skip
    printed = sample(tmp_path, "model")
    np.testing.assert_allclose(printed["scores"], (X @ W).reshape(-1), rtol=1e-4)
    assert printed["best"] == np.argmax(X @ W, axis=1).tolist()
    assert "on the example inputs of its export" in (tmp_path / "main.c").read_text()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_prints_halves_as_numbers(tmp_path: Path, dtype: str) -> None:
    def half(x: Any) -> Any:
        return (x * 3.0).astype(dtype)

    x = np.array([0.5, -1.25, 0.0, 4096.0, 1e-6], np.float32)
    rlx.aot(rlx.jit(half), tmp_path, name="half", example_inputs=(x,), emit_only=True)
    np.testing.assert_allclose(sample(tmp_path, "half")["y"], x * 3, rtol=1e-2, atol=3e-8)


def test_prints_what_is_not_finite(tmp_path: Path) -> None:
    x = np.array([np.inf, 1.0, np.nan, -np.inf], np.float32)
    rlx.aot(rlx.jit(lambda x: x * 2.0), tmp_path, name="odd", example_inputs=(x,), emit_only=True)
    np.testing.assert_array_equal(sample(tmp_path, "odd")["y"], x * 2)


@pytest.mark.slow
def test_takes_the_example_inputs_of_a_graph_by_name(tmp_path: Path) -> None:
    graph = mlp()
    params = params_of(graph)
    x = RANDOM.standard_normal((32, 64)).astype(np.float32)
    rlx.aot(graph, tmp_path, params=params, example_inputs={"x": x}, weights="embed")
    (expected,) = evaluate(graph, {"x": x, **params})
    np.testing.assert_allclose(sample(tmp_path, "mlp")["y"], expected.reshape(-1)[:8], rtol=1e-4)


def test_inputs_without_an_example_count_up(tmp_path: Path) -> None:
    rows = TensorType(DType.F32, (Dim("n", max=4),))
    rlx.aot(rlx.jit(lambda x: x * 7), tmp_path, name="rows", example_inputs=(rows,))
    np.testing.assert_allclose(sample(tmp_path, "rows")["y"], [0, 1, 2, 3], rtol=1e-5)
    assert "on inputs that count up" in (tmp_path / "main.c").read_text()
