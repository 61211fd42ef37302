"""Random expressions over a few names: the bodies of loops and branches."""

from __future__ import annotations

import random

_ATOMS = ("0.5", "-1.0", "2.0", "0.25")
_UNARY = (
    "np.tanh({0})", "np.sin({0})", "-{0}", "np.abs({0})", "nn.sigmoid({0})", "nn.gelu({0})",
    "np.exp(-np.abs({0}))", "nn.relu({0})", "np.square(np.tanh({0}))", "nn.silu({0})",
    "np.sqrt(np.abs({0}) + 1)", "nn.softplus({0})", "nn.mish({0})", "np.arctan({0})",
)  # fmt: skip
_BINARY = (
    "({0} + {1})", "({0} - {1})", "np.tanh({0} * {1})", "np.maximum({0}, {1})",
    "np.minimum({0}, {1})", "np.where({0} > {1}, {0}, {1} * 0.5)", "({0} / (1 + np.abs({1})))",
)  # fmt: skip


def expression(pick: random.Random, names: list[str], depth: int = 3) -> str:
    """Return an expression of modest values over arrays of one shape."""
    if depth == 0 or pick.random() < 0.2:
        return pick.choice([*names, *names, pick.choice(_ATOMS)])
    if pick.random() < 0.5:
        return pick.choice(_UNARY).format(_array(pick, names, depth - 1))
    left, right = _array(pick, names, depth - 1), expression(pick, names, depth - 1)
    return pick.choice(_BINARY).format(left, right)


def like(pick: random.Random, name: str, names: list[str], depth: int = 3) -> str:
    """Return an expression with the shape and dtype of `name`."""
    inner = expression(pick, [name, *names], depth)
    return f"(np.tanh({name} * 0.5 + {inner}) * 1.0)"


def _array(pick: random.Random, names: list[str], depth: int) -> str:
    """Return an expression that is no bare number: functions of numbers are weakly typed."""
    inner = expression(pick, names, depth)
    return f"({inner} + {pick.choice(names)})" if inner in _ATOMS else inner
