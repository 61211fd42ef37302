"""JAX's derivatives: those of rlx, with JAX's keywords and its checks of complex numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, UnsupportedError
from rlx.ir.source_lines import calling_source
from rlx.tracing.trace import element_type
from rlx.tree_util import tree_leaves

Function = Callable[..., Any]


def grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    holomorphic: bool = False, allow_int: bool = False, reduce_axes: Sequence[Any] = (),
) -> Function:  # fmt: skip
    """`rlx.grad`; the complex derivative of `fun` if it is `holomorphic`."""
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    holomorphic: bool = False, allow_int: bool = False, reduce_axes: Sequence[Any] = (),
) -> Function:  # fmt: skip
    """`rlx.value_and_grad`; `holomorphic` is for a complex result."""
    del reduce_axes
    if allow_int:
        raise UnsupportedError(
            "integers have no gradients; allow_int=True asks for ones of dtype float0",
            source=calling_source(),
            remedy="leave integers out of argnums",
        )
    if holomorphic:
        return _holomorphic(fun, argnums, has_aux)
    return rlx.value_and_grad(fun, argnums, has_aux)


def jacrev(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    holomorphic: bool = False, allow_int: bool = False,
) -> Function:  # fmt: skip
    """`rlx.jacrev`: of real results, or of a `holomorphic` function."""
    del allow_int
    checked = _checked_results(fun, "jacrev", has_aux=has_aux, holomorphic=holomorphic)
    rows = rlx.jacrev(checked, argnums, has_aux=has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        if holomorphic:
            _require_complex("jacrev", "argument", _chosen(args, argnums))
        return rows(*args, **kwargs)

    return transformed


def jacfwd(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    holomorphic: bool = False,
) -> Function:  # fmt: skip
    """`rlx.jacfwd`: of real arguments, or complex ones of a `holomorphic` function."""
    checked = fun
    if holomorphic:
        checked = _checked_results(fun, "jacfwd", has_aux=has_aux, holomorphic=True)
    columns = rlx.jacfwd(checked, argnums, has_aux=has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        require = _require_complex if holomorphic else _require_real
        require("jacfwd", "argument", _chosen(args, argnums))
        return columns(*args, **kwargs)

    return transformed


jacobian = jacrev


def hessian(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    holomorphic: bool = False,
) -> Function:  # fmt: skip
    """The matrix of second derivatives of a real function, or of a `holomorphic` one."""
    first = jacrev(fun, argnums, has_aux, holomorphic)
    return jacfwd(first, argnums, has_aux, holomorphic)


def _chosen(args: tuple[Any, ...], argnums: int | Sequence[int]) -> list[Any]:
    """Return the leaves of the arguments that are differentiated."""
    numbers = [argnums] if isinstance(argnums, int) else argnums
    return [leaf for n in numbers if -len(args) <= n < len(args) for leaf in tree_leaves(args[n])]


def _checked_results(fun: Function, name: str, *, has_aux: bool, holomorphic: bool) -> Function:
    require = _require_complex if holomorphic else _require_real

    @functools.wraps(fun)
    def checked(*args: Any, **kwargs: Any) -> Any:
        found = fun(*args, **kwargs)
        require(name, "result", tree_leaves(found[0] if has_aux else found))
        return found

    return checked


def _require_complex(name: str, what: str, leaves: list[Any]) -> None:
    for leaf in leaves:
        dtype = element_type(leaf).dtype
        if not dtype.is_complex:
            raise DTypeError(
                f"{name}(holomorphic=True): {what} has dtype {dtype}; a holomorphic function takes "
                "and gives complex numbers",
                source=calling_source(),
                remedy="pass complex arrays, or leave holomorphic=True out",
            )


def _require_real(name: str, what: str, leaves: list[Any]) -> None:
    for leaf in leaves:
        dtype = element_type(leaf).dtype
        if dtype.is_complex:
            raise DTypeError(
                f"{name}: {what} has dtype {dtype}; the derivative of a complex {what} is a number "
                "for holomorphic functions only",
                source=calling_source(),
                remedy="pass holomorphic=True, or split real and imaginary parts",
            )


def _holomorphic(fun: Function, argnums: int | Sequence[int], has_aux: bool) -> Function:
    """The derivative is JAX's gradient of the real part, by the equations of Cauchy and Riemann."""

    def real_part(*args: Any, **kwargs: Any) -> Any:
        found = fun(*args, **kwargs)
        value = found[0] if has_aux else found
        _require_complex("grad", "result", tree_leaves(value))
        return rnp.real(value), found

    both = rlx.value_and_grad(real_part, argnums, has_aux=True)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        _require_complex("grad", "argument", _chosen(args, argnums))
        (_, found), gradient = both(*args, **kwargs)
        return found, gradient

    return transformed


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """`rlx.linearize`; with `has_aux`, what else `fun` returns comes third."""
    if not has_aux:
        return rlx.linearize(fun, *primals)
    value, aux = fun(*primals)
    return value, rlx.linearize(lambda *x: fun(*x)[0], *primals)[1], aux


def vmap(
    fun: Function, in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None,
    axis_size: int | None = None, spmd_axis_name: Any = None,
) -> Function:  # fmt: skip
    """`rlx.vmap`; `spmd_axis_name` is about devices, of which there is one."""
    del spmd_axis_name
    return rlx.vmap(fun, in_axes, out_axes, axis_name, axis_size)
