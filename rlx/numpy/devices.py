"""The keyword `device` of functions that make arrays: there is one device."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

from rlx.errors import InputError

P = ParamSpec("P")
DEVICE = "cpu"


def placed(body: Callable[P, Any]) -> Callable[..., Any]:
    """Give a function that makes arrays the keyword `device`; there is one device."""

    @functools.wraps(body)
    def call(*args: P.args, device: Any = None, **kwargs: P.kwargs) -> Any:  # type: ignore[valid-type]
        require_device(device)
        return body(*args, **kwargs)

    given = inspect.signature(body)
    device = inspect.Parameter("device", inspect.Parameter.KEYWORD_ONLY, default=None)
    call.__signature__ = given.replace(  # type: ignore[attr-defined]  # what `inspect` reads
        parameters=[*given.parameters.values(), device]
    )
    return call


def require_device(device: Any) -> None:
    """Raise InputError for another device than the one there is."""
    if device is not None and not str(device).startswith(DEVICE):
        raise InputError(
            f"device is {device!r}; arrays of rlx are on {DEVICE!r}",
            remedy=f"pass device={DEVICE!r}, or leave it out",
        )
