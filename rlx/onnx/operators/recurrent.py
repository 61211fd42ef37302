"""Recurrent layers as scans: one step is a row of projected inputs and the state before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx import nn
from rlx.errors import UnsupportedError
from rlx.onnx.operators.shape import reverse_sequence
from rlx.onnx.registry import operator
from rlx.transforms.control import scan

Activation = Callable[[Any], Any]

_DEFAULTS = {
    "LeakyRelu": (0.01, None), "ThresholdedRelu": (1.0, None), "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, None), "Affine": (1.0, 0.0), "ScaledTanh": (1.0, 1.0),
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Relu": lambda x, a, b: nn.relu(x),
    "Tanh": lambda x, a, b: nn.tanh(x),
    "Sigmoid": lambda x, a, b: nn.sigmoid(x),
    "Affine": lambda x, a, b: x * a + b,
    "LeakyRelu": lambda x, a, b: nn.leaky_relu(x, a),
    "ThresholdedRelu": lambda x, a, b: rnp.where(x > a, x, 0),
    "ScaledTanh": lambda x, a, b: nn.tanh(x * b) * a,
    "HardSigmoid": lambda x, a, b: rnp.clip(x * a + b, 0, 1),
    "Elu": lambda x, a, b: nn.elu(x, a),
    "Softsign": lambda x, a, b: nn.soft_sign(x),
    "Softplus": lambda x, a, b: nn.softplus(x),
}


def _activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Activation]:
    """Return the functions; those that take parameters take them from the lists in turn."""
    alpha, beta = iter(alphas), iter(betas)
    found = []
    for name in names:
        function = next((f for n, f in _FUNCTIONS.items() if n.lower() == name.lower()), None)
        if function is None:
            raise UnsupportedError(
                f"activation {name!r} is not in the standard",
                remedy=f"use one of: {', '.join(_FUNCTIONS)}",
            )
        a, b = _DEFAULTS.get(name, (None, None))
        a = next(alpha, a) if a is not None else None
        b = next(beta, b) if b is not None else None
        found.append(_bound(function, a, b))
    return found


def _bound(function: Callable[..., Any], a: float | None, b: float | None) -> Activation:
    return lambda x: function(x, a, b)


Step = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
"""(projected row, states) -> next states, the first of which is the output."""


def _run(
    x: Any, states: tuple[Any, ...], lengths: Any, backward: bool, step: Step
) -> tuple[Any, tuple[Any, ...]]:
    """Run `step` over the rows of `x` `[time, batch, ...]`; states rest behind `lengths`."""
    if backward:
        x = rnp.flip(x, 0) if lengths is None else reverse_sequence(x, lengths)

    def body(states: tuple[Any, ...], row: Any) -> Any:
        projected, time = row
        new = step(projected, states)
        if lengths is None:
            return new, new[0]
        lives = rnp.expand_dims(rnp.less(time, lengths), 1)
        kept = tuple(rnp.where(lives, n, o) for n, o in zip(new, states, strict=True))
        return kept, rnp.where(lives, new[0], 0)

    times = np.arange(x.shape[0])
    last, rows = scan(body, states, (x, times))
    if backward:
        rows = rnp.flip(rows, 0) if lengths is None else reverse_sequence(rows, lengths)
    return rows, last


def _layer(
    x: Any,
    directions: list[str],
    lengths: Any,
    initial: Sequence[Any],
    layout: int,
    run: Callable[[int, Any, tuple[Any, ...], bool], tuple[Any, tuple[Any, ...]]],
) -> tuple[Any, ...]:
    """Run one direction after the other; return Y and the last states, as `layout` has them."""
    if layout:
        x = rnp.swapaxes(x, 0, 1)
        initial = [None if s is None else rnp.swapaxes(s, 0, 1) for s in initial]
    del lengths
    outputs, states = [], []
    for number, direction in enumerate(directions):
        given = tuple(rnp.getitem(s, number) for s in initial)
        rows, last = run(number, x, given, direction == "reverse")
        outputs.append(rows)
        states.append(last)
    y = rnp.stack(outputs, 1)
    finals = [rnp.stack(list(each)) for each in zip(*states, strict=True)]
    if layout:
        y = rnp.transpose(y, (2, 0, 1, 3))
        finals = [rnp.swapaxes(each, 0, 1) for each in finals]
    return (y, *finals)


def _directions(direction: str) -> list[str]:
    return ["forward", "reverse"] if direction == "bidirectional" else [direction]


def _zeros(x: Any, directions: int, hidden: int, layout: int) -> Any:
    batch = x.shape[0] if layout else x.shape[1]
    shape = (batch, directions, hidden) if layout else (directions, batch, hidden)
    return np.zeros(shape, x.dtype)


def _clipped(x: Any, clip: float | None) -> Any:
    return x if clip is None else rnp.clip(x, -clip, clip)


def _matrices(w: Any, r: Any, b: Any, number: int) -> tuple[Any, Any, Any, Any]:
    """Return input and recurrent weights of a direction, transposed, and their biases."""
    size = r.shape[1]
    weights, recurrent = (rnp.transpose(rnp.getitem(m, number)) for m in (w, r))
    if b is None:
        zero = np.zeros(size, w.dtype)
        return weights, recurrent, zero, zero
    biases = rnp.getitem(b, number)
    return weights, recurrent, biases[:size], biases[size:]


@operator("RNN")
def rnn(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    *,
    hidden_size: int | None = None,
    direction: str = "forward",
    activations: Any = None,
    activation_alpha: Any = (),
    activation_beta: Any = (),
    clip: float | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> Any:
    """`h' = f(x W + h R + b)`."""
    del output_sequence
    ways = _directions(direction)
    hidden = hidden_size or r.shape[-1]
    functions = _activations(activations or ["Tanh"] * len(ways), activation_alpha, activation_beta)
    initial = _zeros(x, len(ways), hidden, layout) if initial_h is None else initial_h

    def run(number: int, x: Any, states: tuple[Any, ...], backward: bool) -> Any:
        weights, recurrent, wb, rb = _matrices(w, r, b, number)
        projected = rnp.matmul(x, weights) + (wb + rb)
        f = functions[number]

        def step(row: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
            return (f(_clipped(row + rnp.matmul(states[0], recurrent), clip)),)

        return _run(projected, states, lengths, backward, step)

    return _layer(x, ways, lengths, [initial], layout, run)


@operator("GRU")
def gru(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    *,
    hidden_size: int | None = None,
    direction: str = "forward",
    activations: Any = None,
    activation_alpha: Any = (),
    activation_beta: Any = (),
    clip: float | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Any:
    """Gates z (update) and r (reset), then the candidate h."""
    del output_sequence
    ways = _directions(direction)
    size = hidden_size or r.shape[-1]
    functions = _activations(
        activations or ["Sigmoid", "Tanh"] * len(ways), activation_alpha, activation_beta
    )
    initial = _zeros(x, len(ways), size, layout) if initial_h is None else initial_h

    def run(number: int, x: Any, states: tuple[Any, ...], backward: bool) -> Any:
        weights, recurrent, wb, rb = _matrices(w, r, b, number)
        f, g = functions[2 * number : 2 * number + 2]
        gates, candidate = recurrent[:, : 2 * size], recurrent[:, 2 * size :]
        inner = rb[2 * size :]
        outer = rnp.concatenate([wb[: 2 * size] + rb[: 2 * size], wb[2 * size :]], 0)
        projected = rnp.matmul(x, weights) + outer

        def step(row: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
            (h,) = states
            both = f(_clipped(row[:, : 2 * size] + rnp.matmul(h, gates), clip))
            update, reset = both[:, :size], both[:, size:]
            if linear_before_reset:
                mixed = reset * (rnp.matmul(h, candidate) + inner)
            else:
                mixed = rnp.matmul(reset * h, candidate) + inner
            new = g(_clipped(row[:, 2 * size :] + mixed, clip))
            return ((1 - update) * new + update * h,)

        return _run(projected, states, lengths, backward, step)

    return _layer(x, ways, lengths, [initial], layout, run)


@operator("LSTM")
def lstm(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    peepholes: Any = None,
    *,
    hidden_size: int | None = None,
    direction: str = "forward",
    activations: Any = None,
    activation_alpha: Any = (),
    activation_beta: Any = (),
    clip: float | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> Any:
    """Gates i, o, f and the candidate c; peepholes add parts of the cell to the gates."""
    del output_sequence
    ways = _directions(direction)
    size = hidden_size or r.shape[-1]
    functions = _activations(
        activations or ["Sigmoid", "Tanh", "Tanh"] * len(ways), activation_alpha, activation_beta
    )
    zeros = _zeros(x, len(ways), size, layout)
    initial = [zeros if initial_h is None else initial_h, zeros if initial_c is None else initial_c]

    def run(number: int, x: Any, states: tuple[Any, ...], backward: bool) -> Any:
        weights, recurrent, wb, rb = _matrices(w, r, b, number)
        f, g, h = functions[3 * number : 3 * number + 3]
        projected = rnp.matmul(x, weights) + (wb + rb)
        peeks = None if peepholes is None else rnp.getitem(peepholes, number)

        def step(row: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
            hidden, cell = states
            sums = row + rnp.matmul(hidden, recurrent)
            i, o, keep, new = (sums[:, k * size : (k + 1) * size] for k in range(4))
            if peeks is not None:
                i, keep = i + peeks[:size] * cell, keep + peeks[2 * size :] * cell
            i = f(_clipped(i, clip))
            keep = 1 - i if input_forget else f(_clipped(keep, clip))
            cell = keep * cell + i * g(_clipped(new, clip))
            if peeks is not None:
                o = o + peeks[size : 2 * size] * cell
            return f(_clipped(o, clip)) * h(cell), cell

        return _run(projected, states, lengths, backward, step)

    return _layer(x, ways, lengths, initial, layout, run)
