"""JAX under the names of rlx, with the derivatives at kinks that rlx states."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Function = Callable[..., Any]

UNDEFINED = ("//", "%")
"""What JAX leaves undefined for some operands: integers divided by 0, which are 0 in rlx."""


def of_jax() -> SimpleNamespace:
    """Return `np`, `nn` and `rlx` made of JAX; ImportError where it is missing."""
    import jax
    import jax.numpy

    config: Any = jax.config  # without types
    config.update("jax_enable_x64", True)
    control = {name: getattr(jax.lax, name) for name in ("scan", "fori_loop", "while_loop", "cond")}
    others = ("grad", "jvp", "vmap", "checkpoint", "value_and_grad")
    names = {name: getattr(jax, name) for name in others}
    library = SimpleNamespace(**{**vars(jax.numpy), **_with_conventions()})
    own = {"dot_product_attention": _attention, "logsumexp": _logsumexp}
    layers = SimpleNamespace(**{**vars(jax.nn), **own})
    return SimpleNamespace(
        np=library, nn=layers, rlx=SimpleNamespace(**control, **names, map=jax.lax.map)
    )


def _with_conventions() -> dict[str, Function]:
    """Return the functions whose derivatives are other than JAX's where they have none.

    At 0 that of `abs` and of `std` is 0.
    """
    import jax.numpy as jnp

    absolute = _with_partial(jnp.abs, lambda x: jnp.sign(x))

    root = _with_partial(
        jnp.sqrt, lambda x: jnp.where(x > 0, 0.5 / jnp.sqrt(jnp.where(x > 0, x, 1)), 0)
    )

    def std(x: Any, **options: Any) -> Any:
        return root(jnp.var(x, **options))

    functions = {"abs": absolute, "std": std}
    return {name: _of_reals(f, getattr(jnp, name)) for name, f in functions.items()}


def _attention(
    q: Any, k: Any, v: Any, *, mask: Any = None, scale: Any = None, is_causal: bool = False
) -> Any:
    """Attention by its formula, in the operands' precision: JAX's own takes scores in f32."""
    import jax
    import jax.numpy as jnp

    wide = jnp.promote_types(q.dtype, jnp.float32)
    q, k, values = (jnp.swapaxes(x, -2, -3).astype(wide) for x in (q, k, v))
    scores = q @ jnp.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    visible = jnp.ones(scores.shape[-2:], bool) if mask is None else mask
    if is_causal:
        queries, keys = scores.shape[-2:]
        visible = jnp.tri(queries, keys, max(keys - queries, 0), jnp.bool_)
    weights = jax.nn.softmax(jnp.where(visible, scores, -1e9), axis=-1)
    return jnp.swapaxes(weights @ values, -2, -3).astype(v.dtype)


def _logsumexp(x: Any, **options: Any) -> Any:
    """The derivative over no elements is 0 in rlx, as that of a sum; JAX divides 0 by 0."""
    import jax

    result = jax.nn.logsumexp(x, **options)
    return jax.lax.stop_gradient(result) if x.size == 0 else result


def _of_reals(function: Function, otherwise: Function) -> Function:
    """Return `function` for floats, `otherwise` for integers and complex numbers."""
    import jax.numpy as jnp

    def call(x: Any, **options: Any) -> Any:
        return (function if jnp.issubdtype(x.dtype, jnp.floating) else otherwise)(x, **options)

    return call


def _with_partial(function: Function, partial: Function) -> Function:
    """Return a function of one argument with the derivative `partial`."""
    import jax

    made = jax.custom_jvp(function)
    made.defjvps(lambda tangent, _, x: partial(x) * tangent)
    result: Function = made
    return result
