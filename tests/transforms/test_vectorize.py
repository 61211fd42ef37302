"""`vectorize` maps over leading axes as NumPy's does; jitted functions show their stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError

CASES: dict[str, tuple[Any, str | None, tuple[tuple[int, ...], ...]]] = {
    "inner": (lambda x, y: (x * y).sum(), "(n),(n)->()", ((4, 1, 3), (5, 3))),
    "product": (lambda a, x: a @ x, "(m,n),(n)->(m)", ((2, 3), (4, 3))),
    "numbers": (lambda x, y: x * y + 1, None, ((3, 1), (4,))),
    "one example": (lambda x: x - x.mean(), "(n)->(n)", ((5,),)),
    "two results": (lambda x: (x.min(), x.max()), "(n)->(),()", ((2, 3, 4),)),
}


@pytest.mark.parametrize("name", CASES)
def test_vectorized_functions_are_numpys(name: str) -> None:
    function, signature, shapes = CASES[name]
    arrays = [np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for shape in shapes]
    expected = np.vectorize(function, signature=signature)(*arrays)
    call = rlx.vectorize(function, signature=signature)
    for found in (call(*arrays), rlx.jit(call)(*arrays)):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_excluded_arguments_are_passed_on() -> None:
    power = rlx.vectorize(lambda x, n: x**n, excluded={1})
    assert power(np.arange(3.0), 2).tolist() == [0, 1, 4]


def test_signatures_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"signature .* is malformed"):
        rlx.vectorize(rnp.sum, signature="(n->()")
    with pytest.raises(ShapeError, match="axis '3' of the signature is 3 and 2"):
        rlx.vectorize(rnp.sum, signature="(3)->()")(np.ones(2))
    with pytest.raises(ShapeError, match="axis 'n'"):
        rlx.vectorize(rnp.dot, signature="(n),(n)->()")(np.ones(3), np.ones(2))
    with pytest.raises(ShapeError, match="lacks axes"):
        rlx.vectorize(rnp.sum, signature="(m,n)->()")(np.ones(3))
    with pytest.raises(InputError, match="has 2 arguments"):
        rlx.vectorize(rnp.dot, signature="(n),(n)->()")(np.ones(3))


def test_a_jitted_function_shows_its_stages() -> None:
    @rlx.jit
    def f(x: Any) -> Any:
        return rnp.tanh(x) * 2

    x = np.ones(3, np.float32)
    lowered = f.lower(rlx.ShapeDtypeStruct((3,), "float32"))
    assert "tanh" in lowered.as_text()
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(x), f(x))
    assert "tanh" in compiled.as_text()
    assert str(f.trace(x).graph) == str(lowered.graph) == str(rlx.make_graph(f)(x))
    assert f.cache_info().compiled == 1


def test_a_compiled_call_refuses_other_types() -> None:
    f = rlx.jit(lambda x, k: x["a"] * k)
    x = np.ones(3, np.float32)
    compiled = f.lower({"a": x}, 2.0).compile()
    np.testing.assert_array_equal(compiled({"a": x}, 3.0), [3, 3, 3])
    for given in ({"a": x[:2]}, {"a": x.astype(np.float64)}, {"b": x}, x):
        with pytest.raises(InputError, match=r"for \(\{'a': f32\[3\]\}, .* and is given \("):
            compiled(given, 3.0)
    assert f.cache_info().compiled == 1


X = np.array([0.5, -1.0, 2.0])


def test_eval_shape_returns_types_without_running() -> None:
    given = rlx.ShapeDtypeStruct((4, 3), np.float32)
    found = rlx.eval_shape(lambda x, y: {"product": x @ y, "count": rnp.sum(y > 0)}, given, X)
    assert found["product"] == rlx.ShapeDtypeStruct((4,), np.float64)
    assert found["count"] == rlx.ShapeDtypeStruct((), np.int64)
    assert found["product"].size == 4


def test_linearize_is_the_value_and_its_pushforward() -> None:
    value, push = rlx.linearize(lambda x: rnp.sin(x) * 2, X)
    np.testing.assert_allclose(value, np.sin(X) * 2)
    np.testing.assert_allclose(rlx.jit(push)(np.ones(3)), 2 * np.cos(X))


def test_linear_transpose() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    transposed = rlx.linear_transpose(lambda x: matrix @ x, rlx.ShapeDtypeStruct((3,), "f64"))
    np.testing.assert_allclose(rlx.jit(transposed)(np.array([1.0, 2.0]))[0], matrix.T @ [1.0, 2.0])
