"""Collectives over an axis of `vmap`: against arrays, JAX, finite differences; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError

X = np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32)
AXIS = "members"

Case = tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]


def _parts(np_: Any, v: Any) -> Any:
    return np_.stack([v, 2 * v, 3 * v, 4 * v], 1)


CASES: dict[str, Case] = {
    "psum": (lambda v: rlx.distributed.psum(v, AXIS), lambda lax, v: lax.psum(v, AXIS)),
    "pmean": (lambda v: v - rlx.distributed.pmean(v, AXIS), lambda lax, v: v - lax.pmean(v, AXIS)),
    "psum-of-a-number": (
        lambda v: rlx.distributed.psum(1, AXIS) * v,
        lambda lax, v: lax.psum(1, AXIS) * v,
    ),
    "pmax": (lambda v: rlx.distributed.pmax(v, AXIS) * v, lambda lax, v: lax.pmax(v, AXIS) * v),
    "pmin": (lambda v: rlx.distributed.pmin(v, AXIS) * v, lambda lax, v: lax.pmin(v, AXIS) * v),
    "all_gather": (
        lambda v: rlx.distributed.all_gather(v, AXIS),
        lambda lax, v: lax.all_gather(v, AXIS),
    ),
    "all_gather-axis": (
        lambda v: rlx.distributed.all_gather(v, AXIS, axis=1),
        lambda lax, v: lax.all_gather(v, AXIS, axis=1),
    ),
    "all_gather-tiled": (
        lambda v: rlx.distributed.all_gather(v, AXIS, tiled=True),
        lambda lax, v: lax.all_gather(v, AXIS, tiled=True),
    ),
    "ppermute": (
        lambda v: rlx.distributed.ppermute(v, AXIS, [(0, 1), (1, 2), (2, 3), (3, 0)]),
        lambda lax, v: lax.ppermute(v, AXIS, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    ),
    "axis_index": (
        lambda v: v * rlx.distributed.axis_index(AXIS),
        lambda lax, v: v * lax.axis_index(AXIS),
    ),
    "psum_scatter": (
        lambda v: rlx.distributed.psum_scatter(rnp.tile(v[:1], 4), AXIS),
        lambda lax, v: lax.psum_scatter(v[np.zeros(4, int)], AXIS),
    ),
    "psum_scatter-tiled": (
        lambda v: rlx.distributed.psum_scatter(
            _parts(rnp, v), AXIS, scatter_dimension=1, tiled=True
        ),
        lambda lax, v: lax.psum_scatter(_jax_parts(v), AXIS, scatter_dimension=1, tiled=True),
    ),
    "all_to_all": (
        lambda v: rlx.distributed.all_to_all(_parts(rnp, v), AXIS, 1, 0),
        lambda lax, v: lax.all_to_all(_jax_parts(v), AXIS, 1, 0),
    ),
    "all_to_all-tiled": (
        lambda v: rlx.distributed.all_to_all(_parts(rnp, v), AXIS, 1, 0, tiled=True),
        lambda lax, v: lax.all_to_all(_jax_parts(v), AXIS, 1, 0, tiled=True),
    ),
}


def _jax_parts(v: Any) -> Any:
    return _parts(pytest.importorskip("jax").numpy, v)


def test_the_greatest_of_booleans_is_one() -> None:
    result = rlx.vmap(lambda v: rlx.distributed.pmax(v, AXIS), axis_name=AXIS)(
        np.array([True, False])
    )
    assert result.dtype == np.bool_
    assert result.all()


@pytest.mark.parametrize("name", CASES)
def test_members_get_what_those_of_jax_get(name: str) -> None:
    jax = pytest.importorskip("jax")
    ours, theirs = CASES[name]
    result = rlx.vmap(ours, axis_name=AXIS)(X)
    expected = jax.vmap(lambda v: theirs(jax.lax, v), axis_name=AXIS)(X)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_compiled_members_get_what_interpreted_ones_get(name: str) -> None:
    mapped = rlx.vmap(CASES[name][0], axis_name=AXIS)
    np.testing.assert_allclose(rlx.jit(mapped)(X), mapped(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_in_a_member_is_that_of_the_sum_over_members(name: str) -> None:
    ours = CASES[name][0]
    x = X.astype(np.float64)

    def loss(v: Any) -> Any:
        return rnp.sum(rnp.sin(ours(v)))

    def total(xs: Any) -> Any:
        return rnp.sum(rlx.vmap(loss, axis_name=AXIS)(xs))

    inside = rlx.vmap(rlx.grad(loss), axis_name=AXIS)(x)
    np.testing.assert_allclose(inside, rlx.grad(total)(x), rtol=1e-12, atol=1e-12)
    direction = np.random.default_rng(1).normal(size=x.shape)
    slope = (total(x + 1e-6 * direction) - total(x - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose(np.sum(inside * direction), slope, rtol=1e-6, atol=1e-7)
    _, moved = rlx.jvp(total, (x,), (direction,))
    np.testing.assert_allclose(moved, slope, rtol=1e-6, atol=1e-7)


def test_broadcast_gives_all_the_array_of_one() -> None:
    result = rlx.vmap(lambda v: rlx.distributed.pbroadcast(v, AXIS, 2), axis_name=AXIS)(X)
    np.testing.assert_array_equal(result, np.tile(X[2], (4, 1)))


def test_who_is_no_target_gets_zeros() -> None:
    shift = rlx.vmap(
        lambda v: rlx.distributed.ppermute(v, AXIS, [(0, 1), (1, 2), (3, 0)]), axis_name=AXIS
    )
    np.testing.assert_array_equal(shift(X), np.stack([X[3], X[0], X[1], np.zeros(3)]))


def test_nested_axes_are_distinguished_by_name() -> None:
    xs = np.arange(24.0).reshape(2, 4, 3)

    def both(v: Any) -> Any:
        return (
            rlx.distributed.psum(v, "rows")
            - rlx.distributed.pmax(v, "columns")
            + rlx.distributed.pmean(v, ("rows", "columns"))
        )

    inner = rlx.vmap(both, axis_name="columns")
    result = rlx.vmap(inner, axis_name="rows")(xs)
    expected = xs.sum(0, keepdims=True) - xs.max(1, keepdims=True) + xs.mean((0, 1))
    np.testing.assert_allclose(result, expected)


def test_a_loop_over_shared_rows_exchanges_in_its_body() -> None:
    def summed(v: Any) -> Any:
        return rlx.scan(
            lambda total, row: (total + rlx.distributed.psum(row, AXIS), total), 0.0, v
        )[0]

    result = rlx.vmap(summed, axis_name=AXIS)(X)
    np.testing.assert_allclose(result, np.full(4, X.sum()), rtol=1e-5)


def test_a_loop_that_no_example_enters_differently_exchanges() -> None:
    def counted(v: Any) -> Any:
        return v + rlx.fori_loop(0, 3, lambda i, c: c + rlx.distributed.axis_index(AXIS), 0)

    result = rlx.vmap(counted, axis_name=AXIS)(np.zeros(4, np.int32))
    np.testing.assert_array_equal(result, [0, 3, 6, 9])


def test_only_the_size_of_an_axis_is_needed() -> None:
    result = rlx.vmap(lambda: rlx.distributed.axis_index(AXIS), axis_name=AXIS, axis_size=3)()
    np.testing.assert_array_equal(result, [0, 1, 2])


def test_narrow_floats_are_summed_in_f32() -> None:
    xs = np.full((512, 1), 1.0, np.float16)
    mapped = rlx.vmap(lambda v: rlx.distributed.psum(v * np.float16(8.0), AXIS), axis_name=AXIS)
    np.testing.assert_array_equal(mapped(xs), np.full((512, 1), 4096, np.float16))


def test_an_unknown_axis_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(InputError, match=r"no axis is called 'other' here \(axes: 'members'\)"):
        rlx.vmap(lambda v: rlx.distributed.psum(v, "other"), axis_name=AXIS)(X)


def test_parts_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ShapeError, match="axis 0 has extent 3; it must be 4"):
        rlx.vmap(lambda v: rlx.distributed.psum_scatter(v, AXIS), axis_name=AXIS)(X)


@pytest.mark.whole
@pytest.mark.parametrize("name", [0, None, 3.0, ("members", 1)])
@pytest.mark.parametrize("call", ["psum", "pmean", "pmax", "pmin", "all_gather", "axis_index"])
def test_an_axis_that_is_not_named_by_a_string_is_an_error(call: str, name: Any) -> None:
    function = getattr(rlx.lax, call)
    args = () if call == "axis_index" else (X[0],)
    with pytest.raises(InputError, match="the name of an axis is"):
        rlx.vmap(lambda v: function(*args, name), axis_name=AXIS)(X)
    with pytest.raises(InputError, match=r"the name of an axis is|no axis is called"):
        function(*args, name)


@pytest.mark.parametrize("call", ["psum", "pmean", "pmax", "pmin"])
def test_an_axis_outside_of_a_map_is_an_error(call: str) -> None:
    with pytest.raises(InputError, match=r"no axis is called 'members' here \(axes: none\)"):
        getattr(rlx.lax, call)(X, AXIS)
