"""Loops and branches: ops whose bodies are graphs.

scan         a body run a fixed number of times over carried values and rows of arrays
while_loop   a body run as long as a condition holds
switch       one of several bodies, picked at run time

A body is a graph without params or donations that sees nothing of the graph around it: every
outer value is an operand, bound by position to an input of the body. Building a node makes the
params that a body reads operands (`rlx.ir.captures`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.errors import DTypeError, GraphError, ShapeError
from rlx.ir.captures import Captures
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.lowering import OneKernel, lowered_by
from rlx.ir.op import Trait
from rlx.ir.types import TensorType

_FAMILY = "control"

_BEHIND_CONSTS = Captures(
    ("body",),
    lambda given, _: given["num_carries"] + given.get("num_consts", 0),
    count="num_consts",
)


@op(_FAMILY, Trait.CONTROL, captures=_BEHIND_CONSTS)
def scan(
    *operands: TensorType,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    checkpoints: int | None = None,
    residuals: int = 0,
) -> tuple[TensorType, ...]:
    """Run `body` `length` times: `carries, rows of ys = body(carries, consts, rows of xs)`.

    Operands are the first carries, the consts, and the `xs`, of shape `(length, *row)`; step
    `t` sees row `t` of each. Results are the last carries and, for every further output of
    the body, its rows stacked. With `reverse` the steps run from the last row to the first.
    `checkpoints` says how many steps' carries the reverse-mode derivative may store; what is
    between is computed again. The last `residuals` results exist for a backward sweep only.
    """
    _require_count("length", length, 0)
    _require_count("num_carries", num_carries, 0)
    _require_count("num_consts", num_consts, 0)
    if checkpoints is not None and not 1 <= checkpoints <= max(length, 1):
        raise GraphError(
            f"checkpoints is {checkpoints}; it must be in 1..{length}, the length",
            remedy="give a number of checkpoints from 1 to the length, or none",
        )
    first = num_carries + num_consts
    if len(operands) < first:
        raise GraphError(
            f"{len(operands)} operands are fewer than {num_carries} carries "
            f"and {num_consts} consts",
            remedy="give the carries, then the consts, then the scanned operands",
        )
    rows = [_row(operand, length, i) for i, operand in enumerate(operands[first:])]
    require_inputs(body, (*operands[:first], *rows))
    carries = operands[:num_carries]
    require_carries(body, carries)
    if not body.outputs:
        raise GraphError(
            f"the body {body.name!r} returns nothing, so that the loop has no result",
            remedy="leave the loop out, or return what it computes",
        )
    stacked = (o.type.with_shape((length, *o.shape)) for o in body.outputs[num_carries:])
    return (*carries, *stacked)


@op(_FAMILY, Trait.CONTROL, captures=Captures(("condition", "body"), count="num_consts"))
def while_loop(
    *operands: TensorType,
    condition: Graph,
    body: Graph,
    num_consts: int = 0,
    max_trips: int | None = None,
) -> tuple[TensorType, ...]:
    """Run `carries = body(carries, consts)` as long as `condition(carries, consts)` holds.

    A condition of several elements holds if all of them are nonzero. The results are the
    last carries and the number of trips, an i64; with `max_trips` the loop ends after so
    many at the latest, which the reverse-mode derivative requires.
    """
    _require_count("num_consts", num_consts, 0)
    if max_trips is not None:
        _require_count("max_trips", max_trips, 0)
    if len(operands) < num_consts:
        raise GraphError(
            f"{len(operands)} operands are fewer than {num_consts} consts",
            remedy="give the consts, then the scanned operands",
        )
    require_inputs(body, operands)
    require_inputs(condition, operands)
    carries = operands[: len(operands) - num_consts]
    require_carries(body, carries, exactly=True)
    if len(condition.outputs) != 1:
        raise GraphError(
            f"condition {condition.name!r} has {len(condition.outputs)} outputs; it must have one",
            remedy="return one bool from the condition",
        )
    return (*carries, TensorType(DType.I64, ()))


@lowered_by(scan, OneKernel)
@lowered_by(while_loop, OneKernel)
def _one_kernel(_: OneKernel, *__: TensorType, **___: object) -> None:
    """Accept the record `one_kernel`; code generation decides which bodies fit one kernel."""


@op(_FAMILY, Trait.CONTROL, captures=Captures(("branches",), leading=1))
def switch(
    selector: TensorType, *operands: TensorType, branches: tuple[Graph, ...]
) -> tuple[TensorType, ...]:
    """Apply one of `branches` to the operands: number `selector`, clamped to those there are.

    Only the branch taken is computed. A bool selects branch 0 or 1.
    """
    if selector.elements != 1:
        raise ShapeError(
            f"the selector has shape {selector.describe_shape()}; it must have one element",
            remedy="choose element by element with `where`",
        )
    if not selector.dtype.is_int and selector.dtype is not DType.BOOL:
        raise DTypeError(
            f"the selector has dtype {selector.dtype}; it must be an integer or bool",
            remedy="convert the selector with cast, or compare it",
        )
    if not branches:
        raise GraphError(
            "there are no branches to choose from",
            remedy="pass one branch or more",
        )
    for branch in branches:
        require_inputs(branch, operands)
    types = tuple(output.type for output in branches[0].outputs)
    for branch in branches[1:]:
        require_branch(branch, branches[0], types)
    return types


def require_inputs(body: Graph, given: Sequence[TensorType]) -> None:
    """Raise GraphError unless `body` takes values of the types `given` and has no params."""
    if body.params:
        raise GraphError(
            f"body {body.name!r} has param {body.params[0].node.name!r}",
            source=body.params[0].node.source,
            remedy="pass params into the body as operands",
        )
    if body.donations and any(leaf not in _names(body) for leaf in body.donations):
        raise GraphError(
            f"body {body.name!r} replaces a leaf that it does not have",
            remedy="mark updates in the graph, not in the body",
        )
    if len(body.inputs) != len(given):
        raise GraphError(
            f"body {body.name!r} takes {len(body.inputs)} inputs and was given {len(given)}",
            remedy="give one operand for each input of the body",
        )
    for position, (value, type) in enumerate(zip(body.inputs, given, strict=True)):
        if value.type != type:
            raise ShapeError(
                f"input {position} ({value.node.name!r}) of body {body.name!r} has type "
                f"{value.type} and was given {type}",
                source=value.node.source,
                remedy="give operands of the types that the body takes",
            )


def require_carries(body: Graph, carries: Sequence[TensorType], *, exactly: bool = False) -> None:
    """Raise unless the first outputs of `body` have the types of its carries."""
    count = len(body.outputs)
    if count < len(carries) or (exactly and count != len(carries)):
        raise GraphError(
            f"body {body.name!r} has {count} outputs and {len(carries)} carries; "
            f"it must return {'' if exactly else 'at least '}the next value of each carry",
            remedy="return the carries first",
        )
    for position, type in enumerate(carries):
        output = body.outputs[position]
        if output.type != type:
            raise _changed(body, position, output, type)


def _changed(body: Graph, position: int, output: Value, type: TensorType) -> Exception:
    """Return the error for a carry that comes out of the body with another type."""
    what = "dtype" if output.dtype is not type.dtype else "shape"
    error = DTypeError if what == "dtype" else ShapeError
    return error(
        f"body {body.name!r} changes the {what} of carry {position} "
        f"({body.inputs[position].node.name!r}): it enters as {type} and leaves as "
        f"{output.type} ({output.label}, {output.op.name})",
        source=output.node.source,
        remedy="cast or reshape the output, or the first value of the carry",
    )


def require_branch(branch: Graph, first: Graph, types: tuple[TensorType, ...]) -> None:
    """Raise unless `branch` returns values of `types`, as the branch `first` does."""
    if len(branch.outputs) != len(types):
        raise GraphError(
            f"branch {branch.name!r} has {len(branch.outputs)} outputs and branch "
            f"{first.name!r} has {len(types)}",
            remedy="return as many values from every branch",
        )
    for position, (output, type) in enumerate(zip(branch.outputs, types, strict=True)):
        if output.type != type:
            raise ShapeError(
                f"output {position} of branch {branch.name!r} has type {output.type}, "
                f"that of branch {first.name!r} {type}",
                source=output.node.source,
                remedy="cast or reshape the output, so that all branches agree",
            )


def _row(type: TensorType, length: int, position: int) -> TensorType:
    if type.rank == 0 or type.shape[0] != length:
        raise ShapeError(
            f"operand {position} has shape {type.describe_shape()}; the scanned operands of a "
            f"scan of length {length} have {length} rows",
            remedy="give scanned operands as many rows as the scan has steps",
        )
    return type.with_shape(type.shape[1:])


def _names(body: Graph) -> set[str | None]:
    return {value.node.name for value in body.inputs}


def _require_count(name: str, value: int, least: int) -> None:
    if value < least:
        raise GraphError(
            f"{name} is {value}; it must be at least {least}",
            remedy=f"give {least} or more",
        )


__all__ = ["require_carries", "require_inputs", "scan", "switch", "while_loop"]
