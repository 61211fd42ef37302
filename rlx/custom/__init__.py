"""Custom ops, which passes and back ends treat like built-in ones.

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
attributes as keyword arguments. `define_composite` declares an op by a formula over others.
Derivatives and batching are those of `passes.autodiff.registry` and `passes.vmap.registry`: a mode
without a rule is derived from the other one, or an error; an op without a batching rule is
applied to one example after the other. `apply` applies an op to traced arrays or NumPy's.
What kernels are written in is in `rlx.custom.kernels`. See `docs/own_ops.md`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rlx.codegen.c.sources import add_source
from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.registry import Builder, Scope, ScratchRule
from rlx.codegen.kernels.registry import kernel as register_kernel
from rlx.codegen.kernels.registry import scratch as register_scratch
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Address, Prim
from rlx.errors import GraphError
from rlx.ir import ops as ops
from rlx.ir.composite import composite
from rlx.ir.declaration import declare_op
from rlx.ir.digest import VERSIONS
from rlx.ir.dtype import DType as DType
from rlx.ir.graph import Graph as Graph
from rlx.ir.graph import Node as Node
from rlx.ir.graph import Value as Value
from rlx.ir.op import OPS, OpDef
from rlx.ir.op import Attrs as Attrs
from rlx.ir.op import Trait as Trait
from rlx.ir.ops.requirements import require_dtype as require_dtype
from rlx.ir.reference import reference as references
from rlx.ir.types import TensorType as TensorType
from rlx.passes.autodiff import registry as derivatives
from rlx.passes.autodiff.complex_cotangents import from_rules, to_rules
from rlx.passes.autodiff.errors import NoDerivativeError as NoDerivativeError
from rlx.passes.autodiff.prepare import before_autodiff as before_autodiff
from rlx.passes.autodiff.registry import Pullback as Pullback
from rlx.passes.autodiff.registry import Pushforward as Pushforward
from rlx.passes.lowering.kernel_dispatch import LOGICAL
from rlx.passes.rewrite import Replacement as Replacement
from rlx.passes.rewrite import Rewritten as Rewritten
from rlx.passes.rewrite import apply_rewrites as apply_rewrites
from rlx.passes.rewrite import graph_pass as graph_pass
from rlx.passes.rewrite import rewrite as rewrite
from rlx.passes.vmap.registry import BatchRule, batch, kind_of, unrolled
from rlx.public_names import names_of as _names_of
from rlx.tracing import apply as traced

Rule = Callable[..., Any]
_ALL = (Trait.ALL_ELEMENTS,)


def define_op(
    infer: Rule,
    *,
    reference: Rule,
    kernel: Builder | None = None,
    c_source: str | None = None,
    scratch: ScratchRule | None = None,
    scratch_prim: Prim | None = None,
    traits: tuple[Trait, ...] = _ALL,
    vjp: Rule | None = None,
    jvp: Rule | None = None,
    zero_derivative: str | None = None,
    no_derivative: str | None = None,
    vmap: BatchRule | None = None,
    version: str | None = None,
) -> OpDef:
    """Declare an op from its type inference, its NumPy meaning and one kernel.

    `kernel` is a builder in the loop language; `c_source` is C text that defines a function of
    the op's name, which takes a pointer per operand and per result, the number of elements of
    each operand (i64), and the attributes (i64 or double), and returns nothing. All arrays are
    dense; results are not cleared before. `scratch` returns the bytes of memory that the kernel
    needs besides, from the types of operands and of results and the attributes; the kernel has
    them as `scope.scratch`, in numbers of `scratch_prim` (default: those of the first operand).

    `traits` say what passes may assume; by default that each element of a result may depend on all
    elements of the operands. `zero_derivative` gives the reason why no derivative flows through the
    op, `no_derivative` the reason why there is none: asking for it is an error.

    Compiled programs with the op are kept between processes only with a `version`: a text that
    changes whenever inference, rules or kernel do.
    """
    name = infer.__name__
    if (kernel is None) == (c_source is None):
        raise GraphError(
            f"op {name} needs either a kernel or a C source", remedy="give kernel= or c_source="
        )
    _check(name, vjp, jvp, zero_derivative, no_derivative)
    doc = inspect.getdoc(infer) or ""
    definition = declare_op(
        name, "custom", _counted(infer), traits=traits, signature_of=infer, doc=doc
    )
    references.exact(definition)(reference)
    register_kernel(name)(kernel or _calling(definition, c_source or ""))
    if scratch is not None:
        elements = None if scratch_prim is None else lambda _: scratch_prim
        register_scratch(name, elements=elements)(
            lambda *operands, results, **attributes: scratch([*operands], results, **attributes)
        )
    _register(definition, vjp, jvp, zero_derivative, no_derivative, vmap, version)
    return definition


def define_composite(
    formula: Rule,
    *,
    attributes: type[Attrs] | None = None,
    common_body: Rule | None = None,
    traits: tuple[Trait, ...] = _ALL,
    vjp: Rule | None = None,
    jvp: Rule | None = None,
    zero_derivative: str | None = None,
    no_derivative: str | None = None,
    vmap: BatchRule | None = None,
    one_by_one: str | None = None,
    version: str | None = None,
) -> OpDef:
    """Declare an op by its formula: a function of `Value`s and keyword attributes.

    Types, meaning, kernels, derivatives and batching are those of the formula, where no rule is
    given. With `attributes`, the formula takes such a record after its operands. `one_by_one` is
    the reason why examples of a batch are computed one after the other. `common_body` is another
    formula, for backends without kernels of the first (`passes.lowering.kernel_dispatch`).
    """
    _check(formula.__name__, vjp, jvp, zero_derivative, no_derivative)
    definition: OpDef = composite("custom", *traits, attributes=attributes)(formula)
    if common_body is not None:
        LOGICAL[definition] = common_body
    if one_by_one is not None:
        unrolled(definition, because=one_by_one)
    _register(definition, vjp, jvp, zero_derivative, no_derivative, vmap, version)
    return definition


def apply(definition: OpDef, *arrays: Any, **attributes: Any) -> Any:
    """Apply an op to traced arrays, or to NumPy's; returns an array, or a list of several.

    Arrays are taken in the dtypes that they have.
    """
    return _apply(definition, *arrays, **attributes)


@traced.function
def _apply(definition: OpDef, *arrays: Any, **attributes: Any) -> Any:
    emit = traced.emit if definition.results == 1 else traced.emit_several
    return emit(definition, *arrays, **attributes)


def _check(
    name: str, vjp: Rule | None, jvp: Rule | None, zero: str | None, absent: str | None
) -> None:
    if name in OPS:
        raise GraphError(f"op {name} exists already", remedy="give the function another name")
    given = (vjp is not None or jvp is not None, zero is not None, absent is not None)
    if sum(given) > 1:
        raise GraphError(
            f"op {name} has a derivative and a reason to have none", remedy="give one of the two"
        )


def _register(
    definition: OpDef,
    vjp: Rule | None,
    jvp: Rule | None,
    zero: str | None,
    absent: str | None,
    vmap: BatchRule | None,
    version: str | None,
) -> None:
    if vjp is not None:
        derivatives.vjp.register(definition, _by_jaxs_convention(vjp))
    if jvp is not None:
        derivatives.jvp.register(definition, jvp)
    if zero is not None:
        derivatives.zero(definition, because=zero)
    if absent is not None:
        derivatives.nondifferentiable(definition, because=absent)
    if vmap is not None:
        batch.register(definition, vmap)
    elif kind_of(definition) is None:
        unrolled(definition, because="its definition has no batching rule")
    if version is not None:
        VERSIONS[definition.name] = version


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
