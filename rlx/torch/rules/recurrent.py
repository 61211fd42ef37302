"""Recurrent layers as scans: the cells are those of ONNX, with the gates in PyTorch's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.onnx.operators import recurrent
from rlx.torch.registry import rule


def _layers(
    run: Callable[..., Any], order: Sequence[int], x: Any, states: Sequence[Any],
    params: Sequence[Any], has_biases: bool, layers: int, bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Run layers one after the other; return the rows of the last, and all final states.

    `order` has the place, among PyTorch's gates, of each of ONNX's.
    """
    x = rnp.swapaxes(x, 0, 1) if batch_first else x
    ways = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    finals: list[list[Any]] = [[] for _ in states]
    for layer in range(layers):
        own = [params[each * (layer * ways + way) :][:each] for way in range(ways)]
        w, r = (rnp.stack([_ordered(p[i], order) for p in own]) for i in (0, 1))
        b = None
        if has_biases:
            rows = [rnp.concatenate([_ordered(p[i], order) for i in (2, 3)]) for p in own]
            b = rnp.stack(rows)
        given = [state[layer * ways : (layer + 1) * ways] for state in states]
        y, *last = run(
            x, w, r, b, None, *given, direction="bidirectional" if bidirectional else "forward"
        )
        steps, _, batch, width = y.shape
        x = rnp.reshape(rnp.swapaxes(y, 1, 2), (steps, batch, ways * width))
        for kept, state in zip(finals, last, strict=True):
            kept.append(state)
    x = rnp.swapaxes(x, 0, 1) if batch_first else x
    return (x, *(rnp.concatenate(kept) for kept in finals))


def _ordered(x: Any, order: Sequence[int]) -> Any:
    """Return rows of a matrix, or of biases, with the gates in another order."""
    size = x.shape[0] // len(order)
    return rnp.concatenate([x[gate * size : (gate + 1) * size] for gate in order])


def _require_kept(dropout: float, train: bool, layers: int) -> None:
    if dropout and train and layers > 1:
        raise UnsupportedError(
            f"a recurrent network drops a share of {dropout} between its layers, inside of one "
            "operator",
            remedy="set its dropout to 0, and apply dropout between layers of one each",
        )


@rule("lstm.input")
def lstm(
    x: Any, states: Sequence[Any], params: Sequence[Any], has_biases: bool, layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    _require_kept(dropout, train, layers)
    if states[0].shape[-1] != states[1].shape[-1]:
        raise UnsupportedError(
            "an LSTM with proj_size has states of two widths", remedy="project what it returns"
        )
    return _layers(
        recurrent.lstm, (0, 3, 1, 2), x, states, params, has_biases, layers, bidirectional,
        batch_first,
    )  # fmt: skip


def _of_one_state(run: Callable[..., Any], order: Sequence[int]) -> Callable[..., Any]:
    def apply(
        x: Any, state: Any, params: Sequence[Any], has_biases: bool, layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Any, ...]:  # fmt: skip
        _require_kept(dropout, train, layers)
        return _layers(
            run, order, x, [state], params, has_biases, layers, bidirectional, batch_first
        )

    return apply


def _gru(*operands: Any, **named: Any) -> Any:
    return recurrent.gru(*operands, linear_before_reset=1, **named)


def _relu_rnn(*operands: Any, direction: str) -> Any:
    names = ("Relu",) * (2 if direction == "bidirectional" else 1)
    return recurrent.rnn(*operands, activations=names, direction=direction)


rule("gru.input")(_of_one_state(_gru, (1, 0, 2)))
rule("rnn_tanh.input")(_of_one_state(recurrent.rnn, (0,)))
rule("rnn_relu.input")(_of_one_state(_relu_rnn, (0,)))
