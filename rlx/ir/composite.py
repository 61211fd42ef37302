"""Composite ops: formulas over other ops that get every rule by decomposition.

    @composite("elementwise")
    def silu(x: Value) -> Value:
        \"\"\"`x * sigmoid(x)`.\"\"\"
        return x * sigmoid(x)

The result types come from building the formula on a scratch graph. A room registers a rule
of its own for a composite only for a numerical or measured reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rlx.errors import RlxError
from rlx.ir.captures import Captures
from rlx.ir.declaration import Declaration, by_fields, declare_op
from rlx.ir.demands import is_collecting
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Attrs, OpDef, Trait, make_attrs
from rlx.ir.types import TensorType


def composite(
    family: str,
    *traits: Trait,
    captures: Captures | None = None,
    attributes: type[Attrs] | None = None,
) -> Declaration[Value]:
    """Declare an op by its formula: a function of `Value`s and keyword attributes.

    With `attributes`, the function takes such a record after its operands.
    """

    def declare(given: Callable[..., Any]) -> Any:
        formula = given if attributes is None else by_fields(given, attributes)

        @functools.lru_cache(maxsize=4096)
        def infer_cached(operands: tuple[TensorType, ...], attrs: Attrs) -> Any:
            scratch = Graph("scratch")
            inputs = [scratch.input(f"x{i}", t.shape, t.dtype) for i, t in enumerate(operands)]
            result = formula(*inputs, **attrs.as_dict())
            return result.type if isinstance(result, Value) else tuple(r.type for r in result)

        definition: OpDef

        def infer(*operands: TensorType, **attributes: Any) -> Any:
            attrs = make_attrs(definition, attributes)
            try:
                infer_formula = infer_cached.__wrapped__ if is_collecting() else infer_cached
                return infer_formula(operands, attrs)
            except RlxError as error:  # placed in the scratch graph: name the composite instead
                raise type(error)(error.message, remedy=error.remedy) from error

        definition = declare_op(
            formula.__name__,
            family,
            infer,
            signature_of=formula,
            traits=traits,
            doc=formula.__doc__ or "",
            decompose=formula,
            captures=captures,
        )
        return definition

    return declare
