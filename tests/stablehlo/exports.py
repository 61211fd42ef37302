"""Programs of JAX as `jax.export` writes them, run by rlx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import export

import rlx


def exported(function: Callable[..., Any], operands: Any) -> Any:
    return export.export(jax.jit(function))(*operands)


def plain(leaves: Any) -> list[Any]:
    """Return arrays, of typed keys the words."""
    return [np.asarray(jax.random.key_data(x) if _is_key(x) else x) for x in leaves]


def _is_key(x: Any) -> bool:
    return hasattr(x, "dtype") and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def results(function: Callable[..., Any], operands: Any, *, as_text: bool = False) -> Any:
    """Return what rlx computes of the module of an exported function, a list."""
    made = exported(function, operands)
    module = made.mlir_module() if as_text else made.mlir_module_serialized
    leaves = jax.tree_util.tree_leaves(operands)
    found = rlx.from_stablehlo(module)(*plain(leaves[i] for i in made.module_kept_var_idx))
    return list(found) if isinstance(found, tuple) else [found]


def expected(function: Callable[..., Any], operands: Any) -> list[Any]:
    return plain(jax.tree_util.tree_leaves(jax.jit(function)(*operands)))
