"""Constants of f64 in programs of f32, in loops and branches too: NumPy decides on the bits.

Numbers of Python are of weak types and take the array's; numbers and arrays of NumPy have theirs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.draws.case import Call
from tests.fuzz.program import Array, draw

_NUMBERS = ("0.1", "2", "-1.5", "1e-3", "3.0000001", "True")
_TYPES = ("numpy.float64", "numpy.float32", "numpy.float64", "numpy.float16")
_ARRAYS = ("array(0.1)", "array([0.1, 0.2, -0.3])", "array([[0.7], [1e-9]])", "array([1e300])",
           "array([0.1, 0.2, 0.3], 'f4')")  # fmt: skip
_BINARY = (
    "({0} + {1})", "({0} - {1})", "({0} * {1})", "({1} - {0})", "np.maximum({0}, {1})",
    "np.minimum({1}, {0})", "np.where({0} > {1}, {0}, {1})", "({0} / ({1} * {1} + 1))",
    "np.add({1}, {0})", "np.multiply({0}, {1})", "np.stack(np.broadcast_arrays({0}, {0} * {1}))",
)  # fmt: skip
_UNARY = (
    "np.abs({0})", "(-{0})", "np.square({0})", "np.sqrt(np.abs({0}))", "np.flip({0}, -1)",
    "({0} == {0}).astype({0}.dtype)", "{0}.astype(numpy.float32)", "np.floor({0})",
    "np.max({0}, -1, keepdims=True)",
)  # fmt: skip
_SHAPES: tuple[tuple[int, ...], ...] = ((3,), (2, 3), (1,), (2, 1))
FORMS: dict[str, str] = {
    "plain": "lambda v0: {body}",
    "cond": "lambda v0: rlx.cond(v0[(0,) * v0.ndim] > 0, lambda v: {body}, "
    "lambda v: np.flip({body}, 0), v0)",
    "loop": "lambda v0: rlx.fori_loop(0, 3, lambda i, v: (({body}) * 0.25).astype(v.dtype)"
    " + v * 0, v0)",
    "scan": "lambda v0: rlx.scan(lambda c, v: (c, {body}), 0.0, v0)[1]",
    "vmap": "lambda v0: rlx.vmap(lambda v: {body})(v0)",
    "inner": "lambda v0: rlx.jit(lambda v: {body})(v0)",
}
"""Where constants are captured: the body's `v` is the argument, a part of it, or a carry."""


def case(pick: random.Random) -> Call:
    form = pick.choice(tuple(FORMS))
    rows = form in ("scan", "vmap")
    name = "v0" if form == "plain" else "v"
    body = _expression(pick, name, pick.randint(1, 4), constants=form != "rows")
    if form == "loop":  # carries keep their shapes
        body = _expression(pick, name, 2, constants=False)
    x = draw(np.random.default_rng(pick.getrandbits(32)), pick.choice(("f32", "f32", "f64", "f16")),
             (4, 3) if rows else pick.choice(_SHAPES))  # fmt: skip
    x = np.where(np.isfinite(x), x, 1).astype(x.dtype)

    def model(x: Array) -> Any:
        function: Callable[..., Any] = eval(f"lambda {name}: {body}", _NUMPY)
        if rows:
            return np.stack([np.asarray(function(row)) for row in x])
        if form == "loop":
            for _ in range(3):
                x = np.asarray((np.asarray(function(x)) * 0.25).astype(x.dtype)) + x * 0
            return x
        if form == "cond" and not x[(0,) * x.ndim] > 0:
            return np.flip(function(x), 0)
        return function(x)

    source = FORMS[form].format(body=body)
    return Call(f"f = {source}\n", (x,), model)


_NUMPY = {"np": np, "numpy": np, "array": np.array}


def _expression(pick: random.Random, name: str, depth: int, *, constants: bool) -> str:
    if depth == 0:
        return name
    inner = _expression(pick, name, depth - 1, constants=constants)
    if pick.random() < 0.25 and constants:
        return pick.choice(_UNARY).format(inner)
    return pick.choice(_BINARY if constants else _BINARY[:8]).format(
        inner, _constant(pick) if constants else _scalar(pick))  # fmt: skip


def _scalar(pick: random.Random) -> str:
    number = pick.choice(_NUMBERS[:5])
    return number if pick.random() < 0.4 else f"{pick.choice(_TYPES)}({number})"


def _constant(pick: random.Random) -> str:
    return pick.choice(_ARRAYS) if pick.random() < 0.4 else _scalar(pick)
