"""Checks of the arguments of quantization, before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from rlx.errors import InputError
from rlx.ir.graph import Graph


def require_graph(what: str, graph: Any) -> None:
    """Raise InputError unless `graph` is one."""
    if not isinstance(graph, Graph):
        raise InputError(
            f"{what} takes a graph, not {type(graph).__name__}",
            remedy="pass an rlx.Graph; rlx.jit(f).graph(*arrays) is that of a function",
        )


def require_batches(batches: Any) -> None:
    """Raise InputError unless `batches` has inputs one after the other."""
    iterable = hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")
    if not iterable or isinstance(batches, Mapping | str | bytes):
        raise InputError(
            f"the calibration set is a {type(batches).__name__}",
            remedy="give an iterable of inputs, for example a list of batches",
        )


def require_params(params: Any) -> None:
    """Raise InputError unless the params of a graph have names."""
    if not isinstance(params, Mapping):
        raise InputError(
            f"the params of a graph are a {type(params).__name__}",
            remedy="give a mapping from names to arrays",
        )


def require_progress(stream: Any) -> None:
    """Raise InputError unless `stream` is True, False, None or what can be written to."""
    if not (stream is None or isinstance(stream, bool) or hasattr(stream, "write")):
        raise InputError(
            f"progress is {stream!r}", remedy="give True for the terminal, or a stream of text"
        )


def require_number(name: str, number: Any, wanted: str) -> None:
    """Raise InputError unless `number` is a real one."""
    plain = number.item() if isinstance(number, np.ndarray) and number.ndim == 0 else number
    if isinstance(plain, bool) or not isinstance(plain, Real):
        raise InputError(f"{name} is {number!r}", remedy=f"give {wanted}")
