"""Details of calls that programs brought from JAX rely on: edges, modes, keywords, structures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import rlx.jax as jax
import rlx.jax.numpy as jnp
from rlx.errors import InputError, ShapeError

X = np.arange(12.0).reshape(3, 4)
OUTSIDE = np.array([[0, 3, 9], [1, -1, -9], [0, 0, 0]])


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[1.0, 2.0, 2.0, 3.0], [3.0, 2.0, 2.0, 1.0]])
def test_numbers_at_the_ends_of_bins_are_digitized_as_in_numpy(bins: Any, right: bool) -> None:
    x = np.arange(5.0)
    expected = np.digitize(x, bins, right)
    np.testing.assert_array_equal(jnp.digitize(x, np.array(bins), right), expected)


@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit])
def test_take_along_axis_has_modes(wrapped: Any) -> None:
    def taken(mode: str) -> Any:
        return wrapped(lambda x, i: jnp.take_along_axis(x, i, 1, mode=mode))(X, OUTSIDE)

    filled = [[0, 3, np.nan], [5, 7, np.nan], [8, 8, 8]]
    np.testing.assert_array_equal(taken("fill"), filled)
    np.testing.assert_array_equal(taken("clip"), [[0, 3, 3], [5, 7, 4], [8, 8, 8]])


def test_where_of_a_condition_gives_indices() -> None:
    found = jnp.where(X > 9)
    for own, numpys in zip(found, np.where(X > 9), strict=True):
        np.testing.assert_array_equal(own, numpys)
    sized = jax.jit(lambda x: jnp.where(x > 9, size=3, fill_value=-1))(X)
    np.testing.assert_array_equal(sized, [[2, 2, -1], [2, 3, -1]])
    with pytest.raises(InputError, match="size and fill_value are for the indices"):
        jnp.where(X > 9, X, 0, size=3)  # type: ignore[call-overload]


METHODS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(0, where=X > 3, initial=2.0),
    "prod": lambda x: x.prod(1, where=X > 3, initial=2.0),
    "max": lambda x: x.max(0, where=X < 6, initial=-1.0),
    "min": lambda x: x.min(initial=-5.0),
    "mean": lambda x: x.mean(where=X > 3),
    "var": lambda x: x.var(0, where=X > 3),
    "std": lambda x: x.std(dtype="float64", where=X > 3),
    "any": lambda x: (x > 3).any(where=X < 2),
    "all": lambda x: (x > 3).all(where=X > 5),
    "ravel": lambda x: x.ravel(order="F"),
    "flatten": lambda x: x.flatten(order="F"),
    "reshape": lambda x: x.reshape(2, 6, order="F"),
    "take": lambda x: x.take(np.array([0, 19]), mode="clip"),
    "sort": lambda x: x[0].sort(axis=-1, kind="stable") if x is not X else np.sort(X[0]),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_the_keywords_of_functions(name: str) -> None:
    expected = METHODS[name](X)
    np.testing.assert_array_equal(METHODS[name](jnp.asarray(X)), expected)
    np.testing.assert_allclose(jax.jit(METHODS[name])(X), expected, rtol=1e-15)


def test_methods_sort_downwards_and_repeat_to_a_length() -> None:
    x = jnp.asarray(X[0])
    np.testing.assert_array_equal(x.sort(descending=True), [3, 2, 1, 0])
    np.testing.assert_array_equal(x.argsort(descending=True), [3, 2, 1, 0])
    counts = np.array([1, 0, 2, 0])
    np.testing.assert_array_equal(x.repeat(counts, total_repeat_length=4), [0, 2, 2, 3])


def test_rounding_without_digits_gives_an_integer() -> None:
    found = round(jnp.asarray(2.7))
    assert (found, found.dtype.kind) == (3, "i")
    assert round(jnp.asarray(2.75), 1).dtype.kind == "f"


@pytest.mark.parametrize("divided", [lambda x, y: x // y, lambda x, y: x % y])
def test_quotients_of_weak_numbers_are_weak(divided: Any) -> None:
    found = divided(jnp.asarray(5.0), 2.0)
    assert found.weak_type
    assert (found * jnp.ones(1, jnp.float16)).dtype == np.float16


def test_arrays_of_ranges_and_with_leading_axes() -> None:
    np.testing.assert_array_equal(jnp.array(range(1, 6, 2)), [1, 3, 5])
    assert jnp.array(range(0)).dtype.kind == "i"
    assert [jnp.array(x, ndmin=2).shape for x in (3, [1, 2], X)] == [(1, 1), (1, 2), (3, 4)]
    assert (jnp.shape([[1, 2]]), jnp.ndim([[1, 2]]), jnp.size([[1, 2]])) == ((1, 2), 2, 2)


def test_lists_of_arrays_have_a_shape_where_their_elements_have_one() -> None:
    assert jax.jit(lambda x: jnp.zeros(jnp.shape([x, (x, x)][1:])))(X).shape == (1, 2, 3, 4)
    assert jnp.shape([]) == (0,)
    with pytest.raises(ShapeError, match=r"have shapes \[\(3, 4\), \(4,\)\]"):
        jnp.shape([jnp.asarray(X), jnp.asarray(X[0])])


def test_einsum_takes_lists_of_axes() -> None:
    forms: Any = ([X, [0, 1], X.T, [1, 2], [0, 2]], [X, [0, 1], X, [0, 1]], [X, [..., 0], [0, ...]])
    for form in forms:
        np.testing.assert_allclose(jnp.einsum(*form), np.einsum(*form), rtol=1e-15)
    with pytest.raises(ShapeError, match="subscripts as a string"):
        jnp.einsum(X, X)


@pytest.mark.parametrize("axes", [([0, 27], [27, 26]), ([26, 0], [0, 1]), ([51, 7], [7, 25])])
def test_results_of_einsum_without_a_list_have_axes_in_the_order_of_numbers(axes: Any) -> None:
    form: Any = (X, axes[0], X.T[:, 1:] ** 2, axes[1])
    np.testing.assert_allclose(jnp.einsum(*form), np.einsum(*form), rtol=1e-15)


@pytest.mark.parametrize("number", [-1, 52, "i", [0]])
def test_axes_that_einsum_does_not_number_are_refused(number: Any) -> None:
    with pytest.raises(ShapeError, match="einsum numbers axes from 0 to 51"):
        jnp.einsum(X, [0, number])


def test_interp_goes_on_along_its_last_lines() -> None:
    xp, fp = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 0.0])
    sides = {"left": "extrapolate", "right": "extrapolate"}
    found = jnp.interp(np.array([-1.0, 0.5, 4.0]), xp, fp, **sides)
    np.testing.assert_allclose(found, [0, 1.5, -1], rtol=1e-15)
    with pytest.raises(InputError, match="left or right is 'flat'"):
        jnp.interp(4.0, xp, fp, right="flat")


@pytest.mark.parametrize(
    ("signature", "function"),
    [
        ("(n)->()", lambda x: x),
        ("(n)->(n)", lambda x: (x, x)),
        ("(n)->(n)", lambda x: x[1:]),
        ("(n)->(3)", lambda x: x),
    ],
)
def test_results_of_other_axes_than_vectorize_is_given_are_refused(
    signature: str, function: Any
) -> None:
    with pytest.raises(ShapeError, match="which the signature does not give"):
        jnp.vectorize(function, signature=signature)(X)


def test_words_that_no_update_has_are_refused() -> None:
    x = jnp.asarray(X[0])
    np.testing.assert_array_equal(x.at[0].set(5, unique_indices=True), [5, 1, 2, 3])
    with pytest.raises(InputError, match="modus is 'drop'"):
        x.at[9].set(5, modus="drop")
    with pytest.raises(InputError, match="wrap_negative_indices is False"):
        x.at[-1].get(mode="fill", wrap_negative_indices=False)


def test_several_arrays_are_sorted_in_their_container() -> None:
    operands = (np.array([2, 1]), np.array([5, 6]))
    for container in (tuple, list):
        found: Any = jax.lax.sort(container(operands))
        assert type(found) is container
        np.testing.assert_array_equal(found, [[1, 2], [6, 5]])


def test_fields_marked_as_static_belong_to_the_structure() -> None:
    @jax.tree_util.register_dataclass
    @dataclass
    class Layer:
        weight: Any
        power: int = field(metadata={"static": True}, default=2)

    found = jax.grad(lambda layer: jnp.sum(layer.weight**layer.power))(Layer(np.arange(3.0), 3))
    np.testing.assert_array_equal(found.weight, [0, 3, 12])
    assert found.power == 3
    assert len(jax.tree.leaves(found)) == 1
