"""JAX's abstract values as types of rlx: dtypes, shapes, keys.

A typed key is an array of u32 with one more axis, of the words of its generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from rlx.ir.shape import Extent
from rlx.jaxpr.internals import HOST_ARRAYS, is_key, key_words
from rlx.jaxpr.symbols import extent_of
from rlx.runtime.arrays import frozen
from rlx.tracing.trace import TracedArray

THREEFRY = "threefry2x32"
"""The name of JAX's default generator."""


def dtype_of(aval: Any) -> np.dtype[Any]:
    """Return the dtype of the array of rlx for an abstract value."""
    if is_key(aval):
        return np.dtype(np.uint32)
    dtype = np.dtype(aval.dtype)
    return np.dtype(bool) if dtype == jax.dtypes.float0 else dtype


def shape_of_aval(aval: Any) -> tuple[Extent, ...]:
    """Return the shape of the array of rlx for an abstract value."""
    words = (key_words(aval.dtype),) if is_key(aval) else ()
    return (*(extent_of(extent) for extent in aval.shape), *words)


def words_of_keys(x: Any) -> np.ndarray[Any, Any]:
    """Return typed keys of JAX as an array of u32."""
    return np.asarray(jax.random.key_data(x))


def host_array(x: Any) -> Any:
    """Return an array of JAX as one of NumPy, sharing its memory; anything else as it is."""
    if not isinstance(x, HOST_ARRAYS):
        return x
    return x if is_key(x) else np.asarray(x)


def argument_array(x: Any) -> Any:
    """Return `host_array(x)`, which keeps that a type is weak."""
    found = host_array(x)
    return frozen(found, weak=True) if getattr(x, "weak_type", False) and found is not x else found


@dataclass(frozen=True, slots=True)
class Key:
    """Typed keys of JAX while rlx traces: their words, and the name of their generator."""

    words: Any
    implementation: str = THREEFRY

    @property
    def aval(self) -> Any:
        """The abstract value that JAX traces."""
        dtype = jax.random.key(0, impl=self.implementation).dtype
        return jax.ShapeDtypeStruct(self.words.shape[:-1], dtype)

    @staticmethod
    def join(implementation: Any, children: list[Any]) -> Any:
        """Return keys of JAX, or, of a traced array, a `Key`."""
        (words,) = children
        if isinstance(words, TracedArray) or not isinstance(words, np.ndarray):
            return Key(words, implementation)
        return jax.random.wrap_key_data(np.asarray(words), impl=implementation)
