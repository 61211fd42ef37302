"""Calls of functions with a custom JVP, VJP or batching rule."""

from __future__ import annotations

from rlx.errors import GraphError, ShapeError
from rlx.ir.captures import Captures
from rlx.ir.declaration import op
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.ir.ops.loops import require_carries, require_inputs
from rlx.ir.shape import Shape, format_shape
from rlx.ir.types import TensorType

_FAMILY = "custom"


def _inline(
    *operands: Value,
    body: Graph,
    vjp_body: Graph | None = None,
    jvp_body: Graph | None = None,
    forward: Graph | None = None,
    batching: str | None = None,
    examples: Shape = (),
    example_axes: tuple[str, ...] = (),
) -> tuple[Value, ...]:
    """The nodes of the body, one by one."""
    return operands[0].graph.inline(body, operands)


def _stated(*operands: Value, num_results: int, rule: Graph) -> tuple[Value, ...]:
    """Reference: the first operands, unchanged."""
    return operands[:num_results]


@op(
    _FAMILY,
    Trait.ALL_ELEMENTS,
    decompose=_inline,
    captures=Captures(("body",), unless=("vjp_body", "jvp_body", "forward")),
)
def custom_call(
    *operands: TensorType,
    body: Graph,
    vjp_body: Graph | None = None,
    jvp_body: Graph | None = None,
    forward: Graph | None = None,
    batching: str | None = None,
    examples: Shape = (),
    example_axes: tuple[str, ...] = (),
) -> tuple[TensorType, ...]:
    """Apply `body` to the operands; its derivatives are what the other two bodies say.

    `vjp_body` takes the operands, the results and a cotangent per result, and returns a
    cotangent per operand (those of integers are ignored). `jvp_body` takes the operands, the
    results and a tangent per operand, and returns a tangent per result. A mode without a
    body of its own differentiates `body`. `forward` is `body` as a rule states it: the results
    of a call that was differentiated once are derived from it further on. `batching` is the name
    of the rule by which the call is batched, in the process that states one.

    The derivatives and `forward` are of one example: operands and results have axes of the extents
    `examples` in front, which collectives in the bodies call `example_axes` ("" has no name).
    A rule may be a hundred times what runs, so it is batched where a derivative is taken.
    """
    require_inputs(body, operands)
    results = tuple(output.type for output in body.outputs)
    if len(examples) != len(example_axes):
        raise GraphError(
            f"{len(examples)} axes of examples have {len(example_axes)} names",
            remedy='give a name for each, "" for none',
        )
    batched, operands = results, _of_one(operands, examples)
    results = _of_one(results, examples)
    if forward is not None:
        require_inputs(forward, operands)
        require_carries(forward, results, exactly=True)
    if vjp_body is not None:
        require_inputs(vjp_body, (*operands, *results, *results))
        _require_derivatives(vjp_body, operands, "operand")
    if jvp_body is not None:
        require_inputs(jvp_body, (*operands, *results, *operands))
        _require_derivatives(jvp_body, results, "result")
    return batched


@op(_FAMILY, Trait.ALL_ELEMENTS, decompose=_stated)
def custom_derivative(
    *operands: TensorType, num_results: int, rule: Graph
) -> tuple[TensorType, ...]:
    """The first `num_results` operands, differentiated by `rule` as results of the others.

    While a graph is differentiated, it replaces a `custom_call` of the others; `rule` is that
    one's `vjp_body` or, in forward mode, `jvp_body`.
    """
    return operands[:num_results]


def _of_one(types: tuple[TensorType, ...], examples: Shape) -> tuple[TensorType, ...]:
    """Return the types of one example."""
    for type in types if examples else ():
        if type.shape[: len(examples)] != examples:
            raise ShapeError(
                f"a call for each of {format_shape(examples)} examples has {type}",
                remedy="give every operand and result these axes in front",
            )
    return tuple(type.with_shape(type.shape[len(examples) :]) for type in types)


def _require_derivatives(body: Graph, primals: tuple[TensorType, ...], what: str) -> None:
    if len(body.outputs) != len(primals):
        raise GraphError(
            f"body {body.name!r} has {len(body.outputs)} outputs; it must have one for each of "
            f"{len(primals)} {what}s",
            remedy="return one for each",
        )
    for position, (output, type) in enumerate(zip(body.outputs, primals, strict=True)):
        if type.dtype.is_differentiable and output.type != type:
            raise ShapeError(
                f"output {position} of body {body.name!r} has type {output.type}; "
                f"{what} {position} has type {type}",
                source=output.node.source,
                remedy="cast or reshape that output",
            )


__all__ = ["custom_call", "custom_derivative"]
