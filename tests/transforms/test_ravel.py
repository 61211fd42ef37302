"""Trees as vectors and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, ShapeError

TREE: dict[str, Any] = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "n": np.array([7, 8], np.int32),
    "none": None,
    "pair": (np.float32(9), np.zeros((0, 4), np.float32)),
}


def test_a_tree_comes_back_with_its_shapes_and_dtypes() -> None:
    vector, unravel = rlx.ravel_pytree(TREE)
    assert vector.dtype == rnp.result_type(np.float32, np.int32)
    assert sorted(np.asarray(vector).tolist()) == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    again = unravel(vector)
    assert again["none"] is None
    for name in ("w", "n"):
        assert again[name].dtype == TREE[name].dtype
        np.testing.assert_array_equal(again[name], TREE[name])
    assert again["pair"][1].shape == (0, 4)


def test_order_and_way_back_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax")
    flatten_util = pytest.importorskip("jax.flatten_util")
    theirs, back = flatten_util.ravel_pytree(TREE)
    ours, ours_back = rlx.ravel_pytree(TREE)
    np.testing.assert_array_equal(ours, theirs)
    assert str(jax.tree.structure(back(theirs))) == str(jax.tree.structure(dict(ours_back(ours))))


def test_a_hessian_of_a_tree_is_a_matrix_of_its_vector() -> None:
    params = {"a": np.array([1, 2], np.float32), "b": np.float32(3)}
    vector, unravel = rlx.ravel_pytree(params)

    def loss(flat: Any) -> Any:
        tree = unravel(flat)
        return rnp.sum(tree["a"] ** 2) * tree["b"]

    expected = [[6, 0, 2], [0, 6, 4], [2, 4, 0]]
    np.testing.assert_allclose(rlx.jit(rlx.hessian(loss))(vector), expected, rtol=1e-6)


def test_no_leaves_are_an_empty_vector() -> None:
    vector, unravel = rlx.ravel_pytree({"a": ()})
    assert vector.shape == (0,)
    assert unravel(vector) == {"a": ()}


@pytest.mark.parametrize("wrong", [np.zeros(3, np.float32), np.zeros((4, 1), np.float32)])
def test_another_number_of_elements_is_an_error(wrong: Any) -> None:
    _, unravel = rlx.ravel_pytree(np.zeros(4, np.float32))
    with pytest.raises(ShapeError, match="for a tree of 4 elements"):
        unravel(wrong)


def test_floats_of_another_precision_come_back_in_the_leaves_own() -> None:
    vector, unravel = rlx.ravel_pytree([np.zeros(2, np.float32), np.zeros(1, np.float64)])
    assert vector.dtype == np.float64
    first, second = unravel(np.array([1, 2, 3], np.float32))
    assert (first.dtype, second.dtype) == (np.float32, np.float64)


def test_a_vector_of_another_dtype_is_an_error() -> None:
    _, unravel = rlx.ravel_pytree(np.zeros(4, np.int32))
    with pytest.raises(DTypeError, match=r"float32.*promotes to int32"):
        unravel(np.full(4, 0.5, np.float32))


def test_numbers_keep_their_digits_next_to_narrow_arrays() -> None:
    vector, unravel = rlx.ravel_pytree([0.1, np.ones(2, np.float32)])
    assert vector.dtype == np.float64
    assert unravel(vector)[0] == 0.1
