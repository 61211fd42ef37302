"""Types of results without running anything: `eval_shape`, `ShapeDtypeStruct`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir.dtype import as_array_dtype, as_dtype
from rlx.ir.shape import Shape, product
from rlx.ir.types import TensorType
from rlx.tracing.pytree import tree_flatten, tree_unflatten
from rlx.tracing.trace import element_type, shape_of, source_names
from rlx.tracing.traced_function import Specification, trace
from rlx.tracing.widths import canonical


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """Shape and dtype of an array, without the array."""

    shape: Shape
    dtype: np.dtype[Any]

    def __init__(self, shape: Any, dtype: Any, **_: Any) -> None:
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "dtype", as_array_dtype(dtype).numpy)

    @property
    def type(self) -> TensorType:
        return TensorType(canonical(as_dtype(self.dtype)), self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return product(self.shape)


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the types of the results of `fun` in their tree; arguments are arrays or types."""
    leaves, tree = tree_flatten((args, kwargs))
    inputs = [_specified(f"x{place}", leaf) for place, leaf in enumerate(leaves)]

    def call(arrays: list[Any]) -> Any:
        positional, named = tree_unflatten(tree, arrays)
        return fun(*positional, **named)

    program = trace(call, source_names(fun, "function"), inputs)
    types = [output.type for output in program.graph.outputs]
    return tree_unflatten(program.tree, [ShapeDtypeStruct(t.shape, t.dtype) for t in types])


def _specified(name: str, leaf: Any) -> Specification:
    if isinstance(leaf, ShapeDtypeStruct):
        return Specification(name, leaf.type)
    type = element_type(leaf)
    return Specification(name, TensorType(type.dtype, shape_of(leaf)), type.weak)
