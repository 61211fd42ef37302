"""What JAX's functions do that has no counterpart here: devices, waiting, options of `jit`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx

_OF_DEVICES = frozenset({"device", "backend", "inline", "keep_unused", "abstracted_axes",
                         "in_shardings", "out_shardings", "donate_argnames",
                         "compiler_options"})  # fmt: skip


def jit(fun: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`rlx.jit`; options that are about devices are left out."""
    kept = {name: value for name, value in options.items() if name not in _OF_DEVICES}
    kept = {name: () if value is None else value for name, value in kept.items()}
    return functools.partial(jit, **kept) if fun is None else rlx.jit(fun, **kept)


def block_until_ready(x: Any) -> Any:
    """`x`: calls have finished when they return."""
    return x


def device_put(x: Any, device: Any = None, **_: Any) -> Any:
    """`x` as arrays: there is one device."""
    del device
    return rlx.tree_map(rlx.numpy.asarray, x)


def device_get(x: Any) -> Any:
    """`x` with plain NumPy arrays, over the same memory."""
    return rlx.tree_map(np.asarray, x)


def devices(backend: str | None = None) -> list[str]:
    """The one device."""
    del backend
    return ["cpu:0"]


def device_count(backend: str | None = None) -> int:
    """1."""
    return len(devices(backend))


local_device_count = device_count


def default_backend() -> str:
    """The name of the one kind of device."""
    return "cpu"
