"""Wrappers of functions with the function's name, documentation and attributes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def stand_for(wrapper: Any, fun: Callable[..., Any]) -> None:
    """Copy the name, documentation and attributes of `fun`; `wrapper` keeps attributes it has.

    `functools.update_wrapper` copies all of a function's attributes; where that is such an object
    itself, its state would be taken for the wrapper's.
    """
    functools.update_wrapper(wrapper, fun, updated=())
    own = dir(type(wrapper))
    for name, value in getattr(fun, "__dict__", {}).items():
        if not name.startswith("_") and name not in own:
            setattr(wrapper, name, value)
