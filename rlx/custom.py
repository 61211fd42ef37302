"""Ops of one's own, equal in every way to those that rlx brings.

    def cube(x: TensorType) -> TensorType:
        \"\"\"`x` to the third power.\"\"\"
        return x

    cube = define_op(
        cube,
        reference=lambda x: x**3,
        vjp=lambda at, x: at.cotangent * x * x * 3.0,
        c_source="void cube(const float *x, float *y, int64_t n) { ... }",
    )
    y = cube(graph.input("x", (8,)))

The signature of the inference function declares the op, as in `rlx.ir.declaration`. Rules get the
attributes as keyword arguments. Derivatives and batching are those of `passes.autodiff.registry`
and `passes.vmap.registry`: a mode without a rule is derived from the other one, or an error; an
op without a batching rule is applied to one example after the other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rlx.codegen.c.sources import add_source
from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.registry import Builder, Scope
from rlx.codegen.kernels.registry import kernel as register_kernel
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Address, Prim
from rlx.errors import GraphError
from rlx.ir.declaration import declare_op
from rlx.ir.graph import Value
from rlx.ir.op import OPS, OpDef
from rlx.ir.reference import reference as references
from rlx.passes.autodiff import registry as derivatives
from rlx.passes.autodiff.complex_cotangents import from_rules, to_rules
from rlx.passes.vmap.registry import BatchRule, batch
from rlx.public_names import names_of as _names_of

Rule = Callable[..., Any]


def define_op(
    infer: Rule,
    *,
    reference: Rule,
    kernel: Builder | None = None,
    c_source: str | None = None,
    vjp: Rule | None = None,
    jvp: Rule | None = None,
    zero_derivative: str | None = None,
    vmap: BatchRule | None = None,
) -> OpDef:
    """Declare an op from its type inference, its NumPy meaning and one kernel.

    `kernel` is a builder in the loop language; `c_source` is C text that defines a function of
    the op's name, which takes a pointer per operand and per result, the number of elements of
    each operand (i64), and the attributes (i64 or double), and returns nothing. All arrays are
    dense; results are not cleared before. `zero_derivative` gives the reason why no derivative
    flows through the op.
    """
    name = infer.__name__
    if name in OPS:
        raise GraphError(f"op {name} exists already", remedy="give the function another name")
    if (kernel is None) == (c_source is None):
        raise GraphError(
            f"op {name} needs either a kernel or a C source", remedy="give kernel= or c_source="
        )
    if zero_derivative is not None and (vjp is not None or jvp is not None):
        raise GraphError(
            f"op {name} has a derivative and a reason to have none", remedy="give one of the two"
        )
    doc = inspect.getdoc(infer) or ""
    definition = declare_op(name, "custom", _counted(infer), signature_of=infer, doc=doc)
    references.exact(definition)(reference)
    register_kernel(name)(kernel or _calling(definition, c_source or ""))
    if vjp is not None:
        derivatives.vjp.register(definition, _by_jaxs_convention(vjp))
    if jvp is not None:
        derivatives.jvp.register(definition, jvp)
    if zero_derivative is not None:
        derivatives.zero(definition, because=zero_derivative)
    if vmap is not None:
        batch.register(definition, vmap)
    return definition


def _by_jaxs_convention(rule: Rule) -> Rule:
    """Return a pullback for the registry, of one whose complex cotangents are as JAX's."""

    @functools.wraps(rule)
    def pulled(at: derivatives.Pullback, *operands: Any, **attributes: Any) -> Any:
        given = tuple(None if ct is None else from_rules(ct) for ct in at.cotangents)
        found = rule(replace(at, cotangents=given), *operands, **attributes)
        if isinstance(found, (list, tuple)):
            return [None if ct is None else to_rules(ct) for ct in found]
        return to_rules(found) if isinstance(found, Value) else found

    return pulled


def _counted(infer: Rule) -> Rule:
    """Return `infer` with a check that it returns as many types as its annotation says."""

    @functools.wraps(infer)
    def counted(*operands: Any, **attributes: Any) -> Any:
        found = infer(*operands, **attributes)
        given = len(found) if isinstance(found, tuple) else 1
        declared = OPS[infer.__name__].results
        if declared is not None and given != declared:
            raise GraphError(
                f"op {infer.__name__}: its inference returns {given} types, and its return "
                f"annotation declares {declared}",
                remedy="annotate it with `-> TensorType`, or with a tuple of as many as it returns",
            )
        return found

    return counted


def _calling(definition: OpDef, source: str) -> Builder:
    """Return a kernel that calls the C function of the op's name."""
    add_source(definition.name, source)

    def build(scope: Scope, *arguments: Reader | Writer, **attributes: bool | int | float) -> None:
        operands = [a.value for a in arguments if isinstance(a, Reader)]
        inputs = [scope.k.address(scope.body.inputs[value]) for value in operands]
        outputs = [scope.k.address(b, writable=True) for _, b in scope.body.outputs]
        counts = [scope.extents(value.type.elements) for value in operands]
        scope.body.stored.update(range(len(outputs)))
        numbers = [_number(definition.name, n, value) for n, value in attributes.items()]
        arguments_of_call: list[E | Address] = [*inputs, *outputs, *counts, *numbers]
        scope.k.external(definition.name, arguments_of_call)

    return build


def _number(op: str, name: str, value: object) -> E:
    if isinstance(value, float):
        return const(value, Prim.F64)
    if isinstance(value, int):
        return const(int(value), Prim.I64)
    raise GraphError(
        f"{op}: attribute {name} is {value!r}; a C function takes numbers",
        remedy="leave the attribute out, or build one C function for each of its values",
    )


__dir__ = _names_of(__name__)
