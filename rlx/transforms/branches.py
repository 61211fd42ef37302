"""Branches over trees of arrays: only the one taken is computed. Signatures are JAX's.

rlx.cond(x > 0, lambda x: rlx.numpy.log(x), lambda x: x, x)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError, RlxError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.source_lines import calling_source
from rlx.tracing.bodies import (
    apply,
    at_once,
    body_of,
    line_of,
    merged,
    require_arguments,
    require_scalar,
    specified,
    tracers,
    values_of,
)
from rlx.tracing.promotion import ElementType, promote_types
from rlx.tracing.pytree import leaf_paths, tree_flatten, tree_unflatten
from rlx.tracing.trace import as_value, element_type, source_names
from rlx.tracing.traced_function import TracedFunction, trace_body
from rlx.tracing.tracer import Tracer

Function = Callable[..., Any]
_ABSENT = object()


def cond(
    pred: Any, true_fun: Function, false_fun: Function, *operands: Any, operand: Any = _ABSENT
) -> Any:
    """Return `true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`.

    Only the branch taken is computed. `operand=` gives a single operand.
    """
    given = operands if operand is _ABSENT else (operand,)

    def run(pred: Any, operands: Any) -> Any:
        require_scalar("cond", "the predicate", pred)
        holds = pred if element_type(pred).dtype is DType.BOOL else rnp.not_equal(pred, 0)
        return _switch("cond", holds, [false_fun, true_fun], operands)

    return at_once("cond", run, pred, given)


def switch(index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _ABSENT) -> Any:
    """Return `branches[index](*operands)`; an index outside is clamped to the nearest branch.

    Only the branch taken is computed.
    """
    if not branches:
        raise InputError(
            "switch: there are no branches to choose from",
            source=calling_source(),
            remedy="give at least one function",
        )
    given = operands if operand is _ABSENT else (operand,)

    def run(index: Any, operands: Any) -> Any:
        require_scalar("switch", "the index", index)
        if not element_type(index).dtype.is_int:
            raise DTypeError(
                f"switch: the index has dtype {element_type(index).dtype}; it must be an integer",
                source=calling_source(),
                remedy="cast it with .astype('i32'), or use rlx.cond for a bool",
            )
        return _switch("switch", index, branches, operands)

    return at_once("switch", run, index, given)


def _switch(what: str, index: Any, branches: Sequence[Function], operands: Any) -> Any:
    leaves, tree = tree_flatten(operands)
    inputs = specified(tree, leaves, "x")

    names = [f"operand {i}" for i in range(len(operands))]
    for branch in branches:
        require_arguments(what, "branch", branch, names)

    def traced(branch: Function) -> TracedFunction:
        def call(arrays: list[Tracer]) -> Any:
            return branch(*tree_unflatten(tree, arrays))

        return trace_body(call, source_names(branch, "branch"), inputs)

    programs = [traced(branch) for branch in branches]
    joined = _joined(what, branches, programs)
    captured = merged(programs)
    dtypes = [type.dtype for type in joined]
    results = apply(
        ops.switch,
        [as_value(index), *values_of(leaves, inputs), *map(as_value, captured)],
        branches=tuple(body_of(p, captured, dtypes=dtypes) for p in programs),
    )
    return tree_unflatten(programs[0].tree, tracers(results, [type.weak for type in joined]))


def _joined(
    what: str, branches: Sequence[Function], programs: Sequence[TracedFunction]
) -> list[ElementType]:
    """Return the element types of the results, on which all branches must agree."""
    names = [source_names(branch, f"branch {i}") for i, branch in enumerate(branches)]
    first = programs[0]
    for name, branch, program in zip(names, branches, programs, strict=True):
        if program.tree != first.tree:
            raise InputError(
                f"{what}: branch {name!r} returns {program.tree} and branch {names[0]!r} "
                f"{first.tree}",
                source=line_of(branch),
                remedy="return the same structure from every branch",
            )
    paths = leaf_paths(first.tree, "result")
    return [_common_type(what, path, names, programs, i) for i, path in enumerate(paths)]


def _common_type(
    what: str, path: str, names: Sequence[str], programs: Sequence[TracedFunction], at: int
) -> ElementType:
    """Return the type of result `at`: weakly typed ones give way to the others."""
    outputs = [program.graph.outputs[at] for program in programs]
    types = [ElementType(p.graph.outputs[at].dtype, p.weak[at]) for p in programs]
    met = promote_types(types)
    for name, output, element in zip(names, outputs, types, strict=True):
        if output.shape != outputs[0].shape:
            error: type[RlxError] = ShapeError
            differ = "shape"
        elif element.dtype is not met.dtype and not element.weak:
            error = DTypeError
            differ = "dtype"
        else:
            continue
        other = next((i for i, o in enumerate(outputs) if o.type != output.type), 0)
        raise error(
            f"{what}: {path} of the branches differs in its {differ}: {output.type} in "
            f"{name!r}, {outputs[other].type} in {names[other]!r}",
            source=output.node.source or calling_source(),
            remedy="cast or reshape it to one type in every branch",
        )
    return met
