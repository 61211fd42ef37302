"""Regions with values of many elements: loops over an axis, and what they leave out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as jnp
from bench.embedded.control import BODY_INPUTS, body_filter
from tests.aot.building import Loaded, require, run

SIZE = 9
RNG = np.random.default_rng(7)


def run_core(
    function: Any, inputs: tuple[Any, ...], place: Path, **options: Any
) -> tuple[str, list[np.ndarray]]:
    """Return the C that a core gets, and its results as computed by this machine."""
    artifact = rlx.aot(
        rlx.jit(function), place, name="region", example_inputs=inputs, target="cortex-m4",
        math="none", emit_only=True, **options,
    )  # fmt: skip
    library = place / "region.so"
    run(require("cc"), "-O0", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-fsanitize=undefined",
        "-fno-sanitize-recover", artifact.source, "-lm", "-o", library)  # fmt: skip
    loaded = Loaded(artifact, "int region_run(void *);", library=library)
    assert loaded.call("init", loaded.arena, artifact.arena_bytes) == 0
    assert loaded.call("setup", loaded.arena) == 0
    for facts, array in zip(artifact.manifest["inputs"], inputs, strict=True):
        loaded.view("inputs", facts["name"])[:] = np.ravel(array)
    assert loaded.call("run", loaded.arena) == 0
    outputs = [loaded.view("outputs", facts["name"]) for facts in artifact.manifest["outputs"]]
    return artifact.source.read_text(), outputs


def assert_is_numpys(function: Any, inputs: tuple[Any, ...], place: Path, **options: Any) -> str:
    """Check the core's results against those of f64, and return its C."""
    wide = tuple(np.asarray(x, np.float64) for x in inputs)
    expected = rlx.jit(function, backend="reference")(*wide)
    text, found = run_core(function, inputs, place, **options)
    results = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(found, results, strict=True):
        scale = float(np.abs(np.asarray(want)).max())
        np.testing.assert_allclose(got, np.ravel(want), rtol=2e-5, atol=2e-6 * scale)
    return text


def region_of(text: str) -> str:
    """Return the function of the one region."""
    (found,) = re.findall(r"^static (?:int|void) scalar_region\w*\(.*?^}", text, re.M | re.S)
    return str(found)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [None, "finite"])
def test_a_filter_of_twelve_states_is_one_region(precision: str | None, tmp_path: Path) -> None:
    text = region_of(assert_is_numpys(body_filter, BODY_INPUTS, tmp_path, precision=precision))
    assert text.count("for (") == 4, "F P, (F P) F', (I - K H) P, and the result"
    if precision == "finite":
        assert not re.search(r"[(*] ?0\.0f\b|\b0\.0f \*|\b1\.0f \*|\* 1\.0f\b", text)


def step(x: Any) -> Any:
    """Each element moves by its own speed and that of the next one."""
    return jnp.concatenate([x[:-1] + 0.5 * jnp.sin(x[1:]), x[-1:]])


def matrix() -> np.ndarray:
    return RNG.standard_normal((SIZE, SIZE)).astype(np.float32)


X = np.linspace(-1, 1, SIZE, dtype=np.float32)
CASES: dict[str, Any] = {
    "left": lambda f, p, _: f @ (f @ (f @ p)),
    "right": lambda f, p, _: ((p @ f) @ f) @ f.T,
    "a diagonal is added": lambda f, p, _: (f @ p @ f.T + 0.1 * jnp.eye(SIZE, dtype="f4")) @ f,
    "a transposed result": lambda f, p, _: f @ (f @ (f @ p)).T,
    "two results": lambda f, p, q: ((moved := f @ p @ f.T), (moved + q) @ f @ f),
    "its own product": lambda f, p, q: ((f @ f @ f @ f) * p) @ q,
    "sums of rows": lambda f, p, q: (
        jnp.sum((moved := f @ (f @ p)) * q, axis=1),
        jnp.max(f @ moved, axis=0),
    ),
    "functions of elements": lambda f, p, _: f @ jnp.tanh(f @ (f @ p)),
    "the sparse matrix": lambda f, p, _: (f, f @ (f @ (f.T @ p)), -f.T),
    "rows of both": lambda f, p, _: f @ jnp.concatenate([(f @ p)[:4], (p @ f.T)[4:]]),
}
"""Of the sparse Jacobian `f` and two matrices."""


def along(name: str) -> Any:
    return lambda x, p, q: CASES[name](rlx.jacfwd(step)(x), p, q)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_values_of_many_elements(name: str, tmp_path: Path) -> None:
    text = assert_is_numpys(along(name), (X, matrix(), matrix()), tmp_path)
    assert "for (" in region_of(text), "a loop over an axis"


def test_entries_that_are_absent_multiply_no_infinity(tmp_path: Path) -> None:
    p = matrix()
    p[0] = np.inf
    found = run_core(along("left"), (X, p, p), tmp_path)[1][0].reshape(SIZE, SIZE)
    assert np.isfinite(found[1:]).all()
    assert np.isinf(found[0]).all()
