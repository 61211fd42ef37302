"""Shapes, counts and lists that cannot be: refused before anything is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.errors import DTypeError, InputError, RlxError, ShapeError, UnsupportedError

X = np.arange(24.0).reshape(2, 3, 4)
MASKED = np.ma.MaskedArray([1.0, 2.0, 3.0], mask=[False, True, False])

WRONG: list[tuple[str, type[RlxError], str, Callable[[], Any]]] = [
    ("zeros", ShapeError, "shape (-1, 2) has a negative extent", lambda: rnp.zeros((-1, 2))),
    ("ones", ShapeError, "shape -3 has a negative extent", lambda: rnp.ones(-3)),
    ("full", ShapeError, "shape (2, -1) has a negative extent", lambda: rnp.full((2, -1), 1)),
    ("broadcast_to", ShapeError, "shape (-1, 2) has a negative extent",
     lambda: rnp.broadcast_to(np.ones(2), (-1, 2))),
    ("array_split", ShapeError, "the number of sections is -1; it must be 1 or more",
     lambda: rnp.array_split(X, -1)),
    ("split", ShapeError, "the number of sections is 0; it must be 1 or more",
     lambda: rnp.split(X, 0)),
    ("array_split", DTypeError, "a place to split at is 1.5; it must be an integer",
     lambda: rnp.array_split(X, (1.5, 3))),
    ("split", DTypeError, "a place to split at is 1.5; it must be an integer",
     lambda: rnp.split(X, np.array([1.5, 3]), 1)),
    ("diff", ShapeError, "n is -1; it must be 0 or more", lambda: rnp.diff(X, n=-1)),
    ("one_hot", ShapeError, "num_classes is -1; it must be 0 or more",
     lambda: nn.one_hot(np.array([1]), -1)),
    ("eye", ShapeError, "the number of rows is -1; it must be 0 or more", lambda: rnp.eye(-1)),
    ("tri", ShapeError, "the number of columns is -2; it must be 0 or more",
     lambda: rnp.tri(2, -2)),
    ("tile", ShapeError, "a number of repeats is -1", lambda: rnp.tile(X, -1)),
    ("repeat", ShapeError, "a number of repeats is -1", lambda: rnp.repeat(X, -1)),
    ("repeat", ShapeError, "2 numbers of repeats for an axis of extent 3",
     lambda: rnp.repeat(X, [1, 2], axis=1)),
    ("arange", ShapeError, "the step is 0; it must not be 0", lambda: rnp.arange(0, 3, 0)),
    ("arange", ShapeError, "has 1000000000000 elements", lambda: rnp.arange(0.0, 1e12)),
    ("linspace", ShapeError, "has 1000000000000000000 elements",
     lambda: rnp.linspace(0, 1, 10**18)),
    ("eye", ShapeError, "a matrix of 10000000000 rows and 10000000000 columns has",
     lambda: rnp.eye(10**10)),
    ("zeros", DTypeError, "shape is 2.5; it must be an integer", lambda: rnp.zeros((2.5,))),
    ("array", ShapeError, "item 0 is a list of 2 and item 1 is a list of 1",
     lambda: rnp.array([[1, 2], [3]])),
    ("array", ShapeError, "item 0 is a number and item 1 is a list of 1",
     lambda: rnp.array([[[1, [2]]]])),
    ("array", InputError, "'a' of type str is not a number", lambda: rnp.array([1, "a"])),
    ("array", InputError, "None is neither an array nor a number", lambda: rnp.array(None)),
    ("sum", InputError, "a masked array would lose its mask", lambda: rnp.sum(MASKED)),
    ("array", InputError, "a masked array would lose its mask", lambda: rnp.array(MASKED)),
]  # fmt: skip


@pytest.mark.whole
@pytest.mark.guarantee("Errors", "A wrong argument is refused by the function that was called.")
@pytest.mark.parametrize(
    ("name", "kind", "message", "use"), WRONG, ids=[f"{w[0]}: {w[2]}" for w in WRONG]
)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_a_wrong_argument_is_refused_by_the_function_that_was_called(
    name: str, kind: type[RlxError], message: str, use: Callable[[], Any], traced: bool
) -> None:
    with pytest.raises(kind) as caught:
        rlx.jit(use)() if traced else use()
    assert caught.value.message.startswith(f"{name}: ")
    assert message in caught.value.message
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


@pytest.mark.parametrize("count", [2**63, 2**64 + 3, 10**20])
@pytest.mark.parametrize("fused", [False, True])
def test_sizes_that_no_process_can_address_are_refused(count: int, fused: bool) -> None:
    def total() -> Any:
        filled = rnp.ones((count,))
        return rnp.sum(filled * 2.0 if fused else filled)

    for call in (total, rlx.jit(total), rlx.jit(total, backend="reference")):
        with pytest.raises(UnsupportedError, match="a value takes at most 140737488355328"):
            call()


def test_an_index_range_that_no_process_can_address_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"iota: .* of type i64\[18446744073709551616\]"):
        rlx.jit(lambda: rnp.sum(rnp.arange(2**64)))()


def test_masked_arrays_are_refused_by_compiled_functions() -> None:
    with pytest.raises(InputError, match="would lose its mask"):
        rlx.jit(rnp.sum)(MASKED)


@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (0, 1, 2), (-1,), None, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_the_median_over_several_axes_is_that_of_numpy(axis: Any, keepdims: bool) -> None:
    shuffled = np.random.default_rng(0).permutation(X.ravel()).reshape(X.shape)
    expected = np.median(shuffled, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(rnp.median(shuffled, axis, keepdims=keepdims), expected)


@pytest.mark.parametrize(("shape", "n"), [((0,), 1), ((2,), 5), ((3, 0), 2)])
def test_differences_of_too_few_elements_are_none(shape: tuple[int, ...], n: int) -> None:
    x = np.zeros(shape)
    assert rnp.diff(x, n=n).shape == np.diff(x, n=n).shape


def test_the_gradient_of_sorting_nothing_is_empty() -> None:
    assert rlx.grad(lambda x: rnp.sum(rnp.sort(x)))(np.zeros(0)).shape == (0,)
