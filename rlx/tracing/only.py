"""Parameters of NumPy's and SciPy's functions of which only some values are supported.

Functions have all parameters of theirs that can be given by position. Those without a meaning
here (`overwrite_a`, `check_finite`) are not read; of others, which would change the result, only
values that do not are accepted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from rlx.errors import MutationError, UnsupportedError

P = ParamSpec("P")
R = TypeVar("R")


def only(**supported: tuple[Any, ...]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Raise UnsupportedError for other arguments than these: `@only(order=(None, "C"))`."""

    def restrict(body: Callable[P, R]) -> Callable[P, R]:
        names = parameters(body)
        checked = [(name, names.index(name), values) for name, values in supported.items()]

        @functools.wraps(body)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, position, values in checked:
                if position < len(args):
                    _require(body, name, args[position], values)
                elif name in kwargs:
                    _require(body, name, kwargs[name], values)
            return body(*args, **kwargs)

        return call

    return restrict


def without_out(body: Callable[P, R]) -> Callable[P, R]:
    """Raise MutationError for an array to write to, if `body` has a parameter `out`."""
    return only(out=(None,))(body) if "out" in parameters(body) else body


def parameters(body: Any) -> tuple[str, ...]:
    """Return the names of the parameters of a function, or of the one that it wraps."""
    while hasattr(body, "__wrapped__"):
        body = body.__wrapped__
    code = body.__code__
    names: tuple[str, ...] = code.co_varnames
    return names[: code.co_argcount + code.co_kwonlyargcount]


def _require(body: Any, name: str, value: Any, values: tuple[Any, ...]) -> None:
    if (value is None or isinstance(value, (int, str))) and value in values:
        return
    if name == "out":
        raise MutationError(
            f"{body.__name__} is given out=, an array to write to; arrays do not change",
            remedy="use the result, as in x = f(x)",
        )
    listed = ", ".join(map(repr, values))
    raise UnsupportedError(
        f"{body.__name__}: {name} is {value!r:.40}; supported is {listed}",
        remedy=f"leave {name} out",
    )
