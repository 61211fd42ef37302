"""Branches and loops: through ours, or resolved where what decides them is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import LimitError, RlxError
from rlx.limits import current_budget
from rlx.onnx.errors import ValueNeededError
from rlx.onnx.operators.shape import listable
from rlx.onnx.registry import operator
from rlx.onnx.types import numpy_dtype
from rlx.onnx.values import is_known
from rlx.transforms.branches import cond as branch
from rlx.transforms.control import scan as run_scan
from rlx.transforms.control import while_loop

_MOST_UNROLLED = 256
"""Trips of a loop whose values change their shapes."""


class _NotALoopError(Exception):
    """The body cannot be one graph for all steps."""


@operator("If")
def if_(condition: Any, *, then_branch: Any, else_branch: Any, node: Any) -> Any:
    if isinstance(condition, np.ndarray):
        return tuple((then_branch if np.all(condition) else else_branch)())
    try:
        taken = rnp.reshape(condition, ())
        return tuple(branch(taken, lambda: _leaves(then_branch()), lambda: _leaves(else_branch())))
    except LimitError:
        raise
    except RlxError as error:
        raise ValueNeededError(
            f"the branches differ in what they give: {error.message}",
            names=node.proto.input[:1],
            remedy="run the model in rlx.onnx.InferenceSession, which takes one branch",
        ) from error


def _leaves(values: Sequence[Any]) -> list[Any]:
    """Return tensors; a branch that gives sequences must be resolved."""
    if any(value is None or isinstance(value, list) for value in values):
        raise ValueNeededError("a branch gives a sequence or an optional")
    return list(values)


@operator("Loop")
def loop(trips: Any = None, condition: Any = None, *carried: Any, body: Any, node: Any) -> Any:
    """A scan where the number of trips is known, a while loop where nothing is collected."""
    count = None if trips is None else trips
    if isinstance(condition, np.ndarray) and not np.all(condition):
        count, condition = np.asarray(0), None
    stays = condition is None or isinstance(condition, np.ndarray)
    is_counted = isinstance(count, np.ndarray) and stays
    collected = node.outputs - len(carried)
    if any(value is None or isinstance(value, list) for value in carried):
        return _unrolled(count, condition, carried, body)
    try:
        if is_counted:
            return _counted(_known_number(count), carried, body)
        if collected == 0:
            return _while(count, condition, carried, body)
    except _NotALoopError:
        pass
    except ValueNeededError:
        if not is_counted:
            raise
    except LimitError:
        raise
    except RlxError:
        if not is_counted and not all(map(is_known, (count, condition, *carried))):
            raise ValueNeededError("a loop whose values change their shapes") from None
    return _unrolled(count, condition, carried, body)


def _counted(count: int, carried: Sequence[Any], body: Any) -> Any:
    if count == 0:
        raise _NotALoopError

    def step(values: tuple[Any, ...], index: Any) -> Any:
        goes_on, *results = body(index, np.asarray(True), *values)
        if not isinstance(goes_on, np.ndarray) or not np.all(goes_on):
            raise _NotALoopError
        if any(r is None or isinstance(r, list) for r in results):
            raise _NotALoopError
        return tuple(results[: len(values)]), tuple(results[len(values) :])

    values, rows = run_scan(
        step, tuple(carried), np.arange(listable(count, "the loop"), dtype=np.int64)
    )
    return (*values, *rows)


def _while(count: Any, condition: Any, carried: Sequence[Any], body: Any) -> Any:
    """Run until the body says stop, or `count` trips are made."""
    first = np.asarray(True) if condition is None else condition
    most = np.iinfo(np.int64).max if count is None else count

    def goes_on(state: Any) -> Any:
        index, holds, _ = state
        return rnp.logical_and(rnp.reshape(holds, ()), rnp.less(index, rnp.reshape(most, ())))

    def step(state: Any) -> Any:
        index, holds, values = state
        holds, *results = body(index, holds, *values)
        return index + 1, rnp.reshape(rnp.asarray(as_bool(holds)), ()), tuple(results)

    start = (np.asarray(0, np.int64), rnp.reshape(as_bool(first), ()), tuple(carried))
    return while_loop(goes_on, step, start)[2]


def as_bool(value: Any) -> Any:
    return rnp.astype(value, "bool")


def _unrolled(count: Any, condition: Any, carried: Sequence[Any], body: Any) -> Any:
    """Append every trip; whether there is another must be known."""
    values = list(carried)
    rows: list[list[Any]] = [[] for _ in body.outputs[1 + len(carried) :]]
    index, goes_on = 0, condition
    most = None if count is None else _known_number(count)
    while most is None or index < most:
        current_budget().charge_nodes()
        if goes_on is not None and not _known_number(goes_on):
            break
        if index >= _MOST_UNROLLED and not all(map(is_known, values)):
            raise ValueNeededError(
                f"a loop of more than {_MOST_UNROLLED} trips whose values change their shapes",
                remedy="run the model in rlx.onnx.InferenceSession",
            )
        goes_on, *results = body(np.asarray(index, np.int64), _condition(goes_on), *values)
        values = results[: len(carried)]
        for row, result in zip(rows, results[len(carried) :], strict=True):
            row.append(result)
        index += 1
    return (*values, *(_stacked(row, body, i + len(carried)) for i, row in enumerate(rows)))


def _condition(value: Any) -> Any:
    return np.asarray(True) if value is None else value


def _known_number(value: Any) -> int:
    if not isinstance(value, np.ndarray):
        raise ValueNeededError("whether a loop goes on is known at run time only")
    return int(np.reshape(value, ()))


def _stacked(row: list[Any], body: Any, place: int) -> Any:
    if row:
        return rnp.stack(row)
    declared = body.proto.output[place + 1].type.tensor_type

    extents = [d.dim_value for d in declared.shape.dim]
    return np.zeros((0, *extents), numpy_dtype(declared.elem_type))


@operator("Scan", since=9)
def scan(
    *inputs: Any,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Any = None,
    scan_input_directions: Any = None,
    scan_output_axes: Any = None,
    scan_output_directions: Any = None,
) -> Any:
    states = inputs[: len(inputs) - num_scan_inputs]
    rows = inputs[len(states) :]
    axes = scan_input_axes or (0,) * len(rows)
    backward = scan_input_directions or (0,) * len(rows)
    xs = tuple(
        _oriented(rnp.moveaxis(x, axis, 0), 0, back)
        for x, axis, back in zip(rows, axes, backward, strict=True)
    )

    def step(values: tuple[Any, ...], row: Any) -> Any:
        results = body(*values, *row)
        return tuple(results[: len(values)]), tuple(results[len(values) :])

    last, collected = run_scan(step, tuple(states), xs)
    axes = scan_output_axes or (0,) * len(collected)
    backward = scan_output_directions or (0,) * len(collected)
    found = (
        rnp.moveaxis(_oriented(y, 0, back), 0, axis)
        for y, axis, back in zip(collected, axes, backward, strict=True)
    )
    return (*last, *found)


def _oriented(x: Any, axis: int, backward: int) -> Any:
    return rnp.flip(x, axis) if backward else x


@operator("Scan")
def scan_8(
    lengths: Any = None, *inputs: Any, body: Any, num_scan_inputs: int, directions: Any = None
) -> Any:
    """Below opset 9 every input has a batch axis in front."""
    if lengths is not None:
        raise ValueNeededError("a scan of sequences of different lengths")
    backward = directions or (0,) * num_scan_inputs
    batch = inputs[0].shape[0]
    found = []
    for number in range(batch):
        given = [rnp.getitem(x, number) for x in inputs]
        found.append(scan(*given, body=body, num_scan_inputs=num_scan_inputs,
                          scan_input_directions=backward))  # fmt: skip
    return tuple(rnp.stack(list(each)) for each in zip(*found, strict=True))
