"""Recurrent layers as scans: one step is a row of projected inputs and the state before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx import nn
from rlx.errors import FormatError, UnsupportedError
from rlx.onnx.operators.contrib_quantized import dynamic_quantize_matmul
from rlx.onnx.operators.shape import positions, reverse_sequence
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
    """Run `step` over the rows of `x` `[time, batch, ...]`; states rest after `lengths`."""
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

    last, rows = scan(body, states, (x, positions(x.shape[0])))
    if backward:
        rows = rnp.flip(rows, 0) if lengths is None else reverse_sequence(rows, lengths)
    return rows, last


class QuantizedMatrix(NamedTuple):
    """Bytes of weights `[K, N]`, and their scale and zero point, one or one for each column."""

    codes: Any
    scale: Any
    zero: Any


def _times(x: Any, matrix: Any) -> Any:
    """Return `x @ matrix`; rows are rounded to bytes where the matrix consists of bytes."""
    if isinstance(matrix, QuantizedMatrix):
        return dynamic_quantize_matmul(x, *matrix)
    return rnp.matmul(x, matrix)


class Direction(NamedTuple):
    """What a cell is made of: the weights of one direction, and its functions."""

    weights: Any
    recurrent: Any
    outer: Any
    """Biases of the projected inputs."""
    inner: Any
    """Biases of the recurrent part."""
    functions: list[Activation]
    number: int


Cell = Callable[[Direction], tuple[Any, Step]]
"""Weights of a direction -> the biases of its projected rows, and its step."""


def _layer(
    x: Any,
    matrices: Sequence[tuple[Any, Any, Any, Any]],
    hidden: Any,
    cell: Cell,
    initial: Sequence[Any],
    functions: tuple[Sequence[str], Any, Any, Any],
    *,
    direction: str,
    lengths: Any,
    layout: int,
) -> tuple[Any, ...]:
    """Run one direction after the other; return Y and the last states, as `layout` has them.

    `matrices` has those of each direction, `hidden` is the width of a state. `functions` are the
    names that a cell has by default, those given, and their parameters.
    """
    defaults, names, alphas, betas = functions
    directions = ["forward", "reverse"] if direction == "bidirectional" else [direction]
    listed = _activations(names or [*defaults] * len(directions), alphas, betas)
    zeros = _zeros(x, len(directions), hidden, layout)
    initial = [zeros if state is None else state for state in initial]
    if layout:
        x = rnp.swapaxes(x, 0, 1)
        initial = [rnp.swapaxes(state, 0, 1) for state in initial]
    outputs, states = [], []
    for number, way in enumerate(directions):
        given = tuple(rnp.getitem(state, number) for state in initial)
        own = listed[number * len(defaults) : (number + 1) * len(defaults)]
        parts = Direction(*matrices[number], own, number)
        biases, step = cell(parts)
        projected = _times(x, parts.weights) + biases
        rows, last = _run(projected, given, lengths, way == "reverse", step)
        outputs.append(rows)
        states.append(last)
    y = rnp.stack(outputs, 1)
    finals = [rnp.stack(list(each)) for each in zip(*states, strict=True)]
    if layout:
        y = rnp.transpose(y, (2, 0, 1, 3))
        finals = [rnp.swapaxes(each, 0, 1) for each in finals]
    return (y, *finals)


def _zeros(x: Any, directions: int, hidden: int, layout: int) -> Any:
    batch = x.shape[0] if layout else x.shape[1]
    shape = (batch, directions, hidden) if layout else (directions, batch, hidden)
    return rnp.zeros(shape, x.dtype)


def _clipped(x: Any, clip: float | None) -> Any:
    return x if clip is None else rnp.clip(x, -clip, clip)


def _matrices(w: Any, r: Any, b: Any) -> list[tuple[Any, Any, Any, Any]]:
    """Return input and recurrent weights of each direction, transposed, and their biases."""
    if len(w.shape) != 3 or len(r.shape) != 3:
        raise FormatError(
            f"weights have shapes {list(w.shape)} and {list(r.shape)}, which are not "
            "[directions, gates * n, ...]",
            remedy="the model is malformed: export it again",
        )
    size, hidden = r.shape[1:]
    if isinstance(hidden, int) and hidden and size % hidden:
        raise FormatError(
            f"recurrent weights have shape {list(r.shape)}, which is not [..., gates * n, n]",
            remedy="the model is malformed: export it again",
        )
    count = range(r.shape[0])
    pairs = [[rnp.transpose(rnp.getitem(m, number)) for m in (w, r)] for number in count]
    return [(*pairs[n], *_biases(b, n, size, w.dtype)) for n in count]


def _biases(b: Any, number: int, size: Any, dtype: Any) -> tuple[Any, Any]:
    """Return the biases of the inputs and of the states."""
    if b is None:
        zero = np.zeros(size, dtype)
        return zero, zero
    biases = rnp.getitem(b, number)
    return biases[:size], biases[size:]


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
    del output_sequence, hidden_size

    def cell(parts: Direction) -> tuple[Any, Step]:
        (f,) = parts.functions

        def step(row: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
            return (f(_clipped(row + rnp.matmul(states[0], parts.recurrent), clip)),)

        return parts.outer + parts.inner, step

    functions = (("Tanh",), activations, activation_alpha, activation_beta)
    return _layer(
        x, _matrices(w, r, b), r.shape[-1], cell, [initial_h], functions,
        direction=direction, lengths=lengths, layout=layout,
    )  # fmt: skip


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
    del output_sequence, hidden_size
    size = r.shape[-1]

    def cell(parts: Direction) -> tuple[Any, Step]:
        f, g = parts.functions
        gates, candidate = parts.recurrent[:, : 2 * size], parts.recurrent[:, 2 * size :]
        inner = parts.inner[2 * size :]

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

        both = parts.outer[: 2 * size] + parts.inner[: 2 * size]
        return rnp.concatenate([both, parts.outer[2 * size :]], 0), step

    functions = (("Sigmoid", "Tanh"), activations, activation_alpha, activation_beta)
    return _layer(
        x, _matrices(w, r, b), r.shape[-1], cell, [initial_h], functions,
        direction=direction, lengths=lengths, layout=layout,
    )  # fmt: skip


def _lstm(
    x: Any,
    matrices: Sequence[tuple[Any, Any, Any, Any]],
    states: Sequence[Any],
    lengths: Any,
    peepholes: Any,
    layout: int = 0,
    *,
    hidden_size: int | None = None,
    direction: str = "forward",
    activations: Any = None,
    activation_alpha: Any = (),
    activation_beta: Any = (),
    clip: float | None = None,
    input_forget: int = 0,
    output_sequence: int = 0,
) -> Any:
    """Gates i, o, f and the candidate c; peepholes add parts of the cell to the gates."""
    del hidden_size, output_sequence
    size = matrices[0][2].shape[0] // 4

    def cell(parts: Direction) -> tuple[Any, Step]:
        f, g, h = parts.functions
        peeks = None if peepholes is None else rnp.getitem(peepholes, parts.number)

        def step(row: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
            hidden, cell = states
            sums = row + _times(hidden, parts.recurrent)
            i, o, keep, new = (sums[:, k * size : (k + 1) * size] for k in range(4))
            if peeks is not None:
                i, keep = i + peeks[:size] * cell, keep + peeks[2 * size :] * cell
            i = f(_clipped(i, clip))
            keep = 1 - i if input_forget else f(_clipped(keep, clip))
            cell = keep * cell + i * g(_clipped(new, clip))
            if peeks is not None:
                o = o + peeks[size : 2 * size] * cell
            return f(_clipped(o, clip)) * h(cell), cell

        return parts.outer + parts.inner, step

    functions = (("Sigmoid", "Tanh", "Tanh"), activations, activation_alpha, activation_beta)
    return _layer(
        x, matrices, size, cell, states, functions,
        direction=direction, lengths=lengths, layout=layout,
    )  # fmt: skip


@operator("LSTM", rest=_lstm)
def lstm(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, initial_h: Any = None,
    initial_c: Any = None, peepholes: Any = None, *, layout: int = 0, **cell: Any,
) -> Any:  # fmt: skip
    states = [initial_h, initial_c]
    return _lstm(x, _matrices(w, r, b), states, lengths, peepholes, layout, **cell)


@operator("DynamicQuantizeLSTM", domain="com.microsoft", rest=_lstm)
def dynamic_quantize_lstm(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, initial_h: Any = None,
    initial_c: Any = None, peepholes: Any = None, w_scale: Any = None, w_zero: Any = None,
    r_scale: Any = None, r_zero: Any = None, **cell: Any,
) -> Any:  # fmt: skip
    """`LSTM` whose weights `[directions, K, 4 * n]` are bytes; inputs and states are rounded."""
    parts = [(w, w_scale, w_zero), (r, r_scale, r_zero)]
    matrices = [
        (
            *(QuantizedMatrix(*(rnp.getitem(each, number) for each in part)) for part in parts),
            *_biases(b, number, r.shape[2], x.dtype),
        )
        for number in range(r.shape[0])
    ]
    return _lstm(x, matrices, [initial_h, initial_c], lengths, peepholes, **cell)
