"""Types without 64 bits, as in JAX by default: `jax_enable_x64`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.jax
import rlx.numpy as rnp
from rlx.errors import DTypeError, RlxError
from tests.numpy.test_numpy import EVERY_CALL, assert_equal, elementwise_calls, read, traced


@pytest.fixture
def narrow() -> Iterator[None]:
    with rlx.jax.enable_x64(False):
        yield


X = np.linspace(-1, 2, 12).reshape(3, 4)
N = np.arange(12).reshape(3, 4) % 5
MADE: dict[str, tuple[Callable[[], Any], str]] = {
    "zeros": (lambda: rnp.zeros(3), "float32"),
    "a list": (lambda: rnp.array([1.5, 2.0]), "float32"),
    "integers": (lambda: rnp.array([1, 2]), "int32"),
    "arange": (lambda: rnp.arange(2, 5), "int32"),
    "an array of doubles": (lambda: rnp.asarray(X), "float32"),
    "a named double": (lambda: rnp.ones(2, "float64"), "float32"),
    "a converted array": (lambda: rnp.asarray(X).astype(float), "float32"),
    "complex numbers": (lambda: rnp.fft.fft(X), "complex64"),
    "positions": (lambda: rnp.argmax(X, 1), "int32"),
    "order": (lambda: rnp.argsort(X), "int32"),
    "places": (lambda: rnp.nonzero(N)[0], "int32"),
    "a triangle's places": (lambda: rnp.tril_indices(3)[1], "int32"),
    "counts": (lambda: rnp.bincount(N.ravel()), "int32"),
    "a sum of integers": (lambda: rnp.sum(N), "int32"),
    "a mean of integers": (lambda: rnp.mean(N), "float32"),
    "two kinds of integers": (lambda: rnp.add(np.int32(1), np.uint32(2)), "int32"),
    "a number alone": (lambda: rnp.sin(0.5), "float32"),
    "a slope": (lambda: rlx.grad(lambda x: x**2)(3.0), "float32"),
    "a loop": (lambda: rlx.fori_loop(0, 3, lambda i, x: x + i, 0), "int32"),
    "a scan": (lambda: rlx.scan(lambda c, x: (c + x, c), 0.0, X[0])[1], "float32"),
    "a matrix": (lambda: rnp.linalg.inv(np.eye(3) + 1), "float32"),
    "a draw": (lambda: rlx.random.normal(rlx.random.key(1), (2,), np.float64), "float32"),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.usefixtures("narrow")
def test_what_is_made_has_32_bits_at_once_and_compiled(name: str) -> None:
    make, dtype = MADE[name]
    assert make().dtype == dtype
    if name not in ("places", "counts"):  # how many there are is not known while tracing
        assert rlx.jit(make)().dtype == dtype


@pytest.mark.usefixtures("narrow")
def test_arguments_with_64_bits_are_converted() -> None:
    function = rlx.jit(lambda x, n: (x * 2, n + 1))
    for _ in range(3):  # compiled, then called again in the short way
        doubled, next_one = function(X, N)
        assert (doubled.dtype, next_one.dtype) == (np.float32, np.int32)
        np.testing.assert_array_equal(doubled, 2 * X.astype(np.float32))
    assert [x.dtype for x in function(X.astype("f4"), N.astype("i4"))] == [np.float32, np.int32]


def test_what_was_compiled_with_other_widths_is_not_run() -> None:
    function = rlx.jit(lambda x: x + rnp.ones(3))
    x = np.ones(3, np.float32)
    for enabled, dtype in ((True, np.float64), (False, np.float32)) * 2:
        with rlx.jax.enable_x64(enabled):
            assert [function(x).dtype for _ in range(3)] == [dtype] * 3
            assert rnp.add(x, rnp.ones(3)).dtype == dtype
            assert rlx.jax.config.jax_enable_x64 is enabled


@pytest.mark.usefixtures("narrow")
def test_an_index_out_of_range_is_reported_as_ever() -> None:
    def pick(x: Any, row: Any, column: Any) -> Any:
        return x[row, column]

    row, column = np.array([0, 2]), np.array([1, 3])
    np.testing.assert_array_equal(rlx.jit(pick)(X, row, column), X.astype("f4")[row, column])
    with pytest.raises(RlxError, match="index"):
        rlx.jit(pick)(X, row, column + 1)


@pytest.mark.usefixtures("narrow")
def test_numbers_that_32_bits_do_not_hold_are_refused() -> None:
    with pytest.raises(DTypeError, match="does not fit i32"):
        rnp.add(np.int32(1), 2**40)
    with pytest.raises(DTypeError, match="1099511627776"):
        rnp.array([1, 2**40])
    with pytest.raises(DTypeError, match="1099511627776"):
        rnp.arange(2**40, 2**40 + 3)
    np.testing.assert_array_equal(rnp.arange(2**31 - 2, 2**31), [2**31 - 2, 2**31 - 1])


@pytest.mark.usefixtures("narrow")
def test_results_of_callbacks_are_converted() -> None:
    declared = rlx.ShapeDtypeStruct((4,), np.float32)
    function = rlx.jit(lambda x: rlx.pure_callback(lambda x: np.cos(x, dtype=float), declared, x))
    np.testing.assert_allclose(function(X[0]), np.cos(X[0]), rtol=1e-6)


@pytest.mark.usefixtures("narrow")
def test_bytes_are_read_as_what_they_are() -> None:
    found = rnp.frombuffer(X.tobytes())
    np.testing.assert_array_equal(found, X.ravel().astype(np.float32))
    assert found.dtype == np.float32


@pytest.mark.usefixtures("narrow")
def test_what_is_put_on_the_device_is_an_array() -> None:
    x = np.ones(3)
    put = rlx.jax.device_put({"x": x})["x"]
    x += 1
    np.testing.assert_array_equal(put, np.ones(3, np.float32))
    assert put.dtype == np.float32


@pytest.mark.usefixtures("narrow")
def test_a_double_is_a_type_of_its_own() -> None:
    assert rnp.issubdtype(np.float64, np.float64)
    assert not rnp.issubdtype(np.float64, np.float32)
    assert rlx.jax.dtypes.canonicalize_dtype(np.float64) == np.float32
    assert rnp.result_type(np.float64, np.int64) == np.float32


@pytest.mark.usefixtures("narrow")
def test_graphs_and_models_from_files_keep_their_types() -> None:
    helper = pytest.importorskip("onnx").helper
    double = pytest.importorskip("onnx").TensorProto.DOUBLE
    value = [helper.make_tensor_value_info(name, double, (3,)) for name in "xy"]
    half = helper.make_tensor("half", double, (1,), [0.1])
    node = helper.make_node("Add", ["x", "half"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", value[:1], value[1:], [half]))
    (found,) = rlx.compile(rlx.onnx.load(model))(x=X[0, :3])
    np.testing.assert_array_equal(found, X[0, :3] + 0.1)


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
print(jnp.zeros(2).dtype, jnp.arange(2).dtype, jax.jit(jnp.sin)(np.ones(2)).dtype)
jax.config.update("jax_enable_x64", True)
print(jnp.zeros(2).dtype, jnp.arange(2).dtype, jax.jit(jnp.sin)(np.ones(2)).dtype)
print(jax.config.jax_enable_x64)
"""


