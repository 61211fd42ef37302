"""Calls of the public functions with keywords and defaults, drawn from their signatures.

A parameter is drawn by its name (`library_parameters`). `undrawn` lists parameters that have no
strategy and no reason to have none; a test holds that it is empty.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tests.fuzz.draws.case import Call
from tests.fuzz.draws.library_functions import EXCUSED, FUNCTIONS, NOT_DRAWN
from tests.fuzz.draws.library_parameters import PARAMETERS, Text
from tests.fuzz.program import NAMES
from tests.jax.drawn import Always, Draw, Given

MODULES: Mapping[str, str] = {
    "rlx.numpy": "np", "rlx.numpy.linalg": "np.linalg", "rlx.numpy.fft": "np.fft",
    "rlx.lax": "lax", "rlx.lax.linalg": "lax.linalg", "rlx.nn": "nn",
    "rlx.nn.initializers": "nn.initializers", "rlx.scipy.linalg": "scipy.linalg",
    "rlx.scipy.special": "scipy.special", "rlx.scipy.signal": "scipy.signal",
    "rlx.scipy.ndimage": "scipy.ndimage", "rlx.scipy.fft": "scipy.fft",
    "rlx.scipy.stats": "scipy.stats", "rlx.scipy.optimize": "scipy.optimize",
}  # fmt: skip
_GIVEN = 0.4
"""How often a parameter that has a default is given."""
_CONSTANT = 0.15
"""How often an array is a constant of the program, not an argument."""


@functools.cache
def functions() -> Mapping[str, Callable[..., Any]]:
    """Return the public functions by the names that sources call them by, each once."""
    found: dict[str, Callable[..., Any]] = {}
    seen = set[int]()
    for module, prefix in MODULES.items():
        source = importlib.import_module(module)
        for name in dir(source):  # sorted, with what is imported at its first use
            full, value = f"{prefix}.{name}", getattr(source, name)
            if _is_public(name, value) and full not in NOT_DRAWN and id(value) not in seen:
                seen.add(id(value))
                found[full] = value
    return found


def _is_public(name: str, value: Any) -> bool:
    if name.startswith("_") or isinstance(value, type) or not callable(value):
        return False
    of = getattr(value, "__module__", None) or ""
    if not of.startswith("rlx"):
        return False
    return not of.startswith(("rlx.ir", "rlx.tracing", "rlx.runtime", "rlx.numpy.axes"))


def parameters(name: str) -> list[inspect.Parameter]:
    return list(inspect.signature(functions()[name]).parameters.values())


def undrawn() -> Iterator[tuple[str, str]]:
    """Yield each function and parameter of it that is never drawn, and has no excuse."""
    for name in functions():
        own = FUNCTIONS.get(name, {})
        for each in parameters(name):
            if each.name not in own and each.name not in PARAMETERS and not _excused(name, each):
                yield name, each.name


def _excused(name: str, each: inspect.Parameter) -> bool:
    is_needed = each.default is each.empty and each.kind not in (each.VAR_KEYWORD,)
    return not is_needed and (each.name in EXCUSED or f"{name}({each.name})" in EXCUSED)


def case(pick: random.Random) -> Call:
    return of(pick.choice(sorted(functions())), pick)


def of(name: str, pick: random.Random) -> Call:
    """Return a call of one function."""
    d = Draw(np.random.default_rng(pick.getrandbits(32)))
    generators, given = {**PARAMETERS, **FUNCTIONS.get(name, {})}, Given()
    needed_first = sorted(parameters(name), key=lambda p: p.default is not p.empty)
    for each in needed_first:
        is_needed = each.default is each.empty and each.kind is not each.VAR_KEYWORD
        is_given = isinstance(generators.get(each.name), Always) or d.chance(_GIVEN)
        if is_needed or (each.name in generators and is_given):
            given[each.name] = generators[each.name](d, given)
    arrays: list[Any] = []
    written = [_argument(each, given[each.name], arrays, d)
               for each in parameters(name) if each.name in given]  # fmt: skip
    names = ", ".join(f"v{i}" for i in range(len(arrays)))
    return Call(
        f"def f({names}):\n    return {name}({', '.join(filter(None, written))})\n", tuple(arrays)
    )


def _argument(each: inspect.Parameter, value: Any, arrays: list[Any], d: Draw) -> str:
    if each.kind is each.VAR_POSITIONAL:
        return ", ".join(_text(one, arrays, d) for one in value)
    if each.kind is each.VAR_KEYWORD:
        return ", ".join(f"{key}={_text(one, arrays, d)}" for key, one in value.items())
    text = _text(value, arrays, d)
    by_name = each.kind is each.KEYWORD_ONLY or each.default is not each.empty
    return f"{each.name}={text}" if by_name else text


def _text(value: Any, arrays: list[Any], d: Draw) -> str:
    """Return a value as source; an array becomes an argument, but for some constants."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, np.ndarray):
        if d.chance(_CONSTANT):
            return f"array({value.tolist()!r}, DTYPES[{NAMES[value.dtype]!r}])"
        arrays.append(value)
        return f"v{len(arrays) - 1}"
    if isinstance(value, list):
        return f"[{', '.join(_text(one, arrays, d) for one in value)}]"
    if isinstance(value, tuple) and any(isinstance(one, np.ndarray) for one in value):
        return f"({', '.join(_text(one, arrays, d) for one in value)},)"
    return repr(value.item() if isinstance(value, np.generic) else value)
