"""`jax.profiler`: the marks that programs leave; `rlx profile` and `perf` measure times."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from rlx.public_names import names_of as _names_of


class TraceAnnotation(nullcontext[None]):
    """A named part of a program, which is only run."""

    def __init__(self, name: str, **_: Any) -> None:
        super().__init__()
        self.name = name


class StepTraceAnnotation(TraceAnnotation):
    """A named step of a program, which is only run."""


def annotate_function(
    func: Callable[..., Any] | None = None, name: str | None = None, **_: Any
) -> Any:
    """`func` itself."""
    return functools.partial(annotate_function, name=name) if func is None else func


__dir__ = _names_of(__name__)
