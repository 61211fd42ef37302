"""JAX's derivatives: those of rlx, with JAX's convention of complex numbers and its keywords.

Of a real function of `z = x + iy`, JAX's gradient is `df/dx - i df/dy`; rlx's is by the conjugate,
`(df/dx + i df/dy) / 2`. Pullbacks differ likewise. Real numbers have one gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.ir.graph import calling_source
from rlx.tracing.trace import element_type
from rlx.tree_util import tree_map

Function = Callable[..., Any]


def grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    holomorphic: bool = False, allow_int: bool = False, reduce_axes: Sequence[Any] = (),
) -> Function:  # fmt: skip
    """`rlx.grad` by JAX's convention; the complex derivative of `fun` if it is `holomorphic`."""
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    holomorphic: bool = False, allow_int: bool = False, reduce_axes: Sequence[Any] = (),
) -> Function:  # fmt: skip
    """`rlx.value_and_grad` by JAX's convention; `holomorphic` is for a complex result."""
    del reduce_axes
    if allow_int:
        raise UnsupportedError(
            "integers have no gradients; allow_int=True asks for ones of dtype float0",
            source=calling_source(),
            remedy="leave integers out of argnums",
        )
    if holomorphic:
        return _holomorphic(fun, argnums, has_aux)
    both = rlx.value_and_grad(fun, argnums, has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return value, tree_map(_from_conjugate, gradient)

    return transformed


def _holomorphic(fun: Function, argnums: int | Sequence[int], has_aux: bool) -> Function:
    """The derivative is JAX's gradient of the real part, by the equations of Cauchy and Riemann."""

    def real_part(*args: Any, **kwargs: Any) -> Any:
        found = fun(*args, **kwargs)
        return rnp.real(found[0] if has_aux else found), found

    both = rlx.value_and_grad(real_part, argnums, has_aux=True)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        (_, found), gradient = both(*args, **kwargs)
        return found, tree_map(_from_conjugate, gradient)

    return transformed


def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """`rlx.vjp`, whose pullback takes and gives cotangents by JAX's convention."""
    value, back, *aux = rlx.vjp(fun, *primals, has_aux=has_aux)

    def pullback(cotangent: Any) -> Any:
        return tree_map(_from_conjugate, back(tree_map(_to_conjugate, cotangent)))

    return value, pullback, *aux


def linear_transpose(fun: Function, *primals: Any) -> Function:
    """`rlx.linear_transpose`, of complex numbers without conjugates: `A.T`, not `A.conj().T`."""
    back = rlx.linear_transpose(fun, *primals)

    def transposed(cotangent: Any) -> Any:
        return tree_map(_conjugate, back(tree_map(_conjugate, cotangent)))

    return transposed


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


def _from_conjugate(x: Any) -> Any:
    """Return a gradient by JAX's convention, from that by the conjugate."""
    return rnp.multiply(rnp.conj(x), 2) if element_type(x).dtype.is_complex else x


def _to_conjugate(x: Any) -> Any:
    return rnp.multiply(rnp.conj(x), 0.5) if element_type(x).dtype.is_complex else x


def _conjugate(x: Any) -> Any:
    return rnp.conj(x) if element_type(x).dtype.is_complex else x
