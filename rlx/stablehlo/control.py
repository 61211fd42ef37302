"""Rules of calls, loops and branches: control flow stays control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

import rlx.numpy as rnp
from rlx.stablehlo.extents import plain
from rlx.stablehlo.interpret import Operation, rule, rule_of, run_function
from rlx.stablehlo.regions import tree_of
from rlx.tracing.trace import TracedArray, element_type
from rlx.transforms import branches, control


@rule("func.call", takes_numbers=True)
def call(operation: Operation, *operands: Any) -> Any:
    callee = ir.FlatSymbolRefAttr(operation.attribute("callee")).value
    return run_function(operation.scope.program, callee, operands)


@rule("stablehlo.composite", takes_numbers=True)
def composite(operation: Operation, *operands: Any) -> Any:
    """The rule of the composite's name if there is one, else its decomposition."""
    name = ir.StringAttr(operation.attribute("name")).value
    function = rule_of(name) if name.startswith("chlo.") else None
    if function is not None:
        given = operation.attribute("composite_attributes")
        inner = Operation(operation.op, operation.scope, {} if given is None else given)
        return function(inner, *map(plain, operands))
    callee = ir.FlatSymbolRefAttr(operation.attribute("decomposition")).value
    return run_function(operation.scope.program, callee, operands)


@rule("sdy.sharding_constraint", "stablehlo.optimization_barrier", takes_numbers=True)
def identity(_: Operation, *operands: Any) -> Any:
    """The operands: devices and order of effects do not apply."""
    return list(operands)


@rule("stablehlo.tuple", takes_numbers=True)
def tuple_(_: Operation, *operands: Any) -> Any:
    return [_Tuple(operands)]


class _Tuple:
    """Values that an operation holds together; no list, as these are several results."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


@rule("stablehlo.get_tuple_element", takes_numbers=True)
def get_tuple_element(operation: Operation, together: _Tuple) -> Any:
    return together.values[operation.integer("index")]


@rule("stablehlo.after_all", "stablehlo.create_token", takes_numbers=True)
def after_all(*_: Any) -> Any:
    """Effects keep their order without tokens."""
    return None


@rule("stablehlo.while")
def while_loop(operation: Operation, *init: Any) -> Any:
    counter = _counter(operation, init)
    if counter is not None:
        place, last = counter
        rest = tuple(x for i, x in enumerate(init) if i != place)
        dtype = element_type(init[place]).dtype.numpy

        def body(number: Any, others: Any) -> Any:
            given = list(others)
            given.insert(place, rnp.astype(number, dtype))
            found = operation.region(1, *given)
            return tuple(plain(x) for i, x in enumerate(found) if i != place)

        results = list(control.fori_loop(int(init[place]), last, body, rest))
        results.insert(place, np.asarray(max(last, int(init[place])), dtype))
        return results

    def holds(carry: Any) -> Any:
        return plain(operation.region(0, *carry)[0])

    def step(carry: Any) -> Any:
        return tuple(map(plain, operation.region(1, *carry)))

    return list(control.while_loop(holds, step, tuple(init)))


def _counter(operation: Operation, init: tuple[Any, ...]) -> tuple[int, int] | None:
    """Return the carry that counts the trips of a loop, and its end, if both are known.

    Such a loop has derivatives in both modes.
    """
    test = tree_of(operation, 0, 0)
    if not isinstance(test, tuple) or test[0] != "stablehlo.compare" or test[1][0] != "LT":
        return None
    place, last = test[2:]
    if not isinstance(place, int) or not isinstance(last, tuple) or last[0] != "constant":
        return None
    after = tree_of(operation, 1, place)
    counts = isinstance(after, tuple) and after[0] == "stablehlo.add"
    if not counts or after[2:] != (place, ("constant", 1)) or not _is_number(init[place]):
        return None
    return place, int(last[1])


def _is_number(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.shape == () and x.dtype.kind in "iu"


@rule("stablehlo.case")
def case(operation: Operation, index: Any) -> Any:
    """The branch of an index; the last one for an index of none."""
    count = len(operation.op.regions)
    if not isinstance(index, TracedArray):
        number = int(index)
        return operation.region(number if 0 <= number < count else count - 1)
    functions = [_branch(operation, number) for number in range(count)]
    is_one = rnp.logical_and(rnp.greater_equal(index, 0), rnp.less(index, count))
    return list(branches.switch(rnp.where(is_one, index, count - 1), functions))


@rule("stablehlo.if")
def if_(operation: Operation, test: Any) -> Any:
    if not isinstance(test, TracedArray):
        return operation.region(0 if bool(test) else 1)
    return list(branches.cond(test, _branch(operation, 0), _branch(operation, 1)))


def _branch(operation: Operation, number: int) -> Callable[[], Any]:
    return lambda: tuple(map(plain, operation.region(number)))
