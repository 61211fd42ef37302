"""`jax.test_util`: derivatives checked against differences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rlx
from rlx.public_names import names_of as _names_of
from rlx.tracing.pytree import tree_leaves, tree_map
from rlx.tracing.trace import element_type

_SINGLE, _DOUBLE = 2e-3, 1e-5


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Raise AssertionError unless derivatives up to `order` agree with differences.

    Each is compared along one random direction; tolerances are those of f32 or f64 as needed.
    """
    args = tuple(args)
    if "fwd" in modes:
        check_jvp(f, functools.partial(rlx.jvp, f), args, atol, rtol, eps)
        if order > 1:
            forward = functools.partial(rlx.jvp, f)
            check_grads(forward, (args, args), order - 1, modes, atol, rtol, eps)
    if "rev" in modes:
        check_vjp(f, functools.partial(rlx.vjp, f), args, atol, rtol, eps)
        if order > 1:

            def pulled(*args: Any) -> Any:
                result, pullback = rlx.vjp(f, *args)
                return pullback(result)

            check_grads(pulled, args, order - 1, modes, atol, rtol, eps)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Raise AssertionError unless `f_jvp(args, tangents)` agrees with `f` and differences."""
    random = np.random.default_rng(0)
    tangents = tree_map(functools.partial(_direction, random), tuple(args))
    result, tangent = f_jvp(tuple(args), tangents)
    _assert_close(result, f(*args), atol, rtol, "the result")
    _assert_close(tangent, _difference(f, args, tangents, eps), atol, rtol, "the tangent")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Raise AssertionError unless the pullback agrees with differences, along two directions."""
    random = np.random.default_rng(0)
    result, pullback = f_vjp(*args)
    _assert_close(result, f(*args), atol, rtol, "the result")
    tangents = tree_map(functools.partial(_direction, random), tuple(args))
    cotangent = tree_map(functools.partial(_direction, random), result)
    moved = _difference(f, args, tangents, eps)
    found, expected = _inner(tangents, tuple(pullback(cotangent))), _inner(moved, cotangent)
    _assert_close(found, expected, atol, rtol, "the cotangent's product with a direction")


def _direction(random: np.random.Generator, x: Any) -> Any:
    return random.standard_normal(np.shape(x)).astype(element_type(x).dtype.numpy)


def _difference(f: Callable[..., Any], args: Sequence[Any], by: Any, eps: float | None) -> Any:
    step = eps or (1e-4 if _is_double(args) else 1e-2)

    def along(sign: float) -> Any:
        return f(*tree_map(lambda x, t: (x + sign * step * t).astype(t.dtype), tuple(args), by))

    return tree_map(lambda a, b: (np.asarray(a) - np.asarray(b)) / (2 * step), along(1), along(-1))


def _inner(a: Any, b: Any) -> Any:
    pairs = zip(tree_leaves(a), tree_leaves(b), strict=True)
    return np.asarray(sum(np.sum(np.asarray(x) * np.asarray(y)) for x, y in pairs))


def _is_double(tree: Any) -> bool:
    return all(element_type(x).dtype.numpy == np.float64 for x in tree_leaves(tree))


def _assert_close(
    found: Any, expected: Any, atol: float | None, rtol: float | None, what: str
) -> None:
    default = _DOUBLE if _is_double(found) and _is_double(expected) else _SINGLE

    def compare(x: Any, y: Any) -> None:
        np.testing.assert_allclose(x, y, atol=atol or default, rtol=rtol or default, err_msg=what)

    tree_map(compare, found, expected)


__dir__ = _names_of(__name__)