@pytest.mark.slow
def test_a_program_has_64_bits_where_it_asks_for_them(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    printed = subprocess.run(
        [sys.executable, "-m", "rlx.jax", str(program)],
        capture_output=True, text=True, check=True, timeout=300,
    ).stdout  # fmt: skip
    assert printed == "float32 int32 float32\nfloat64 int64 float64\nTrue\n"


@pytest.mark.parametrize("seed", [3, -5, 2**31, 2**32 + 5, 2**40])
@pytest.mark.usefixtures("narrow")
def test_of_a_seed_32_bits_count(seed: int) -> None:
    np.testing.assert_array_equal(rlx.random.PRNGKey(seed), [0, seed % 2**32])


@pytest.mark.parametrize(
    ("expression", "dtype"), EVERY_CALL + elementwise_calls(("bool", "i64", "i32", "f32", "f64"))
)
def test_types_without_64_bits_are_those_of_jax(expression: str, dtype: str) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        try:
            expected = read(expression, jax.numpy, dtype, jax.numpy.asarray)
        except (TypeError, ValueError):
            pytest.skip("JAX does not take this dtype here")
    with rlx.jax.enable_x64(False):
        found = traced(expression, dtype)
    assert_equal(found, expected)
    for one, other in zip(rlx.tree_leaves(found), rlx.tree_leaves(expected), strict=True):
        assert one.dtype == other.dtype
