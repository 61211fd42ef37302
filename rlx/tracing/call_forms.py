"""Calls in the form that NumPy and JAX document: their names of parameters, in their order.

A function of ours names its arrays `x` and `y`, as the array API standard does, and has the
parameters that it reads. NumPy's have other names (`a`), and some that decide nothing here
(`out`). A call that does not fit ours is bound by the form of theirs: `numpy.sum` is stated
as `"a=x axis dtype out keepdims initial where"`, whose `a` is our `x`. Calls that fit cost nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rlx.errors import UnsupportedError

_ANY = object()
_IDLE: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            "overwrite_a",
            "overwrite_b",
            "overwrite_input",
            "overwrite_data",
            "check_finite",
            "debug",
            "lwork",
            "turbo",
            "optimize",
            "unique_indices",
            "indices_are_sorted",
            "precision",
            "accuracy",
            "out_sharding",
            "device",
            "copy",
            "implementation",
            "subok",
            "allow_negative_indices",
            "bucket_size",
            "assume_unique_indices",
            "lapack_driver",
            "_dot_general",
            "unroll",
            "method",
            "_split_transpose",
        ),
        _ANY,
    ),
    "order": (None, "C", "K", "A"),
    "promote_integers": (True,),
    "nan_policy": ("propagate",),
    "where": (None, True),
    "sparse": (False,),
    "dtype": (None,),
}
"""Parameters of which nothing depends here, and the values for which that is so.

Of other parameters these are None and False.
"""


def states(form: str, function: Callable[..., Any]) -> None:
    """Let `function`, made by `rlx.tracing.apply.function`, be called by a form of parameters."""
    parts = [part.partition("=") for part in form.split()]
    names = [name for name, _, _ in parts]
    body: Any = inspect.unwrap(function)
    body.call_form = names, {name: own or name for name, _, own in parts}


def bind_parameters(
    body: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the arguments by our names, or None: the call fits, or fits no form either."""
    signature = inspect.signature(body)
    names, own = getattr(body, "call_form", (list(signature.parameters), {}))
    if len(args) > len(names) or _fits(signature, args, kwargs):
        return None
    given = dict(zip(names, args, strict=False))
    if given.keys() & kwargs.keys():
        return None
    found: dict[str, Any] = {}
    for name, value in {**given, **kwargs}.items():
        ours = own.get(name, name)
        if ours in signature.parameters:
            found[ours] = value
        elif name not in names and name not in _IDLE:
            return None
        else:
            _require_idle(body, name, value)
    return found if _fits(signature, (), found) else None


def _fits(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _require_idle(body: Callable[..., Any], name: str, value: Any) -> None:
    values = _IDLE.get(name, (None, False))
    is_plain = value is None or isinstance(value, (bool, str))
    if values is not _ANY and not (is_plain and value in values):
        raise UnsupportedError(
            f"{body.__name__}: {name} is {value!r:.40}, which has no meaning here",
            remedy=f"leave {name} out"
            if name != "out"
            else "use the result, as arrays do not change",
        )
