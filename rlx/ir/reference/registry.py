"""The registry of NumPy rules, and their application to one op.

A rule takes the operands as arrays and the attributes as keyword arguments, and returns an
array, or a tuple of arrays for several results. Precision is not its business: f16 and bf16
operands arrive as f32 and its results are rounded once, unless the op only moves elements
(trait MOVEMENT) or is registered as `exact`, whose rules see the stored bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import InternalError, NoRuleError
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Attrs, OpDef, Trait
from rlx.ir.registry import Registry
from rlx.ir.shape import Shape
from rlx.ir.types import TensorType

Array = NDArray[Any]
Rule = Callable[..., Any]
Change: TypeAlias = Callable[[OpDef, Sequence[Array], Attrs, tuple[Array, ...]], tuple[Array, ...]]
"""Gives other results for an op, its operands, its attributes and its results."""

_CHANGE: ContextVar[Change | None] = ContextVar("change of results", default=None)


class ReferenceRegistry(Registry[Rule]):
    """NumPy rules by op; those registered as `exact` see f16 and bf16 as stored."""

    def __init__(self) -> None:
        super().__init__("reference")
        self._exact: set[str] = set()

    def exact(self, *definitions: OpDef) -> Callable[[Rule], Rule]:
        """Return a decorator for a rule that rounds nothing or rounds by itself."""
        self._exact.update(definition.name for definition in definitions)
        return self(*definitions)

    def is_exact(self, definition: OpDef) -> bool:
        rule = self.get(definition)
        by_bodies = rule is None and definition.holds_bodies  # which round by themselves
        return by_bodies or definition.has(Trait.MOVEMENT) or definition.name in self._exact


reference = ReferenceRegistry()


@contextmanager
def changing_results(change: Change | None) -> Iterator[None]:
    """Let `change` replace what every op gives, inside bodies and decompositions, too.

    For error analysis: what other roundings would make of a program. None ends an outer one.
    """
    token = _CHANGE.set(change)
    try:
        yield
    finally:
        _CHANGE.reset(token)


def apply_node(node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Return the results of a node; arrays of its operands' types have results of its types."""
    for operand, array in zip(node.operands, arrays, strict=True):
        type = operand.type
        if type.shape != array.shape or type.dtype.numpy != array.dtype or type.layout is not None:
            return apply_op(node.op, arrays, node.attrs)
    types = tuple([result.type for result in node.results])
    return apply_op(node.op, arrays, node.attrs, types)


def apply_op(
    definition: OpDef,
    arrays: Sequence[Array],
    attrs: Attrs,
    types: tuple[TensorType, ...] | None = None,
) -> tuple[Array, ...]:
    """Return the results of `definition`, checked against its type inference.

    An op without a rule is evaluated by its decomposition. `types` are what was inferred already.
    """
    if types is None:
        operands = tuple(TensorType(as_dtype(array.dtype), array.shape) for array in arrays)
        types = definition.infer_types(operands, attrs)
    if definition.has(Trait.VIEW):
        return (viewed(arrays[0], types[0]),)
    given = list(arrays) if reference.is_exact(definition) else [_widen(a) for a in arrays]
    with np.errstate(all="ignore"):
        computed = _compute(definition, given, attrs)
        pairs = zip(computed, types, strict=True)
        results = tuple(_narrow(np.asarray(array), type.dtype) for array, type in pairs)
    _check(definition, results, types)
    change = _CHANGE.get()
    return results if change is None else change(definition, arrays, attrs, results)


def viewed(array: Array, type: TensorType) -> Array:
    """Return the elements of `array` as others of the same bytes, row by row."""
    if as_dtype(array.dtype) is not type.dtype:
        array = np.ascontiguousarray(array).view(type.dtype.numpy)
    return array.reshape(static_shape(type.shape))


def static_shape(shape: Shape) -> tuple[int, ...]:
    """Return `shape`, whose symbols the interpreter has bound by now."""
    symbolic = [str(extent) for extent in shape if not isinstance(extent, int)]
    if symbolic:
        raise InternalError(f"extents {', '.join(symbolic)} reached a reference rule unbound")
    return tuple(extent for extent in shape if isinstance(extent, int))


def _evaluate_static(graph: Graph, values: dict[Value, Array]) -> None:
    """Evaluate the nodes of a decomposition that `values` does not hold yet, into it."""
    for node in graph.nodes:
        if node.results and node.results[0] in values:
            continue
        if node.op.name == "constant":
            results: tuple[Array, ...] = (node.attribute("value").array,)
        else:
            results = apply_node(node, [values[operand] for operand in node.operands])
        values.update(zip(node.results, results, strict=True))


def _compute(definition: OpDef, arrays: list[Array], attrs: Attrs) -> tuple[Any, ...]:
    rule = reference.get(definition)
    if rule is None:
        return _compute_decomposed(definition, arrays, attrs)
    results = rule(*arrays, **attrs.as_dict())
    return results if isinstance(results, tuple) else (results,)


def _compute_decomposed(definition: OpDef, arrays: list[Array], attrs: Attrs) -> tuple[Array, ...]:
    types = tuple(TensorType(as_dtype(array.dtype), array.shape) for array in arrays)
    body = _decomposition(definition, types, attrs)
    values = dict(zip(body.inputs, arrays, strict=True))
    _evaluate_static(body, values)
    return tuple(values[output] for output in body.outputs)


@functools.lru_cache(maxsize=1024)
def _decomposition(definition: OpDef, types: tuple[TensorType, ...], attrs: Attrs) -> Graph:
    if definition.decompose is None:
        raise NoRuleError(
            f"{definition.name} has neither a reference rule nor a decomposition",
            remedy=f"register one in rlx/ir/reference/{definition.family}.py",
        )
    body = Graph(definition.name)
    inputs = [body.input(f"x{i}", type.shape, type.dtype) for i, type in enumerate(types)]
    results = definition.decompose(*inputs, **attrs.as_dict())
    body.set_outputs([results] if isinstance(results, Value) else results)
    return body


def _widen(array: Array) -> Array:
    return array.astype(np.float32) if as_dtype(array.dtype).is_low_precision else array


def _narrow(array: Array, dtype: DType) -> Array:
    return array.astype(dtype.numpy) if dtype.is_low_precision else array


def _check(definition: OpDef, results: tuple[Array, ...], types: tuple[TensorType, ...]) -> None:
    for result, expected in zip(results, types, strict=True):
        if result.dtype != expected.dtype.numpy or result.shape != expected.shape:
            raise InternalError(
                f"the reference of {definition.name} gave {result.dtype}{list(result.shape)}; "
                f"its type inference says {expected}"
            )
