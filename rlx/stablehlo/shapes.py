"""Rules of operations that make, move and join elements, those of computed shapes among them."""

from __future__ import annotations

from typing import Any

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.ir.shape import Extent
from rlx.lax import bit_generators
from rlx.limits import current_budget
from rlx.numpy.indexing import dynamic_slice as block
from rlx.numpy.indexing import dynamic_update_slice as with_block
from rlx.stablehlo.extents import dimension_size, extents_of, plain
from rlx.stablehlo.interpret import Operation, rule
from rlx.stablehlo.types import constant as constant_of
from rlx.tracing.trace import shape_of


def _shape(operation: Operation) -> tuple[Extent, ...]:
    """Return the extents of the result, which its type has."""
    total = 1
    for extent in operation.shape():
        total *= extent
    current_budget().check_elements(total, operation.name)
    return operation.shape()


@rule("stablehlo.constant", "chlo.constant")
def constant(operation: Operation) -> Any:
    return constant_of(operation.op)


@rule("stablehlo.broadcast_in_dim")
def broadcast_in_dim(operation: Operation, x: Any) -> Any:
    shape, axes = operation.shape(), operation.integers("broadcast_dimensions")
    if tuple(shape_of(x)) == shape and axes == tuple(range(len(shape))):
        return x
    return lax.broadcast_in_dim(x, shape, axes)


@rule("stablehlo.dynamic_broadcast_in_dim", takes_numbers=True)
def dynamic_broadcast_in_dim(operation: Operation, x: Any, shape: Any) -> Any:
    extents = extents_of(shape, operation.name)
    return lax.broadcast_in_dim(plain(x), extents, operation.integers("broadcast_dimensions"))


@rule("stablehlo.broadcast")
def broadcast(operation: Operation, x: Any) -> Any:
    return lax.broadcast(x, operation.integers("broadcast_sizes"))


@rule("stablehlo.reshape")
def reshape(operation: Operation, x: Any) -> Any:
    shape = operation.shape()
    return x if tuple(shape_of(x)) == shape else lax.reshape(x, shape)


@rule("stablehlo.dynamic_reshape", takes_numbers=True)
def dynamic_reshape(operation: Operation, x: Any, shape: Any) -> Any:
    return lax.reshape(plain(x), extents_of(shape, operation.name))


@rule("stablehlo.transpose")
def transpose(operation: Operation, x: Any) -> Any:
    return lax.transpose(x, operation.integers("permutation"))


@rule("stablehlo.reverse")
def reverse(operation: Operation, x: Any) -> Any:
    return lax.rev(x, operation.integers("dimensions"))


@rule("stablehlo.concatenate")
def concatenate(operation: Operation, *operands: Any) -> Any:
    return lax.concatenate(list(operands), operation.integer("dimension"))


@rule("stablehlo.pad")
def pad(operation: Operation, x: Any, value: Any) -> Any:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    widths = list(zip(*(operation.integers(name) for name in names), strict=True))
    return lax.pad(x, value, widths) if any(map(any, widths)) else x


@rule("stablehlo.dynamic_pad", takes_numbers=True)
def dynamic_pad(operation: Operation, x: Any, value: Any, *widths: Any) -> Any:
    columns = [extents_of(each, operation.name) for each in widths]
    return lax.pad(plain(x), plain(value), list(zip(*columns, strict=True)))


@rule("stablehlo.iota")
def iota(operation: Operation) -> Any:
    axis = operation.integer("iota_dimension")
    return lax.broadcasted_iota(operation.dtype().numpy, _shape(operation), axis)


@rule("stablehlo.dynamic_iota", takes_numbers=True)
def dynamic_iota(operation: Operation, shape: Any) -> Any:
    extents = extents_of(shape, operation.name)
    axis = operation.integer("iota_dimension")
    return lax.broadcasted_iota(operation.dtype().numpy, extents, axis)


@rule("stablehlo.rng_bit_generator")
def rng_bit_generator(operation: Operation, state: Any) -> Any:
    algorithm = operation.word("rng_algorithm")
    shape, dtype = operation.shape(1), operation.dtype(1).numpy
    return list(bit_generators.rng_bit_generator(state, shape, dtype, algorithm))


@rule("stablehlo.slice")
def slice(operation: Operation, x: Any) -> Any:
    names = ("start_indices", "limit_indices", "strides")
    return lax.slice(x, *(operation.integers(name) for name in names))


@rule("stablehlo.real_dynamic_slice", takes_numbers=True)
def real_dynamic_slice(operation: Operation, x: Any, *bounds: Any) -> Any:
    return lax.slice(plain(x), *(extents_of(each, operation.name) for each in bounds))


@rule("stablehlo.dynamic_slice")
def dynamic_slice(operation: Operation, x: Any, *starts: Any) -> Any:
    return block(x, list(starts), operation.integers("slice_sizes"))


@rule("stablehlo.dynamic_update_slice")
def dynamic_update_slice(_: Operation, x: Any, update: Any, *starts: Any) -> Any:
    return with_block(x, update, list(starts))


@rule("stablehlo.get_dimension_size")
def get_dimension_size(operation: Operation, x: Any) -> Any:
    return dimension_size(shape_of(x)[operation.integer("dimension")], operation.dtype())


@rule("stablehlo.torch_index_select")
def torch_index_select(operation: Operation, x: Any, index: Any) -> Any:
    batch, axis = operation.integer("batch_dims"), operation.integer("dim")
    if not batch:
        return rnp.take(x, index, axis, mode="clip")
    places = rnp.reshape(
        index,
        (*shape_of(index)[:batch], *(1,) * (axis - batch), *shape_of(index)[batch:],
         *(1,) * (len(shape_of(x)) - axis - 1)),
    )  # fmt: skip
    return rnp.take_along_axis(x, places, axis, mode="clip")
