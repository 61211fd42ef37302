"""`named_scope` and `named_call`: names for parts of a program, which its nodes carry."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlx.tracing.trace import current_trace, source_names, suspended


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Mark what is traced inside as part of `name`; scopes nest with a dot."""
    target = current_trace()
    if target is None:
        yield
        return
    with target.graph.scope(name):
        yield


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """Return `fun` whose nodes are marked as part of `name`, by default its own name."""
    scope = source_names(fun, "function") if name is None else name

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        with named_scope(scope):
            return fun(*args, **kwargs)

    return call


# What is known


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Compute what is known at once inside, as outside of any trace; traced arrays are refused."""
    with suspended():
        yield
