"""The default float of numbers and creation functions: eagerly, in `jit`, and in exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as jnp
from rlx.errors import DTypeError

CREATED: dict[str, Callable[[], Any]] = {
    "zeros": lambda: jnp.zeros(3), "ones": lambda: jnp.ones((2, 2)), "empty": lambda: jnp.empty(2),
    "full": lambda: jnp.full(3, 0.5), "eye": lambda: jnp.eye(3),
    "identity": lambda: jnp.identity(3), "tri": lambda: jnp.tri(3),
    "linspace": lambda: jnp.linspace(0, 1, 5),
    "linspace without end": lambda: jnp.linspace(0.0, 1.0, 5, endpoint=False),
    "linspace step": lambda: jnp.linspace(0, 1, 5, retstep=True)[1],
    "logspace": lambda: jnp.logspace(0, 1, 5), "geomspace": lambda: jnp.geomspace(1.0, 8.0, 4),
    "arange": lambda: jnp.arange(0.0, 1.0, 0.25), "array of a number": lambda: jnp.array(0.5),
    "array of a list": lambda: jnp.array([0.5, 1.5]),
    "array of lists": lambda: jnp.asarray([[0.5, 1.5], [2, 3]]),
    "array of an empty list": lambda: jnp.array([]),
    "list of a number and an array": lambda: jnp.array([0.5, jnp.sin(0.5)]),
    "sine of a number": lambda: jnp.sin(0.5), "sine of an integer": lambda: jnp.sin(1),
    "quotient of integers": lambda: jnp.divide(1, 2),
    "mean of integers": lambda: jnp.mean(jnp.arange(4)),
    "integer times a float": lambda: jnp.arange(3) * 0.5,
    "stack of numbers": lambda: jnp.stack([0.5, 1.0]),
    "where of numbers": lambda: jnp.where(True, 0.5, 1.0),
    "zeros_like of a number": lambda: jnp.zeros_like(0.5),
    "diag": lambda: jnp.diag(jnp.array([0.5, 1.0])),
    "meshgrid": lambda: jnp.meshgrid(jnp.array([0.5, 1.0]))[0],
    "block": lambda: jnp.block([[jnp.eye(2), jnp.zeros((2, 1))]]),
    "concatenate": lambda: jnp.concatenate([jnp.zeros(2), jnp.ones(1)]),
    "pad": lambda: jnp.pad(jnp.ones(2), 1), "fftfreq": lambda: jnp.fft.fftfreq(4),
    "rfftfreq": lambda: jnp.fft.rfftfreq(4), "hanning": lambda: jnp.hanning(5),
    "kaiser": lambda: jnp.kaiser(5, 2.0),
    "scan of a number": lambda: rlx.scan(lambda x, _: (x * 0.5, x), 1.0, length=3)[1],
    "gradient at a number": lambda: rlx.grad(lambda x: x * x)(2.0),
    "jacobian": lambda: rlx.jacfwd(lambda x: x * 2)(jnp.ones(2)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def f64_afterwards() -> Iterator[None]:
    with rlx.default_dtype("f64"):
        yield


@pytest.mark.whole
@pytest.mark.parametrize("name", CREATED)
def test_numbers_have_the_default_dtype_and_the_value_they_have_in_f64(name: str) -> None:
    create = CREATED[name]
    wide = np.asarray(create())
    assert wide.dtype == np.float64
    with rlx.default_dtype("f32"):
        eager, compiled = create(), rlx.jit(create)()
    assert eager.dtype == compiled.dtype == np.float32
    np.testing.assert_allclose(eager, wide, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(compiled, wide, rtol=1e-6, atol=1e-7)
    assert create().dtype == np.float64


KEPT: dict[str, tuple[Callable[[], Any], str]] = {
    "an f64 array": (lambda: jnp.asarray(np.ones(2)), "f8"),
    "a list of f64 numbers": (lambda: jnp.array([np.float64(1.0), 2.0]), "f8"),
    "zeros_like of an f64 array": (lambda: jnp.zeros_like(np.ones(2)), "f8"),
    "a named dtype": (lambda: jnp.zeros(2, "f64"), "f8"),
    "an f64 array times a number": (lambda: np.ones(2) * jnp.asarray(0.5), "f8"),
    "an f16 array times a number": (lambda: jnp.ones(2, "f16") * 0.5, "f2"),
    "integers": (lambda: jnp.arange(3), "i8"),
    "a complex number": (lambda: jnp.asarray(1j), "c8"),
    "a list of complex numbers": (lambda: jnp.array([1j, 2.0]), "c8"),
}


@pytest.mark.parametrize("name", KEPT)
def test_arrays_and_named_dtypes_keep_theirs(name: str) -> None:
    create, dtype = KEPT[name]
    with rlx.default_dtype("f32"):
        assert create().dtype == np.dtype(dtype)
        assert rlx.jit(create)().dtype == np.dtype(dtype)


def test_a_compiled_function_follows_the_default() -> None:
    add = rlx.jit(lambda x: x + jnp.eye(2))
    x = np.ones((2, 2), np.float32)
    assert add(x).dtype == np.float64
    with rlx.default_dtype("f32"):
        assert add(x).dtype == np.float32
    assert add(x).dtype == np.float64


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_it_holds_until_another_is_chosen(dtype: str) -> None:
    rlx.default_dtype(dtype)
    assert jnp.zeros(2).dtype == jnp.zeros(2, dtype).dtype
    with rlx.default_dtype("f32"):
        assert jnp.zeros(2).dtype == np.float32
    assert jnp.zeros(2).dtype == jnp.zeros(2, dtype).dtype


def test_an_export_has_no_f64(tmp_path: Path) -> None:
    def step(x: Any) -> Any:
        return jnp.linspace(0, 1, 3) * x + jnp.eye(3) @ jnp.array([0.5, 1.0, 2.0])

    with rlx.default_dtype("f32"):
        artifact = rlx.aot(
            rlx.jit(step), tmp_path, name="step", example_inputs=[np.ones(3, np.float32)]
        )
    assert "double" not in artifact.source.read_text()


@pytest.mark.parametrize("dtype", ["i32", "c64", "bool"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(DTypeError, match="not a float of 16, 32 or 64 bits"):
        rlx.default_dtype(dtype)
