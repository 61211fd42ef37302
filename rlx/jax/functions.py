"""JAX's transformations, with the arguments that those of `rlx` lack: devices, names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rlx
from rlx.tracing.trace import TracedArray, element_type, shape_of
from rlx.transforms.closure_convert import closure_convert as closure_convert
from rlx.transforms.custom_vjp import custom_vjp

_OF_DEVICES = frozenset({"device", "backend", "inline", "keep_unused", "abstracted_axes",
                         "in_shardings", "out_shardings", "donate_argnames",
                         "compiler_options"})  # fmt: skip


def jit(fun: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`rlx.jit`; options that are about devices are left out."""
    kept = {name: value for name, value in options.items() if name not in _OF_DEVICES}
    kept = {name: () if value is None else value for name, value in kept.items()}
    return functools.partial(jit, **kept) if fun is None else rlx.jit(fun, **kept)


def typeof(x: Any) -> rlx.ShapeDtypeStruct:
    """The shape and dtype of an array or number."""
    dtype = element_type(x).dtype
    weak = x.weak if isinstance(x, TracedArray) else getattr(x, "weak_type", False)
    return rlx.ShapeDtypeStruct(shape_of(x), dtype.numpy, weak_type=bool(weak))


def clear_caches() -> None:
    """Forget what was compiled for calls outside `jit`; compiled functions keep theirs."""
    rlx.clear_eager_cache()


def custom_gradient(fun: Callable[..., Any]) -> Any:
    """A function that returns its result and the pullback of a cotangent."""

    @custom_vjp
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def backward(saved: Any, cotangent: Any) -> tuple[Any, ...]:
        found = fun(*saved)[1](cotangent)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    wrapped.defvjp(lambda *args: (fun(*args)[0], args), backward)
    return wrapped
