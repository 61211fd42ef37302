"""`from_jax`, which imports JAX when it is called."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rlx.errors import ToolchainError
from rlx.ir.source_lines import calling_source
from rlx.locks import importing


def from_jax(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Return `fun`, a function written for JAX, as one for `rlx.jit`, `grad`, `vmap`, `aot`.

    JAX traces it. Called by itself it is compiled, for each kind of arguments once. Arguments are
    trees of JAX's containers; arrays are NumPy's, JAX's or traced ones, and results NumPy's or
    traced ones. What is neither array nor number in a tree is static, as arguments named in
    `static_argnums` and `static_argnames` are. Arguments in `donate_argnums` are replaced in place
    by results of their type. Types are those that JAX's settings give (`jax_enable_x64`).

    A primitive of JAX without a rule is a `NoRuleError` that names it and the line that uses it;
    without JAX, a `ToolchainError` says how to install it.
    """
    if fun is None:
        return functools.partial(
            from_jax, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums,
        )  # fmt: skip
    if importlib.util.find_spec("jax") is None:
        raise ToolchainError(
            "from_jax needs JAX, which is not installed",
            source=calling_source(),
            remedy="pip install 'rlx[jax]', or run the program on rlx.jax, without JAX",
        )
    with importing():
        entry = importlib.import_module("rlx.jaxpr.entry")
    return entry.made(fun, static_argnums, static_argnames, donate_argnums)
