"""One wrong program per message: its class, that it names the user's line, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, IndexOutOfRangeError, InputError, RlxError, ShapeError
from rlx.passes.autodiff import NonDifferentiableError
from rlx.tracing.errors import (
    ConcretizationError,
    LeakedTracerError,
    MutationError,
    StaticArgumentError,
)

X = np.arange(6.0).reshape(2, 3)
KEPT: list[Any] = []


def branch(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def as_number(x: Any) -> Any:
    return float(x[0, 0])


def as_range(x: Any) -> Any:
    return sum(range(x[0, 0].astype("i64")))


def with_numpy(x: Any) -> Any:
    return np.asarray(x)


def with_numpy_function(x: Any) -> Any:
    return np.sin(x)


def assign(x: Any) -> Any:
    x[0] = 1.0
    return x


def leak(x: Any) -> Any:
    KEPT.append(x + 1)
    return x


def use_leaked(x: Any) -> Any:
    return x + KEPT[0]


def mask(x: Any) -> Any:
    return x[x > 0]


def slice_by_traced(x: Any) -> Any:
    return x[: rnp.argmax(x)]


def wrong_shapes(x: Any) -> Any:
    return x @ x


def wrong_broadcast(x: Any) -> Any:
    return x + np.ones(5)


def bad_index(x: Any) -> Any:
    return x[7]


def float_index(x: Any) -> Any:
    return x[np.array([0.5])]


def returns_text(x: Any) -> Any:
    return "text"


def one_branch(x: Any) -> Any:
    return rnp.where(x > 0, x)


def no_branch(x: Any) -> Any:
    return rnp.where(x > 0)


def bitwise(x: Any) -> Any:
    return x & x


CASES: list[tuple[Callable[[Any], Any], type[RlxError], str]] = [
    (branch, ConcretizationError, "where"),
    (as_number, ConcretizationError, "astype"),
    (as_range, ConcretizationError, "static"),
    (with_numpy, ConcretizationError, "rlx.numpy"),
    (with_numpy_function, ConcretizationError, "rlx.numpy.sin"),
    (assign, MutationError, "at"),
    (mask, ConcretizationError, "where"),
    (slice_by_traced, ConcretizationError, "dynamic_slice"),
    (wrong_shapes, ShapeError, "must equal"),
    (wrong_broadcast, ShapeError, "do not broadcast"),
    (bad_index, IndexOutOfRangeError, "out of range"),
    (float_index, DTypeError, "astype"),
    (returns_text, InputError, "return arrays"),
    (one_branch, DTypeError, "where(condition, x, y)"),
    (no_branch, ConcretizationError, "pass how many to give"),
    (bitwise, DTypeError, "compare first"),
]


@pytest.mark.parametrize(("function", "error", "words"), CASES, ids=[c[0].__name__ for c in CASES])
def test_a_wrong_function_gets_a_remedy(
    function: Callable[[Any], Any], error: type[RlxError], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)) as caught:
        rlx.jit(function)(X)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


@pytest.mark.parametrize(
    "function", [branch, as_number, assign, mask, wrong_shapes], ids=lambda f: f.__name__
)
def test_the_error_names_the_line_of_the_fault(function: Callable[[Any], Any]) -> None:
    with pytest.raises(RlxError) as caught:
        rlx.jit(function)(X)
    assert caught.value.source is not None
    assert caught.value.source.function == function.__name__


def test_a_leaked_array_is_named_with_its_origin() -> None:
    KEPT.clear()
    rlx.jit(leak, backend="reference")(X)
    with pytest.raises(LeakedTracerError, match="in leak") as caught:
        rlx.jit(use_leaked)(X)
    assert caught.value.source is not None
    assert caught.value.source.function == "use_leaked"


def test_a_leaked_array_is_refused_outside_any_trace() -> None:
    KEPT.clear()
    rlx.jit(leak, backend="reference")(X)
    with pytest.raises(LeakedTracerError):
        rnp.sin(KEPT[0])


def test_an_argument_that_is_no_array_should_be_static() -> None:
    with pytest.raises(InputError, match="static_argnames"):
        rlx.jit(lambda x, mode: x)(X, "fast")


def test_a_static_argument_must_be_hashable() -> None:
    with pytest.raises(StaticArgumentError, match="hashable"):
        rlx.jit(lambda x, n: x, static_argnums=1)(X, [1])


def test_static_names_must_be_arguments() -> None:
    with pytest.raises(StaticArgumentError, match="'m'"):
        rlx.jit(lambda x, n: x, static_argnames="m")
    with pytest.raises(StaticArgumentError, match="argument 5"):
        rlx.jit(lambda x, n: x, static_argnums=5)


def test_grad_needs_a_scalar() -> None:
    with pytest.raises(ShapeError, match="scalar"):
        rlx.grad(lambda x: x * 2)(X)


def test_grad_needs_floating_arguments_and_results() -> None:
    with pytest.raises(NonDifferentiableError, match="i64"):
        rlx.grad(lambda n: n * 1.0)(np.array(3))
    with pytest.raises(NonDifferentiableError, match="floating result"):
        rlx.grad(lambda x: rnp.argmax(x))(X)


def test_grad_needs_an_argument_of_that_number() -> None:
    with pytest.raises(InputError, match="argument 2"):
        rlx.grad(lambda x: rnp.sum(x), argnums=2)(X)


def test_vmap_needs_axes_of_one_extent() -> None:
    with pytest.raises(ShapeError, match="differ"):
        rlx.vmap(lambda x, y: x)(X, X.T)
    with pytest.raises(InputError, match="maps over no argument"):
        rlx.vmap(lambda x: x, in_axes=None)(X)
    with pytest.raises(ShapeError, match="no axis"):
        rlx.vmap(lambda x: x)(1.0)


def test_jvp_needs_tangents_of_the_primals_shapes() -> None:
    with pytest.raises(ShapeError, match="tangent"):
        rlx.jvp(rnp.sin, (X,), (X[0],))


def test_an_unsupported_dtype_is_named() -> None:
    with pytest.raises(DTypeError, match=str(np.dtype(np.clongdouble))):
        rlx.jit(lambda x: x)(X.astype(np.clongdouble))


def test_a_number_that_does_not_fit_is_named() -> None:
    with pytest.raises(DTypeError, match="300"):
        rlx.jit(lambda x: x + 300)(np.ones(2, np.uint8))


def test_a_traced_index_out_of_range_fails_when_it_runs() -> None:
    take = rlx.jit(lambda x, i: x[i], threads=1)
    np.testing.assert_array_equal(take(X, -1), X[-1])
    with pytest.raises(IndexOutOfRangeError):
        take(X, 2)


def test_lists_of_a_block_are_equally_deep() -> None:
    with pytest.raises(ShapeError, match=r"depths \[0, 1\]"):
        rnp.block([[1.0, 2.0], 3.0])
    with pytest.raises(ShapeError, match="an empty list"):
        rnp.block([[1.0], []])
